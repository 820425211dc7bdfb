"""Who waits, in which order, and for how long: a rank among what is RECEIVED, and the pace of the last hour."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from shared.db import get_kv
from shared.records.submissions import CATEGORIES, TERMINAL_STATES, State
from shared.storage.kv import SHARDS, Query
from shared.submissions.counters import Hour, get_hours
from shared.submissions.pause import Pause, find_pause

RANKED = 500  # the place of those behind them is not worth its reads
TAKEN_AT_ONCE = 30  # ten consumers take three messages each


class Waiting(NamedTuple):
    """Ids in the order they are worked on. `more`: others wait behind them, their place unknown."""

    ids: Sequence[str]
    more: bool

    def position_of(self, submission_id: str) -> int | None:
        return self.ids.index(submission_id) + 1 if submission_id in self.ids else None


async def get_waiting(limit: int = RANKED) -> Waiting:
    queries = [Query(f"{State.RECEIVED}#{shard}", "state", limit=limit + 1) for shard in range(SHARDS)]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.sort)
    return Waiting([row.key.pk.removeprefix("sub:") for row in rows[:limit]], more=len(rows) > limit)


class QueueRank(NamedTuple):
    """`ahead` is known for the first 500 only; for those behind them it is "500+"."""

    position: int | None
    ahead: int | Literal["500+"] | None
    expected_wait: timedelta | None


class QueueSnapshot(NamedTuple):
    """Who waits, and the pace at which they are served: None while the queue is paused or the pace is unknown."""

    waiting: Waiting
    per_hour: float | None

    def place_of(self, submission_id: str) -> QueueRank:
        """Of one that waits. An index may not show it yet: then nothing is known of its place."""
        position = self.waiting.position_of(submission_id)
        if position is None:
            return QueueRank(None, "500+" if self.waiting.more else None, None)
        wait = None if self.per_hour is None else expected_wait(position, self.per_hour)
        return QueueRank(position, position - 1, wait)


async def get_queue_snapshot(at: datetime) -> QueueSnapshot:
    waiting, hours, pause = await asyncio.gather(get_waiting(), get_hours(at, 2), find_pause())
    return snapshot_of(waiting, hours, pause, at)


def snapshot_of(waiting: Waiting, hours: Sequence[Hour] | None, pause: Pause | None, at: datetime) -> QueueSnapshot:
    return QueueSnapshot(waiting, None if hours is None or pause else settled_per_hour(hours, at))


async def get_oldest() -> dict[State, datetime]:
    """Since when the oldest submission of each active state has been in it. States without any are left out."""
    partitions = [(state, f"{state}#{shard}") for state in CATEGORIES["active"] for shard in range(SHARDS)]
    pages = await asyncio.gather(*(get_kv().query(Query(pk, "state", limit=1)) for _, pk in partitions))
    oldest: dict[State, datetime] = {}
    for (state, _), page in zip(partitions, pages, strict=True):
        for row in page.rows:
            since = datetime.fromisoformat(row.sort.partition("#")[0])
            oldest[state] = min(since, oldest.get(state, since))
    return oldest


def settled_per_hour(hours: Sequence[Hour], at: datetime) -> float:
    """The pace of the last sixty minutes: this hour so far, and the hour before it for the rest."""
    past = (at - hours[-1].start) / timedelta(hours=1)
    return _settled(hours[-1]) + (1 - past) * _settled(hours[-2])


def expected_wait(position: int, per_hour: float) -> timedelta | None:
    """No time for those the consumers take at once. Behind them it is unknown where nothing was finished lately:
    no pace, no promise."""
    if position <= TAKEN_AT_ONCE:
        return timedelta()
    return timedelta(hours=(position - TAKEN_AT_ONCE) / per_hour) if per_hour > 0 else None


def _settled(hour: Hour) -> int:
    return sum(hour.counts.get(state, 0) for state in TERMINAL_STATES)
