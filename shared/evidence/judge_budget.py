"""How many questions the judge was asked today, by all workers together. A question is counted before it is asked, so
parallel workers cannot go over the budget; one that got no answer is given back.

Ten records a day, each with its share of the budget, because one record for all workers would be written by one of them
at a time. All are read at once, and a question is counted where there is room. A record is changed only as it was read
(its version is the condition), so no share is ever exceeded. It remembers its last questions by their ids: whoever does
not know whether a write was stored may repeat it, and it counts once.
"""

import random
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Unavailable
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Expect, Key, Put
from shared.timing import STORE_BUDGET, attempts_within

BUDGET_SHARDS = 10
REMEMBERED = 50
KEPT = timedelta(days=32)


class Spent(msgspec.Struct, frozen=True):
    calls: int = 0
    version: int = 0
    recent: tuple[str, ...] = ()


class Reservation(msgspec.Struct, frozen=True):
    key: Key
    id: str


def budget_keys(at: datetime) -> list[Key]:
    return [Key(f"judge-budget:{at:%Y-%m-%d}", str(shard)) for shard in range(BUDGET_SHARDS)]


async def reserve(budget: int) -> Reservation | None:
    """The right to ask once, or None when today's budget is used up."""
    keys = budget_keys(now())
    right_id = secrets.token_hex(6)
    async for _ in attempts_within(STORE_BUDGET):
        read = await get_kv().get_many(keys)
        parts = {key: _spent(read.found.get(key)) for key in keys if key not in read.failed}
        for key, spent in parts.items():
            if right_id in spent.recent:  # by a try whose reply got lost
                return Reservation(key, right_id)
        free = _with_room(parts, budget)
        if not free and not read.failed:
            return None
        if not free:
            continue  # what could not be read may have room
        key = random.choice(free)  # noqa: S311 - spreads load, hides nothing
        spent = parts[key]
        if await _write(key, spent, spent.calls + 1, (*spent.recent, right_id)[-REMEMBERED:]):
            return Reservation(key, right_id)
    raise _not_counted()


async def give_back(reservation: Reservation) -> None:
    async for _ in attempts_within(STORE_BUDGET):
        spent = _spent(await get_kv().get(reservation.key))
        if reservation.id not in spent.recent:  # done already, or so long ago that it stays counted
            return
        left = tuple(id_ for id_ in spent.recent if id_ != reservation.id)
        if await _write(reservation.key, spent, spent.calls - 1, left):
            return
    raise _not_counted()


def _with_room(parts: Mapping[Key, Spent], budget: int) -> list[Key]:
    """The sum counts too: after the budget was lowered, a share says too little."""
    if sum(spent.calls for spent in parts.values()) >= budget:
        return []
    return [key for key, spent in parts.items() if spent.calls < _share_of(int(key.sk), budget)]


def _share_of(shard: int, budget: int) -> int:
    return budget // BUDGET_SHARDS + (shard < budget % BUDGET_SHARDS)


def _spent(doc: str | None) -> Spent:
    return Spent() if doc is None else msgspec.json.decode(doc, type=Spent)


async def _write(key: Key, before: Spent, calls: int, recent: tuple[str, ...]) -> bool:
    """False when another worker was faster: read again."""
    after = Spent(calls, before.version + 1, recent)
    expect: Expect = {"version": before.version} if before.version else ABSENT
    attrs = {"version": after.version, "expiresAt": int((now() + KEPT).timestamp())}
    try:
        await get_kv().put(Put(key, encode(after), attrs, expect))
    except ConditionFailed:
        return False
    return True


def _not_counted() -> Unavailable:
    return Unavailable("The judge's budget could not be counted in time.")
