"""Is the queue moving? The route, the metrics and so the alarms tell the same numbers, from here.

Each part stands for itself: what could not be read is unknown (null, or no metric), never 0.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from shared.db import get_kv, now
from shared.errors import Unavailable
from shared.records.submissions import ACTIVE_STATES, CATEGORIES, State, Submission
from shared.storage.kv import SHARDS, Query
from shared.submissions.counters import Hour, Stats, get_hours, get_stats
from shared.submissions.dead_letter_store import COUNTED, MANY, ManyLetters, count_dead_letters
from shared.submissions.pause import find_pause
from shared.submissions.submission_store import get_stuck_submissions, get_submissions_fresh
from shared.telemetry import Watched, count, measure_seconds

DRAIN_HOURS = 6
CANDIDATES = 5  # of each partition: the index may still name some that have ended

T = TypeVar("T")
_SETTLED = frozenset(State) - ACTIVE_STATES  # parked too: it no longer waits for a worker


class StatsAge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    age_ms: int | None


class OldestActive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    state: State
    age_ms: int  # since its last move


class DrainRate(msgspec.Struct, frozen=True, kw_only=True):
    """Submissions per hour that stopped being active."""

    last_1h: float | None = msgspec.field(name="last1h")
    last_6h: float | None = msgspec.field(name="last6h")


class QueueHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    stats_age: StatsAge
    oldest_active: OldestActive | None
    orphaned_active: int | None  # nobody works on them and their time is over; counted up to what one scan takes
    drain_rate: DrainRate
    paused: bool | None
    dead_letters: int | ManyLetters | None


async def get_queue_health() -> QueueHealth:
    seen = await _look()
    return QueueHealth(
        stats_age=StatsAge(age_ms=None if seen.stats is None else _ms(seen.at - seen.stats.generated_at)),
        oldest_active=_oldest_of(seen),
        orphaned_active=seen.orphaned,
        drain_rate=DrainRate(last_1h=seen.drained_per_hour(1), last_6h=seen.drained_per_hour(DRAIN_HOURS)),
        paused=seen.paused,
        dead_letters=seen.dead_letters,
    )


async def report_queue_health() -> None:
    """The same as metrics. Without a value there is no point in the graph, and an alarm can tell."""
    seen = await _look()
    if seen.oldest is not None:
        measure_seconds(Watched.OLDEST_ACTIVE_AGE, seen.age_of(seen.oldest[0]).total_seconds() if seen.oldest else 0)
    counts: dict[Watched, float | None] = {
        Watched.ACTIVE: None if seen.stats is None else seen.stats.active,
        Watched.ORPHANED_ACTIVE: seen.orphaned,
        Watched.DRAIN_RATE: seen.drained_per_hour(1),
        Watched.PAUSED: None if seen.paused is None else int(seen.paused),
        Watched.DEAD_LETTERS: COUNTED if seen.dead_letters == MANY else seen.dead_letters,
    }
    for name, value in counts.items():
        if value is not None:
            count(name, value)


class _Seen(NamedTuple):
    """None is unknown; nothing active at all is an empty `oldest`."""

    at: datetime
    stats: Stats | None
    oldest: Sequence[Submission] | None
    orphaned: int | None
    hours: Sequence[Hour] | None
    paused: bool | None
    dead_letters: int | ManyLetters | None

    def age_of(self, submission: Submission) -> timedelta:
        return self.at - submission.updated_at

    def drained_per_hour(self, span: int) -> float | None:
        """Over the last `span` hours to the minute: of the hour in which they begin, the share that is in them."""
        if self.hours is None:
            return None
        begun = 1 - (self.at - self.hours[-1].start) / timedelta(hours=1)
        whole = sum(map(_drained, self.hours[-span:]))
        return round((whole + begun * _drained(self.hours[-span - 1])) / span, 2)


async def _look() -> _Seen:
    at = now()
    paused = await _known(_is_paused())
    stats, oldest, orphaned, hours, dead_letters = await asyncio.gather(
        _known(_exact_stats()),
        _known(_find_oldest()),
        _known(_count_orphaned(at, paused)),
        _known(get_hours(at, DRAIN_HOURS + 1)),
        _known(count_dead_letters()),
    )
    return _Seen(at, stats, oldest, orphaned, hours, paused, dead_letters)


async def _known(part: Awaitable[T]) -> T | None:
    try:
        return await part
    except Unavailable:
        return None


async def _is_paused() -> bool:
    return await find_pause() is not None


async def _exact_stats() -> Stats | None:
    stats = await get_stats()
    return None if stats.degraded else stats


async def _find_oldest() -> list[Submission] | None:
    """Whatever is active and longest without a move, as its record says; the index only says where to look."""
    partitions = [f"{state}#{shard}" for state in CATEGORIES["active"] for shard in range(SHARDS)]
    pages = await asyncio.gather(*(get_kv().query(Query(pk, "state", limit=CANDIDATES)) for pk in partitions))
    fresh = await get_submissions_fresh(row.key.pk.removeprefix("sub:") for page in pages for row in page.rows)
    if fresh.failed:
        return None
    active = [submission for submission in fresh.submissions if submission.state in ACTIVE_STATES]
    return sorted(active, key=lambda submission: submission.updated_at)


async def _count_orphaned(at: datetime, paused: bool | None) -> int | None:
    """While paused, what waits is not forgotten: it waits for the pause to end."""
    if paused is None:
        return None
    stuck = await get_stuck_submissions(at, paused)
    return None if stuck.failed else len(stuck.submissions)


def _oldest_of(seen: _Seen) -> OldestActive | None:
    if not seen.oldest:
        return None
    oldest = seen.oldest[0]
    return OldestActive(id=oldest.id, state=oldest.state, age_ms=_ms(seen.age_of(oldest)))


def _drained(hour: Hour) -> int:
    return sum(hour.counts.get(state, 0) for state in _SETTLED)


def _ms(duration: timedelta) -> int:
    return max(0, round(duration.total_seconds() * 1000))
