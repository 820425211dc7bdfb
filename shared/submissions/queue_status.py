"""How the queue is doing, for operators: paused or not, how full, how old. What could not be read is null, never 0."""

import asyncio
from datetime import datetime, timedelta

import msgspec

from shared.db import get_queue, get_settings, now
from shared.errors import Unavailable
from shared.records.submissions import State
from shared.storage.queue import Depth
from shared.submissions.counters import get_stats
from shared.submissions.dead_letter_store import ManyLetters, count_dead_letters
from shared.submissions.pause import Pause, find_pause
from shared.submissions.queue_position import get_oldest
from shared.telemetry import logger


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
    generated_at: datetime
    degraded: bool


async def get_queue_status() -> QueueStatus:
    at = now()
    pause, stats, depth, letters, oldest = await asyncio.gather(
        find_pause(), get_stats(), _find_depth(), count_dead_letters(), get_oldest()
    )
    ages = [Oldest(state, since, (at - since) // timedelta(milliseconds=1)) for state, since in oldest.items()]
    return QueueStatus(
        paused=pause,
        active=stats.active,
        max_active=get_settings().max_active,
        depth=depth,
        dead_letters=letters,
        oldest=sorted(ages, key=lambda age: age.since),
        generated_at=at,
        degraded=stats.degraded or depth is None,
    )


async def _find_depth() -> Depth | None:
    try:
        return await get_queue().depth()
    except Unavailable:
        logger.exception("the depth of the queue is not known")
        return None
