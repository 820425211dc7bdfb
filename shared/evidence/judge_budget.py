"""How many questions may be put to the judge in a day, by all workers together: one counter per day.

A question is counted before it is asked, by one conditional addition, so parallel workers cannot exceed the budget. A
reply that is lost may count a question twice, never too few. A question without an answer is given back once, in a
transaction with a record of its own.
"""

import secrets
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from shared.db import get_kv, now
from shared.errors import ConditionFailed
from shared.storage.kv import ABSENT, Add, Key, Put

KEPT = timedelta(days=2)


class Reservation(NamedTuple):
    """The right to ask once."""

    counter: Key
    id: str


async def reserve(budget: int) -> Reservation | None:
    """None when today's budget is used up."""
    counter = Key(f"judge-budget:{now():%Y-%m-%d}")
    taken = await get_kv().take(counter, budget, _expires_at())
    return None if taken is None else Reservation(counter, secrets.token_hex(8))


async def give_back(reservation: Reservation) -> None:
    returned = Put(Key(reservation.counter.pk, reservation.id), "{}", {"expiresAt": _expires_at()}, ABSENT)
    with suppress(ConditionFailed):  # it was given back before
        await get_kv().transact(lambda: [returned, Add(reservation.counter, {"taken": -1})])


def _expires_at() -> int:
    return int((now() + KEPT).timestamp())
