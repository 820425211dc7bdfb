"""Idempotency keys: for a day, a repeated request with the same key gets the response of the first one.

A key belongs to the caller that used it, known by its admin token or its address, both kept as keyed hashes only. The
same key of another caller is simply another key, so no caller gets the response or the upload token of another.

A request for several skills is one request: its key is taken before anything else, so that a different body is refused
as a whole. The outcome of each skill is stored as a part: a concurrent request, or a retry after a crash, resumes from
there. The first request to have all outcomes stores them, and every other one returns those.
"""

from typing import NamedTuple

import msgspec

from shared.access.auth import find_token, sha256_of
from shared.access.limits import network_of
from shared.access.signing import sign
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Unprocessable
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Expect, Key, Put
from shared.timing import IDEMPOTENCY_TTL

_PENDING: Expect = {"isAnswered": 0}


class Idempotency(NamedTuple):
    """A client's key for one request, and the hash of its body."""

    key: str
    body_hash: str
    part: str = "."  # of a request for several skills
    expires_at: int | None = None  # of a part: that of the whole request
    caller: str = ""  # a keyed hash

    @property
    def record_key(self) -> Key:
        return Key(f"idem:{self.caller}:{self.key}", self.part)


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The submission of one skill, or why there is none."""

    id: str | None = None
    flag: str | None = None
    code: str = ""
    message: str = ""


class StoredResponse(StoredOutcome, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    body_hash: str
    expires_at: int = 0
    outcomes: list[StoredOutcome] | None = None  # of several skills; None: not all are known yet
    is_first: bool = False


async def caller_of(authorization: str | None, ip: str) -> str:
    """An unknown bearer token identifies no caller: clients send placeholders that many of them have in common."""
    scheme, _, token = (authorization or "").partition(" ")
    known = await find_token(sha256_of(token)) if scheme.lower() == "bearer" and token.strip() else None
    return await sign("idempotency", f"token {known.sha256}" if known else f"address {network_of(ip)}")


async def find_stored_response(idempotency: Idempotency) -> StoredResponse | None:
    doc = await get_kv().get(idempotency.record_key)
    if doc is None:
        return None
    stored = _RESPONSE.decode(doc)
    if stored.body_hash != idempotency.body_hash:
        raise Unprocessable(
            "This Idempotency-Key was already used for a different request. Use a new key for a new request.",
            code="idempotency_key_reused",
        )
    return stored


def response_put(idempotency: Idempotency, submission_id: str, flag: str | None = None) -> Put:
    stored = StoredResponse(body_hash=idempotency.body_hash, id=submission_id, flag=flag)
    return Put(idempotency.record_key, encode(stored), {"expiresAt": _expires_at(idempotency)}, ABSENT)


async def take_key(idempotency: Idempotency) -> StoredResponse:
    """Takes the key for this request, or returns what a concurrent request has stored under it so far."""
    taken = StoredResponse(body_hash=idempotency.body_hash, expires_at=_expires_at(idempotency))
    try:
        await get_kv().put(_whole_put(idempotency, taken, ABSENT))
    except ConditionFailed:
        earlier = await find_stored_response(idempotency)
        if earlier is None:
            raise
        return earlier
    return msgspec.structs.replace(taken, is_first=True)


async def store_outcomes(
    idempotency: Idempotency, taken: StoredResponse, outcomes: list[StoredOutcome]
) -> list[StoredOutcome]:
    """The outcomes of the request that stored them first."""
    stored = msgspec.structs.replace(taken, outcomes=outcomes, is_first=False)
    try:
        await get_kv().put(_whole_put(idempotency, stored, _PENDING))
    except ConditionFailed:
        earlier = await find_stored_response(idempotency)
        return outcomes if earlier is None or earlier.outcomes is None else earlier.outcomes
    return outcomes


def part_of(idempotency: Idempotency, taken: StoredResponse, number: int) -> Idempotency:
    """It expires together with the whole request, so that a key is never half free."""
    return idempotency._replace(part=f"{number:03d}", expires_at=taken.expires_at)


_RESPONSE = msgspec.json.Decoder(StoredResponse)


def _whole_put(idempotency: Idempotency, stored: StoredResponse, expect: Expect) -> Put:
    attrs = {"expiresAt": stored.expires_at, "isAnswered": int(stored.outcomes is not None)}
    return Put(idempotency.record_key, encode(stored), attrs, expect)


def _expires_at(idempotency: Idempotency) -> int:
    return idempotency.expires_at or int((now() + IDEMPOTENCY_TTL).timestamp())
