"""AWS through its SDK, for what shared/storage/aws.py does not do itself. Imported only where it is needed, since that
takes longer than importing all the rest. One client per service, kept for the life of the process."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import aioboto3
import aiobotocore.session
import orjson
from aiobotocore.parsers import AioJSONParser, AioResponseParserFactory
from aiohttp import ClientPayloadError
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import HTTPClientError
from botocore.parsers import ResponseParserError
from botocore.serialize import JSONSerializer

from shared.settings import Settings
from shared.storage.http_client import UnreadableResponse

# Short timeouts: a store call that hangs must leave its handler time to respond.
_QUICK = Config(
    connect_timeout=1,
    read_timeout=2,
    max_pool_connections=50,  # the default of 10 caps a wide gather
    retries={"mode": "standard", "total_max_attempts": 3},
    parameter_validation=False,
    user_agent="vskill-platform",  # the SDK rebuilds its own for every request
    s3={"addressing_style": "path"},
)
_PATIENT = _QUICK.merge(Config(read_timeout=10, signature_version="s3v4"))  # else addresses are signed the old way
# DynamoKV retries by itself, starting after milliseconds; the SDK waits up to a second.
_ONCE = _QUICK.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
# A judgement takes seconds. No retries here: shared/evidence/judge.py decides whether one is worth its cost.
_JUDGE = _ONCE.merge(Config(connect_timeout=3, read_timeout=70))
_CONFIGS = {"s3": _PATIENT, "dynamodb": _ONCE, "bedrock-runtime": _JUDGE}


class AwsSdk:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._session = _session()
        self._clients: dict[str, Any] = {}
        self._connecting = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        client = await self._client(service)
        try:
            result: dict[str, Any] = await getattr(client, xform_name(operation))(**params)
        except ResponseParserError as error:
            raise UnreadableResponse(error=error) from error
        if (service, operation) == ("s3", "GetObject"):
            try:
                async with result["Body"] as body:  # releases the connection, even if the body is truncated
                    return {**result, "Body": await body.read()}
            except ClientPayloadError as error:
                raise HTTPClientError(error=error) from error
        return result

    async def sign_url(self, service: str, operation: str, params: Mapping[str, Any], seconds: int) -> str:
        """An address that does this one call, for a client without credentials. Nothing is sent."""
        client = await self._client(service)
        url: str = await client.generate_presigned_url(xform_name(operation), Params=params, ExpiresIn=seconds)
        return url

    async def close(self) -> None:
        await self._stack.aclose()
        self._clients.clear()

    async def _client(self, service: str) -> Any:
        if service not in self._clients:
            async with self._connecting:  # parallel first calls share one client
                if service not in self._clients:
                    self._clients[service] = await self._connect(service)
        return self._clients[service]

    async def _connect(self, service: str) -> Any:
        endpoint = self._endpoint(service)
        client = self._session.client(
            service,
            region_name=self.settings.region,
            endpoint_url=endpoint,
            # An emulator has no certificate; reading the authorities for it takes 30 ms per client.
            verify=False if (endpoint or "").startswith("http://") else None,
            config=_CONFIGS.get(service, _QUICK),
        )
        connected = await self._stack.enter_async_context(client)
        if connected.meta.service_model.resolved_protocol == "json":
            # A private name. If botocore drops it, requests are built as before: slower, not wrong.
            connected._serializer = _PlainJsonSerializer()
        return connected

    def _endpoint(self, service: str) -> str | None:
        """No emulator has Bedrock, so its endpoint is never the emulator's."""
        settings = self.settings
        if service != "bedrock-runtime":
            return settings.endpoint_url
        return settings.bedrock_endpoint_url or f"https://bedrock-runtime.{settings.region}.{_suffix(settings.region)}"


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


@cache
def _session() -> aioboto3.Session:
    """One per process: each would read the descriptions of all services again."""
    session = aiobotocore.session.AioSession()
    session.register_component("response_parser_factory", _PlainJsonFactory())
    return aioboto3.Session(botocore_session=session)


class _PlainJsonFactory(AioResponseParserFactory):
    def create_parser(self, protocol_name: str) -> Any:
        if protocol_name == "json":  # DynamoDB, SQS, Secrets Manager
            return _PlainJsonParser()
        return super().create_parser(protocol_name)


class _PlainJsonParser(AioJSONParser):
    """Returns successful responses as plain JSON: walking botocore's shapes is most of the cost of a batch read."""

    async def parse(self, response: dict[str, Any], shape: Any) -> Any:
        if response["status_code"] >= 300:
            return await super().parse(response, shape)
        try:
            parsed = orjson.loads(response["body"] or b"{}")
        except orjson.JSONDecodeError as error:  # truncated on the way: worth a retry
            raise HTTPClientError(error=error) from error
        parsed["ResponseMetadata"] = {"HTTPStatusCode": response["status_code"]}
        return parsed


class _PlainJsonSerializer(JSONSerializer):
    """Sends parameters as plain JSON, for the same reason."""

    def serialize_to_request(self, parameters: Mapping[str, Any], operation_model: Any) -> dict[str, Any]:
        request: dict[str, Any] = super().serialize_to_request({}, operation_model)
        return {**request, "body": orjson.dumps(parameters)}
