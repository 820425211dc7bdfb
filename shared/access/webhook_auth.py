"""Authentication of external scanners: each request is signed with the scanner's own secret, at most five minutes old,
and accepted once. Nothing in a request is parsed before its signature is verified."""

import secrets
from collections.abc import Mapping
from datetime import datetime

from shared.access.signing import hmac_of, is_same
from shared.db import get_kv, get_secrets, get_settings, now
from shared.errors import BadSignature, ConditionFailed
from shared.settings import find_whole_number
from shared.storage.kv import ABSENT, Key, Put
from shared.timing import SIGNATURE_AGE

PROVIDER = "x-scan-provider"
TIMESTAMP = "x-scan-timestamp"  # seconds since 1970
SIGNATURE = "x-scan-signature"  # hex


def signature_of(secret: str, route: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over method, path and timestamp, each on a line, then the raw body. `route` is "METHOD /path"."""
    method, _, path = route.partition(" ")
    head = f"{method}\n{path}\n{timestamp}\n".encode(errors="surrogatepass")
    return hmac_of(secret, head + body)


async def authenticate(route: str, headers: Mapping[str, str], body: bytes) -> str:
    """The name of the scanner that signed the request. Raises BadSignature otherwise."""
    provider, timestamp, signature = (headers.get(name, "") for name in (PROVIDER, TIMESTAMP, SIGNATURE))
    stand_in = secrets.token_hex(32)
    secret = await _find_secret(provider)
    expected = signature_of(secret or stand_in, route, timestamp, body)  # the same work for an unknown name
    if not is_same(expected, signature) or secret is None:
        raise BadSignature(f"Invalid signature: check the headers {PROVIDER}, {TIMESTAMP} and {SIGNATURE}.")
    at = now()
    _check_age(timestamp, at)
    await _take_once(provider, signature, at)
    return provider


async def _find_secret(provider: str) -> str | None:
    values = await get_secrets().get()
    return values.find_webhook_secret(provider) if provider in get_settings().external_scanners else None


def _check_age(timestamp: str, at: datetime) -> None:
    sent_at = find_whole_number(timestamp, highest=10**12)
    if sent_at is None or abs(at.timestamp() - sent_at) > SIGNATURE_AGE.total_seconds():
        raise BadSignature(
            f"{TIMESTAMP} must be the current Unix time in seconds, at most 5 minutes off. Check your clock.",
            code="expired_signature",
        )


async def _take_once(provider: str, signature: str, at: datetime) -> None:
    expires_at = int((at + 2 * SIGNATURE_AGE).timestamp()) + 1  # the clock may be ahead, too
    seen = Put(Key(f"seen-signature:{provider}:{signature}"), "{}", {"expiresAt": expires_at}, ABSENT)
    try:
        await get_kv().put(seen)
    except ConditionFailed as error:
        raise BadSignature(
            "This request was already received. Sign a new one with another nonce.", code="replayed_signature"
        ) from error
