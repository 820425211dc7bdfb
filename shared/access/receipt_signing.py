"""Signatures of receipts: Ed25519, under a key that only the functions that publish can read.

`sign_receipt` is the only place that signs, so a key service can take the place of the secret. Public keys are records
that are never removed: what an older key signed can be verified after a rotation. A key is listed before it is used.
"""

import base64
import hashlib
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from shared.db import get_kv, get_secrets, now
from shared.errors import ConditionFailed
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, KV, Key, Put, query_all

ALGORITHM = "ed25519"
_KEYS = "receipt-key"
_listed: MutableMapping[KV, set[str]] = WeakKeyDictionary()  # which keys each store of this process has


class Signature(NamedTuple):
    keyid: str
    sig: bytes


class PublicKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    keyid: str
    algorithm: str
    public_key: str  # base64 of its 32 bytes
    since: datetime


async def sign_receipt(message: bytes) -> Signature | None:
    """None where the process has no key: it does not publish, or a test does."""
    secret = await get_secrets().find_receipt_key()
    if secret is None:
        return None
    # Imported here: it takes 20 ms, and most functions never sign.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"receipt key 1\n" + secret.encode()).digest())
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    keyid = hashlib.sha256(public).hexdigest()[:32]
    await _list(keyid, public)
    return Signature(keyid, key.sign(message))


async def get_public_keys() -> list[PublicKey]:
    """Newest first, also those that are no longer used."""
    rows = await query_all(get_kv(), _KEYS)
    keys = [msgspec.json.decode(row.text, type=PublicKey) for row in rows]
    return sorted(keys, key=lambda key: key.since, reverse=True)


async def _list(keyid: str, public: bytes) -> None:
    """Once per process and key."""
    kv = get_kv()
    if keyid in _listed.setdefault(kv, set()):
        return
    listed = PublicKey(keyid=keyid, algorithm=ALGORITHM, public_key=base64.b64encode(public).decode(), since=now())
    with suppress(ConditionFailed):  # another process has listed it
        await kv.put(Put(Key(_KEYS, keyid), encode(listed), expect=ABSENT))
    _listed[kv].add(keyid)
