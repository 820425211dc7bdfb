"""Is the queue moving? The public route, the admin route, the metrics and so the alarms read the same numbers here.

Each part is independent: what could not be read is unknown (null, or no metric), never 0.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from shared.db import get_kv, get_queue, get_secrets, get_settings, now
from shared.errors import Unavailable
from shared.github.http import warnings_about
from shared.records.submissions import State, Submission
from shared.storage.kv import KV, Read
from shared.storage.queue import Depth
from shared.submissions.counters import Hour, Stats, drain_rate, get_hours, get_stats, read_counters
from shared.submissions.dead_letter_store import COUNTED, MANY, ManyLetters, count_dead_letters
from shared.submissions.pause import Pause, find_pause
from shared.submissions.repo_watch import SweepStatus, get_sweep_status
from shared.submissions.submission_store import get_oldest_active, get_stuck_submissions
from shared.telemetry import Watched, count, logger, measure_seconds
from shared.timing import HEALTH_AGE

DRAIN_HOURS = 6

T = TypeVar("T")


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
    orphaned_active: int | None  # stuck: no worker has them and their time is over; counted up to one scan's limit
    drain_rate: DrainRate
    paused: bool | None
    dead_letters: int | ManyLetters | None


class Oldest(msgspec.Struct, frozen=True, rename="camel"):
    state: State
    since: datetime
    age_ms: int


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    paused: Pause | None
    active: int | None
    max_active: int  # with this many, new submissions are refused
    depth: Depth | None
    dead_letters: int | ManyLetters
    oldest: list[Oldest]  # of each active state that has any
    sweep: SweepStatus | None  # null: could not be read
    generated_at: datetime
    degraded: bool


async def get_queue_health() -> QueueHealth:
    paused = await _known(_is_paused())
    seen, orphaned = await asyncio.gather(_look(), _known(_count_orphaned(paused)))
    return QueueHealth(
        stats_age=StatsAge(age_ms=None if seen.stats is None else _ms(seen.at - seen.stats.generated_at)),
        oldest_active=_oldest_of(seen),
        orphaned_active=orphaned,
        drain_rate=DrainRate(last_1h=seen.drained_per_hour(1), last_6h=seen.drained_per_hour(DRAIN_HOURS)),
        paused=paused,
        dead_letters=seen.dead_letters,
    )


async def get_recent_queue_health() -> QueueHealth:
    """At most some seconds old, as its ages say: what watches the queue costs less than the queue. What has unknown
    parts is read again."""
    at, store = now(), get_kv()
    known = _recent.get(store)
    if known and at - known[0] < HEALTH_AGE:
        return _aged(known[1], _ms(at - known[0]))
    health = await get_queue_health()
    if None not in (health.stats_age.age_ms, health.orphaned_active, health.drain_rate.last_1h, health.dead_letters):
        _recent[store] = at, health
    return health


_recent: WeakKeyDictionary[KV, tuple[datetime, QueueHealth]] = WeakKeyDictionary()  # by store, of this process


def _aged(health: QueueHealth, ms: int) -> QueueHealth:
    stats = StatsAge(age_ms=(health.stats_age.age_ms or 0) + ms)
    oldest = health.oldest_active
    older = oldest and msgspec.structs.replace(oldest, age_ms=oldest.age_ms + ms)
    return msgspec.structs.replace(health, stats_age=stats, oldest_active=older)


async def report_queue_health(paused: bool, orphaned: int) -> None:
    """The same as metrics, with what the stuck scan has read. An unknown value is no data point: alarms see that."""
    seen = await _look()
    if seen.oldest is not None:
        measure_seconds(Watched.OLDEST_ACTIVE_AGE, seen.age_of(seen.oldest[0]).total_seconds() if seen.oldest else 0)
    counts: dict[Watched, float | None] = {
        Watched.ACTIVE: None if seen.stats is None else seen.stats.active,
        Watched.ORPHANED_ACTIVE: orphaned,
        Watched.DRAIN_RATE: seen.drained_per_hour(1),
        Watched.PAUSED: int(paused),
        Watched.DEAD_LETTERS: COUNTED if seen.dead_letters == MANY else seen.dead_letters,
    }
    for name, value in counts.items():
        if value is not None:
            count(name, value)


async def github_warnings() -> list[str]:
    """What operators should know about the quota of GitHub calls."""
    return warnings_about(await get_secrets().get())


async def get_queue_status() -> QueueStatus:
    """For operators: paused or not, how full, how old."""
    at = now()
    pause, stats, depth, letters, active, sweep = await asyncio.gather(
        find_pause(),
        get_stats(),
        _find_depth(),
        count_dead_letters(),
        get_oldest_active(),
        _known(get_sweep_status()),
    )
    first = {one.state: one for one in reversed(active.submissions)}
    oldest = [Oldest(one.state, one.updated_at, _ms(at - one.updated_at)) for one in first.values()]
    return QueueStatus(
        paused=pause,
        active=stats.active,
        max_active=get_settings().max_active,
        depth=depth,
        dead_letters=letters,
        oldest=sorted(oldest, key=lambda one: one.since),
        sweep=sweep,
        generated_at=at,
        degraded=stats.degraded or sweep is None or depth is None or bool(active.failed),
    )


class _Seen(NamedTuple):
    """None is unknown; nothing active at all is an empty `oldest`."""

    at: datetime
    stats: Stats | None
    oldest: Sequence[Submission] | None
    hours: Sequence[Hour] | None
    dead_letters: int | ManyLetters | None

    def age_of(self, submission: Submission) -> timedelta:
        return self.at - submission.updated_at

    def drained_per_hour(self, span: int) -> float | None:
        return None if self.hours is None else round(drain_rate(self.hours, self.at, span), 2)


async def _look() -> _Seen:
    at = now()
    counters = read_counters()
    stats, oldest, hours, dead_letters = await asyncio.gather(
        _known(_exact_stats(counters)),
        _known(_oldest_first()),
        _known(get_hours(at, DRAIN_HOURS + 1, counters)),
        _known(count_dead_letters()),
    )
    return _Seen(at, stats, oldest, hours, dead_letters)


async def _known(part: Awaitable[T]) -> T | None:
    try:
        return await part
    except Unavailable:
        return None


async def _is_paused() -> bool:
    return await find_pause() is not None


async def _exact_stats(counters: Awaitable[Read[dict[str, int]]]) -> Stats | None:
    stats = await get_stats(counters)
    return None if stats.degraded else stats


async def _oldest_first() -> list[Submission] | None:
    active = await get_oldest_active()
    return None if active.failed else active.submissions


async def _count_orphaned(paused: bool | None) -> int | None:
    """While paused, what waits is not forgotten: it waits for the pause to end."""
    if paused is None:
        return None
    stuck = await get_stuck_submissions(now(), paused)
    return None if stuck.failed else len(stuck.submissions)


async def _find_depth() -> Depth | None:
    try:
        return await get_queue().depth()
    except Unavailable:
        logger.exception("the depth of the queue is not known")
        return None


def _oldest_of(seen: _Seen) -> OldestActive | None:
    if not seen.oldest:
        return None
    oldest = seen.oldest[0]
    return OldestActive(id=oldest.id, state=oldest.state, age_ms=_ms(seen.age_of(oldest)))


def _ms(duration: timedelta) -> int:
    return max(0, round(duration.total_seconds() * 1000))
