"""Who waits, in which order, and for how long: a rank among what is RECEIVED, and the pace of the last hour."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from shared.submissions.counters import Hour, drain_rate, get_hours
from shared.submissions.pause import Pause, find_pause
from shared.submissions.submission_store import get_waiting_ids

RANKED = 500  # the rank of later ones is not worth its reads
TAKEN_AT_ONCE = 30  # ten consumers take three messages each


class Waiting(NamedTuple):
    """Ids in the order they are worked on. `more`: others wait behind them, their rank unknown."""

    ids: Sequence[str]
    more: bool

    def position_of(self, submission_id: str) -> int | None:
        return self.ids.index(submission_id) + 1 if submission_id in self.ids else None


async def get_waiting(limit: int = RANKED) -> Waiting:
    return Waiting(*await get_waiting_ids(limit))


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
        """Of one that waits. The index may not show it yet: then its rank is unknown."""
        position = self.waiting.position_of(submission_id)
        if position is None:
            return QueueRank(None, "500+" if self.waiting.more else None, None)
        wait = None if self.per_hour is None else expected_wait(position, self.per_hour)
        return QueueRank(position, position - 1, wait)


async def get_queue_snapshot(at: datetime) -> QueueSnapshot:
    waiting, hours, pause = await asyncio.gather(get_waiting(), get_hours(at, 2), find_pause())
    return snapshot_of(waiting, hours, pause, at)


def snapshot_of(waiting: Waiting, hours: Sequence[Hour] | None, pause: Pause | None, at: datetime) -> QueueSnapshot:
    return QueueSnapshot(waiting, None if hours is None or pause else drain_rate(hours, at))


def expected_wait(position: int, per_hour: float) -> timedelta | None:
    """Zero for those that the consumers take at once; unknown for later ones if nothing was finished lately."""
    if position <= TAKEN_AT_ONCE:
        return timedelta()
    return timedelta(hours=(position - TAKEN_AT_ONCE) / per_hour) if per_hour > 0 else None
