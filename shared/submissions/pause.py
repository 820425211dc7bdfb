"""The pause switch of the queue. A pause always expires: one without an end stopped a platform for weeks."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.errors import InvalidRequest
from shared.storage.documents import encode
from shared.storage.kv import Key, Put, Write
from shared.timing import DEFAULT_PAUSE, LONGEST_PAUSE

PAUSE_KEY = Key("queue:paused")


class Pause(msgspec.Struct, frozen=True):
    until: datetime
    by: str
    reason: str


async def pause_queue(by: str, reason: str, duration: timedelta = DEFAULT_PAUSE, also: Sequence[Write] = ()) -> Pause:
    if not timedelta() < duration <= LONGEST_PAUSE:
        raise InvalidRequest("A pause lasts more than 0 and at most 24 hours.")
    return await _put(Pause(now() + duration, by, reason), also)


async def resume_queue(by: str, reason: str, also: Sequence[Write] = ()) -> Pause:
    return await _put(Pause(now(), by, reason), also)


async def find_pause() -> Pause | None:
    return pause_of(await get_kv().get(PAUSE_KEY), now())


def pause_of(doc: str | None, at: datetime) -> Pause | None:
    pause = None if doc is None else msgspec.json.decode(doc, type=Pause)
    return pause if pause and at < pause.until else None


async def _put(pause: Pause, also: Sequence[Write]) -> Pause:
    await get_kv().transact(lambda: [Put(PAUSE_KEY, encode(pause)), *also])
    return pause
