"""Cursors: a position in a list, signed together with the list's filter, so it is valid for no other list."""

import base64

from shared.access.signing import is_same, sign
from shared.errors import InvalidRequest

_SIGNATURE_BYTES = 16  # half an HMAC-SHA256: short enough for an address


async def make_cursor(position: str | None, filter_: str) -> str | None:
    if position is None:
        return None
    signature = bytes.fromhex(await _signature(position, filter_))
    return base64.urlsafe_b64encode(signature + position.encode()).decode().rstrip("=")


async def read_cursor(cursor: str | None, filter_: str) -> str | None:
    if cursor is None:
        return None
    signature, position = _split(cursor)
    if not is_same(await _signature(position, filter_), signature):
        raise _invalid()
    return position


def _split(cursor: str) -> tuple[str, str]:
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return raw[:_SIGNATURE_BYTES].hex(), raw[_SIGNATURE_BYTES:].decode()
    except ValueError:
        raise _invalid() from None


async def _signature(position: str, filter_: str) -> str:
    signature = await sign("cursor", f"{len(filter_)}\n{filter_}\n{position}")  # the length says where the filter ends
    return signature[: 2 * _SIGNATURE_BYTES]


def _invalid() -> InvalidRequest:
    return InvalidRequest(
        "This cursor does not belong to this list. Use `cursor` of the previous page with the same filters, or omit it"
        " to start from the beginning.",
        code="invalid_cursor",
    )
