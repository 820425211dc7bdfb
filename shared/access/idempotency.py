"""One request, one answer: what was answered under a client's own key is answered the same for a day.

A request for several skills is one request: its key is taken before anything is done under it, so that another body is
refused whole. What becomes of each skill is remembered as a part of it: a twin, or a retry after a crash, goes on where
the first one is. Who has all answers first writes them down, and from then on they are everybody's.
"""

from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Unprocessable
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Expect, Key, Put
from shared.timing import IDEMPOTENCY_TTL

_NOT_ANSWERED: Expect = {"isAnswered": 0}


class Idempotency(NamedTuple):
    """A client's own key for one request, and what the request said."""

    key: str
    body_hash: str
    part: str = "."  # of a request for several skills
    expires_at: int | None = None  # a part: with its whole

    @property
    def record_key(self) -> Key:
        return Key(f"idem:{self.key}", self.part)


class RememberedOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one skill was answered with: its submission, or why there is none."""

    id: str | None = None
    flag: str | None = None
    code: str = ""
    message: str = ""


class Answered(RememberedOutcome, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    body_hash: str
    expires_at: int = 0
    outcomes: list[RememberedOutcome] | None = None  # of several skills; None: not all of them are known yet
    is_first: bool = False


async def find_answered(idempotency: Idempotency) -> Answered | None:
    doc = await get_kv().get(idempotency.record_key)
    if doc is None:
        return None
    answered = _ANSWERED.decode(doc)
    if answered.body_hash != idempotency.body_hash:
        raise Unprocessable(
            "This Idempotency-Key was used for another request. Use a new key for a new request.",
            code="idempotency_key_reused",
        )
    return answered


def answer_put(idempotency: Idempotency, submission_id: str, flag: str | None = None) -> Put:
    answered = Answered(body_hash=idempotency.body_hash, id=submission_id, flag=flag)
    return Put(idempotency.record_key, encode(answered), {"expiresAt": _expires_at(idempotency)}, ABSENT)


async def take_key(idempotency: Idempotency) -> Answered:
    """The key is this request's from now on; its twin may have been faster, and may even have all answers."""
    taken = Answered(body_hash=idempotency.body_hash, expires_at=_expires_at(idempotency))
    try:
        await get_kv().put(_whole_put(idempotency, taken, ABSENT))
    except ConditionFailed:
        earlier = await find_answered(idempotency)
        if earlier is None:
            raise
        return earlier
    return msgspec.structs.replace(taken, is_first=True)


async def remember_all(
    idempotency: Idempotency, taken: Answered, outcomes: list[RememberedOutcome]
) -> list[RememberedOutcome]:
    """The answers of whoever was first."""
    answered = msgspec.structs.replace(taken, outcomes=outcomes, is_first=False)
    try:
        await get_kv().put(_whole_put(idempotency, answered, _NOT_ANSWERED))
    except ConditionFailed:
        earlier = await find_answered(idempotency)
        return outcomes if earlier is None or earlier.outcomes is None else earlier.outcomes
    return outcomes


def part_of(idempotency: Idempotency, taken: Answered, number: int) -> Idempotency:
    """Gone together with its whole: a key is never half free."""
    return idempotency._replace(part=f"{number:03d}", expires_at=taken.expires_at)


_ANSWERED = msgspec.json.Decoder(Answered)


def _whole_put(idempotency: Idempotency, answered: Answered, expect: Expect) -> Put:
    attrs = {"expiresAt": answered.expires_at, "isAnswered": int(answered.outcomes is not None)}
    return Put(idempotency.record_key, encode(answered), attrs, expect)


def _expires_at(idempotency: Idempotency) -> int:
    return idempotency.expires_at or int((now() + IDEMPOTENCY_TTL).timestamp())
