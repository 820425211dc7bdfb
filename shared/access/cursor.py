"""Cursors: a position in a list, signed and bound to the filter it was made for, so it fits no other list."""

import base64
import hashlib
import hmac

from shared.db import get_secrets
from shared.errors import InvalidRequest

_SIGNATURE_BYTES = 16


async def make_cursor(position: str | None, filter_: str) -> str | None:
    if position is None:
        return None
    signature = _sign((await get_secrets().get()).signing_key, position, filter_)
    return base64.urlsafe_b64encode(signature + position.encode()).decode().rstrip("=")


async def read_cursor(cursor: str | None, filter_: str) -> str | None:
    if cursor is None:
        return None
    signature, position = _split(cursor)
    if not hmac.compare_digest(signature, _sign((await get_secrets().get()).signing_key, position, filter_)):
        raise _unusable()
    return position


def _split(cursor: str) -> tuple[bytes, str]:
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:].decode()
    except ValueError:
        raise _unusable() from None


def _sign(key: str, position: str, filter_: str) -> bytes:
    message = f"cursor\n{len(filter_)}\n{filter_}\n{position}".encode()  # the length tells where the filter ends
    return hmac.new(key.encode(), message, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _unusable() -> InvalidRequest:
    return InvalidRequest(
        "This cursor does not belong to this list. Use `cursor` from the answer before, with the same filters,"
        " or leave it out to start from the beginning.",
        code="invalid_cursor",
    )
