"""Client of the API for external scanners: three signed requests. It uses only the standard library, so that other
scanners can start from it."""

import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CLAIM = "/api/v1/internal/scans/claim"
RESULTS = "/api/v1/webhooks/scan-results"
TIMEOUT = 30.0
PAUSES = (0.5, 2.0)  # seconds before the second and third attempts
MAX_RESPONSE_BYTES = 10 * 1024 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PlatformUnavailable(Exception):
    """No response, or a temporary error: the request may be retried later."""


class RequestRefused(Exception):
    """The platform rejected the request."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Claim(NamedTuple):
    id: str
    skill_name: str
    content_hash: str
    files_path: str


class ScannerClient:
    def __init__(self, url: str, provider: str, secret: str) -> None:
        self.url = url.rstrip("/")
        self.provider = provider
        self._secret = secret.encode()
        # Use the proxy of the environment, but never for this machine.
        direct = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
        self._opener = urllib.request.build_opener(_NoRedirect, *direct)

    def claim(self) -> Claim | None:
        found = self._post(CLAIM, {})["claim"]
        if found is None:
            return None
        return Claim(found["claimId"], found["skillName"], found["contentHash"], found["filesPath"])

    def files(self, claim: Claim) -> dict[str, bytes]:
        return dict(self._files(claim))

    def report(self, claim: Claim, result: Mapping[str, Any]) -> None:
        named = {"claimId": claim.id, "skillName": claim.skill_name, "contentHash": claim.content_hash}
        self._post(RESULTS, {**named, "provider": self.provider, **result})

    def _files(self, claim: Claim) -> Iterator[tuple[str, bytes]]:
        after: str | None = ""
        while after is not None:
            page = self._post(claim.files_path, {"skillName": claim.skill_name, "claimId": claim.id, "after": after})
            for file in page["files"]:
                yield file["path"], _bytes(file)
            after = page["nextAfter"]

    def _post(self, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Retry with a new signature while the platform is unavailable: reporting twice has no further effect."""
        for pause in PAUSES:
            try:
                return self._post_once(path, fields)
            except PlatformUnavailable:
                time.sleep(pause)
        return self._post_once(path, fields)

    def _post_once(self, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"nonce": secrets.token_hex(16), **fields}).encode()
        request = urllib.request.Request(f"{self.url}{path}", body, self._headers(path, body))  # noqa: S310 - checked
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                decoded: dict[str, Any] = json.loads(response.read(MAX_RESPONSE_BYTES))
                return decoded
        except urllib.error.HTTPError as error:
            with error:
                raise _error_from(error) from error
        except (OSError, ValueError) as error:
            raise PlatformUnavailable(f"no valid response from {self.url} ({type(error).__name__})") from error

    def _headers(self, path: str, body: bytes) -> dict[str, str]:
        timestamp = str(int(time.time()))
        message = f"POST\n{path}\n{timestamp}\n".encode() + body
        return {
            "content-type": "application/json",
            "x-scan-provider": self.provider,
            "x-scan-timestamp": timestamp,
            "x-scan-signature": hmac.new(self._secret, message, hashlib.sha256).hexdigest(),
        }


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signed request must not follow redirects."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _bytes(file: Mapping[str, str]) -> bytes:
    return base64.b64decode(file["content"]) if file["encoding"] == "base64" else file["content"].encode()


def _error_from(error: urllib.error.HTTPError) -> Exception:
    if error.code == 429 or error.code >= 500:
        return PlatformUnavailable(f"{error.url} returned {error.code}")
    try:
        body = json.loads(error.read(MAX_RESPONSE_BYTES))["error"]
        return RequestRefused(error.code, body["code"], body["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return RequestRefused(error.code, "unknown", f"{error.url} returned {error.code}")
