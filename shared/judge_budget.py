"""How many questions the judge was asked today, by all workers together. A question is counted before it is asked, so
parallel workers cannot go over the budget; one that got no answer is given back.

One record a day, changed only as it was read (its version is the condition). It remembers the last questions by their
ids: whoever does not know whether a write was stored may repeat it, and it counts once.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.documents import encode
from shared.errors import ConditionFailed, Unavailable
from shared.kv import ABSENT, Expect, Key, Put
from shared.timing import STORE_BUDGET, attempts_within

REMEMBERED = 100
KEPT = timedelta(days=32)


class Spent(msgspec.Struct, frozen=True):
    calls: int = 0
    version: int = 0
    recent: tuple[str, ...] = ()


class Reservation(msgspec.Struct, frozen=True):
    key: Key
    id: str


def budget_key(at: datetime) -> Key:
    return Key(f"judge-budget:{at:%Y-%m-%d}")


async def reserve(budget: int) -> Reservation | None:
    """The right to ask once, or None when today's budget is used up."""
    reservation = Reservation(budget_key(now()), secrets.token_hex(6))

    def add(spent: Spent) -> Spent:
        if reservation.id in spent.recent or spent.calls >= budget:
            return spent
        return _next(spent, spent.calls + 1, (*spent.recent, reservation.id)[-REMEMBERED:])

    after = await _change(reservation.key, add)
    return reservation if reservation.id in after.recent else None


async def give_back(reservation: Reservation) -> None:
    def take_off(spent: Spent) -> Spent:
        if reservation.id not in spent.recent:  # done already, or so long ago that it stays counted
            return spent
        return _next(spent, spent.calls - 1, tuple(id_ for id_ in spent.recent if id_ != reservation.id))

    await _change(reservation.key, take_off)


async def _change(key: Key, change: Callable[[Spent], Spent]) -> Spent:
    async for _ in attempts_within(STORE_BUDGET):
        doc = await get_kv().get(key)
        before = Spent() if doc is None else msgspec.json.decode(doc, type=Spent)
        after = change(before)
        if after is before:
            return after
        expect: Expect = ABSENT if doc is None else {"version": before.version}
        attrs = {"version": after.version, "expiresAt": int((now() + KEPT).timestamp())}
        try:
            await get_kv().put(Put(key, encode(after), attrs, expect))
        except ConditionFailed:
            continue  # another worker was faster: read again
        return after
    raise Unavailable("The judge's budget could not be counted in time.")


def _next(spent: Spent, calls: int, recent: tuple[str, ...]) -> Spent:
    return Spent(calls, spent.version + 1, recent)
