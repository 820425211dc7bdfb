"""AWS Signature Version 4: headers of a request, or an address that works without credentials for a while.

By hand, because the SDK's signer takes longer to import than most requests take.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None = None
    expires_at: datetime | None = None


class Target(NamedTuple):
    """Where a request goes. `path` is encoded already."""

    service: str
    region: str
    host: str
    path: str = "/"


def signed_headers(
    method: str, target: Target, headers: Mapping[str, str], body: bytes, credentials: Credentials, at: datetime
) -> dict[str, str]:
    """The headers to send. Names in lower case."""
    hashed = hashlib.sha256(body).hexdigest()
    signed = {**headers, "host": target.host, "x-amz-date": f"{at:%Y%m%dT%H%M%SZ}"}
    if target.service == "s3":
        signed["x-amz-content-sha256"] = hashed
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    signature = _signature(method, target, "", signed, hashed, credentials, at)
    credential = f"{credentials.access_key}/{_scope(target, at)}"
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credential}, SignedHeaders={_names(signed)}, Signature={signature}"
    )
    return signed


def signed_query(target: Target, query: Mapping[str, str], credentials: Credentials, at: datetime, seconds: int) -> str:
    """The query of an address for a GET within so many seconds."""
    wanted = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{_scope(target, at)}",
        "X-Amz-Date": f"{at:%Y%m%dT%H%M%SZ}",
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": credentials.token} if credentials.token else {}),
    }
    encoded = "&".join(sorted(f"{encode(name)}={encode(value)}" for name, value in wanted.items()))
    signature = _signature("GET", target, encoded, {"host": target.host}, UNSIGNED, credentials, at)
    return f"{encoded}&X-Amz-Signature={signature}"


def encode(text: str, keep: str = "") -> str:
    return quote(text, safe=f"-._~{keep}")


def _signature(
    method: str,
    target: Target,
    query: str,
    headers: Mapping[str, str],
    hashed_body: str,
    credentials: Credentials,
    at: datetime,
) -> str:
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)]
    canonical = "\n".join([method, target.path, query, *lines, "", _names(headers), hashed_body])
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([_ALGORITHM, f"{at:%Y%m%dT%H%M%SZ}", _scope(target, at), hashed])
    return hmac.digest(_signing_key(credentials.secret_key, _scope(target, at)), text.encode(), "sha256").hex()


@lru_cache(maxsize=8)
def _signing_key(secret_key: str, scope: str) -> bytes:
    """The same for a service all day."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _names(headers: Mapping[str, str]) -> str:
    return ";".join(sorted(headers))


def _scope(target: Target, at: datetime) -> str:
    return f"{at:%Y%m%d}/{target.region}/{target.service}/aws4_request"
