"""The only module that calls AWS: signed requests over kept connections, for the four services of every request.

The SDK takes two thirds of a cold start to import. It is loaded for what only it can do: Bedrock, and settings of the
process that need more than this (a proxy, a profile, FIPS endpoints).
"""

import asyncio
import os
import random
import re
import ssl
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)

from shared.settings import Settings
from shared.storage.credentials import CredentialSource, is_supported
from shared.storage.http_client import BrokenResponse, HttpClient, Response
from shared.storage.signature import Target, encode, signed_headers, signed_query

if TYPE_CHECKING:
    from shared.storage.aws_sdk import AwsSdk

# Short timeouts: a store call that hangs must leave its handler time to respond.
CONNECT_SECONDS = 1.0


class Service(NamedTuple):
    target: str = ""  # of the operations of a JSON service
    json_version: str = "1.0"
    silence_seconds: float = 2.0
    attempts: int = 3


SERVICES = {
    "dynamodb": Service("DynamoDB_20120810", attempts=1),  # DynamoKV retries by itself, starting after milliseconds
    "sqs": Service("AmazonSQS"),
    "secretsmanager": Service("secretsmanager", "1.1"),
    "s3": Service(silence_seconds=10),
}
_UNUSUAL = re.compile(r"AWS_(USE_FIPS_ENDPOINT|USE_DUALSTACK_ENDPOINT|CA_BUNDLE|ENDPOINT_URL_\w+)", re.ASCII)
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_THROTTLED = re.compile(r"Throttl|TooManyRequests|RequestLimit|SlowDown|RequestTimeout|PriorRequestNotComplete")
_S3_CODE = re.compile(rb"<Code>([A-Za-z0-9.]{1,100})</Code>")


