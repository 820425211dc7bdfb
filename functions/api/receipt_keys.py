"""The public keys that verify receipts."""

import msgspec

from functions.http.answer import REVALIDATE, Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.receipt_signing import PublicKey, get_public_keys


class ReceiptKeys(msgspec.Struct, frozen=True):
    """Newest first. A key that was replaced stays listed, for what it signed."""

    keys: list[PublicKey]


@operation("Public keys of receipts", gives=ReceiptKeys, cached=True)
async def list_keys(request: Request) -> Answer:
    return Answer(ReceiptKeys(await get_public_keys()), cache=REVALIDATE)


ROUTES = {"GET /.well-known/vskill-keys.json": list_keys}