class Aws:
    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        silence_seconds: float | None = None,  # to wait for an answer; None: as each service is expected to take
    ) -> None:
        self.settings = settings
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._credentials = CredentialSource(clock)
        self._http: dict[str, HttpClient] = {}
        self._sdk: AwsSdk | None = None

    async def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ClientError for a response that is an error, BotoCoreError where there is none."""
        if self._needs_sdk(service):
            return await self._load_sdk().call(service, operation, params)
        for attempt in range(SERVICES[service].attempts - 1):
            try:
                return await self._once(service, operation, params)
            except (ClientError, BotoCoreError) as error:
                if not _is_transient(error):
                    raise
            await asyncio.sleep(random.random() * 2**attempt)  # noqa: S311 - spreads load, hides nothing
        return await self._once(service, operation, params)

    async def sign_url(self, service: str, operation: str, params: Mapping[str, Any], seconds: int) -> str:
        """An address that does this one call, for a client without credentials. Nothing is sent."""
        if self._needs_sdk(service) or (service, operation) != ("s3", "GetObject"):
            return await self._load_sdk().sign_url(service, operation, params, seconds)
        query = {_SIGNED[name]: str(value) for name, value in params.items() if name in _SIGNED}
        target, origin = self._target(service, _object_path(params))
        signed = signed_query(target, query, await self._credentials.get(), self._clock(), seconds)
        return f"{origin}{target.path}?{signed}"

    async def close(self) -> None:
        for client in self._http.values():
            client.close()
        if self._sdk is not None:
            await self._sdk.close()

    def _needs_sdk(self, service: str) -> bool:
        if service not in SERVICES or not is_supported(os.environ):
            return True
        if self.settings.endpoint_url:  # an emulator on this machine
            return False
        return any(map(os.environ.get, _PROXIES)) or any(map(_UNUSUAL.fullmatch, os.environ))

    def _load_sdk(self) -> "AwsSdk":
        if self._sdk is None:
            from shared.storage.aws_sdk import AwsSdk

            self._sdk = AwsSdk(self.settings)
        return self._sdk

    async def _once(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        method, path, headers, body = _request(service, operation, params)
        target, origin = self._target(service, path)
        signed = signed_headers(method, target, headers, body, await self._credentials.get(), self._clock())
        response = await self._send(service, origin, method, path, signed, body)
        return _parsed(service, operation, response)

    async def _send(
        self, service: str, origin: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        silence = self._silence_seconds or SERVICES[service].silence_seconds
        try:
            return await self._client(origin).request(method, path, headers, body, silence)
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=origin, error=error) from error
        except BrokenResponse as error:
            raise HTTPClientError(error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=origin, error=error) from error

    def _client(self, origin: str) -> HttpClient:
        if origin not in self._http:
            parts = urlsplit(origin)
            tls = ssl.create_default_context() if parts.scheme == "https" else None
            self._http[origin] = HttpClient(parts, tls, CONNECT_SECONDS)
        return self._http[origin]

    def _target(self, service: str, path: str) -> tuple[Target, str]:
        region = self.settings.region
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        origin = (self.settings.endpoint_url or f"https://{service}.{region}.{suffix}").rstrip("/")
        return Target(service, region, urlsplit(origin).netloc, path), origin


class _Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def _request(service: str, operation: str, params: Mapping[str, Any]) -> _Request:
    agent = {"user-agent": "vskill-platform"}
    if service != "s3":
        about = SERVICES[service]
        kind = f"application/x-amz-json-{about.json_version}"
        named = {**agent, "content-type": kind, "x-amz-target": f"{about.target}.{operation}"}
        return _Request("POST", "/", named, orjson.dumps(params))
    if operation in ("HeadBucket", "CreateBucket"):
        return _Request("HEAD" if operation == "HeadBucket" else "PUT", f"/{encode(params['Bucket'])}", agent, b"")
    method = {"GetObject": "GET", "PutObject": "PUT"}[operation]
    return _Request(method, _object_path(params), agent, params.get("Body", b""))


def _object_path(params: Mapping[str, Any]) -> str:
    return f"/{encode(params['Bucket'])}/{encode(params['Key'], keep='/')}"


_SIGNED = {
    "ResponseContentType": "response-content-type",
    "ResponseContentDisposition": "response-content-disposition",
    "ResponseCacheControl": "response-cache-control",
}


def _parsed(service: str, operation: str, response: Response) -> dict[str, Any]:
    metadata = {"HTTPStatusCode": response.status, "RequestId": response.headers.get("x-amzn-requestid", "")}
    if service == "s3":
        if response.status >= 300:
            found = _S3_CODE.search(response.body)
            code = found[1].decode() if found else str(response.status)
            raise ClientError({"Error": {"Code": code, "Message": ""}, "ResponseMetadata": metadata}, operation)
        return {"Body": response.body, "ResponseMetadata": metadata}
    answer = _json_in(response)
    if response.status >= 300:
        about = {"Code": _error_code(response, answer), "Message": answer.get("message") or answer.get("Message") or ""}
        raise ClientError({**answer, "Error": about, "ResponseMetadata": metadata}, operation)
    return {**answer, "ResponseMetadata": metadata}


def _json_in(response: Response) -> dict[str, Any]:
    """Damaged on the way, or cut off: worth a retry."""
    if response.headers.get("x-amz-crc32", str(zlib.crc32(response.body))) != str(zlib.crc32(response.body)):
        raise HTTPClientError(error="The checksum of the response is wrong.")
    try:
        answer = orjson.loads(response.body or b"{}")
    except orjson.JSONDecodeError as error:
        if response.status >= 300:  # of a gateway on the way: the status says enough
            return {}
        raise HTTPClientError(error=error) from error
    return answer if isinstance(answer, dict) else {}


def _error_code(response: Response, answer: Mapping[str, Any]) -> str:
    """SQS names its old code in a header of its own; some services add a namespace or an address to the name."""
    old = response.headers.get("x-amzn-query-error", "").partition(";")[0]
    code = old or response.headers.get("x-amzn-errortype") or answer.get("__type") or str(response.status)
    return str(code).partition(":")[0].rpartition("#")[2]


def _is_transient(error: ClientError | BotoCoreError) -> bool:
    if not isinstance(error, ClientError):
        return isinstance(error, (HTTPClientError, EndpointConnectionError))
    is_throttled = _THROTTLED.search(error.response["Error"]["Code"]) is not None
    return is_throttled or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
