"""The pause switch of the queue. A pause always expires: one without an end stopped a platform for weeks."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, InvalidRequest
from shared.storage.documents import encode, stamp
from shared.storage.kv import Key, Put, Write
from shared.timing import DEFAULT_PAUSE, LONGEST_PAUSE

PAUSE_KEY = Key("queue:paused")
RESUME_KEY = Key("queue:resumed")


class Pause(msgspec.Struct, frozen=True):
    until: datetime
    by: str
    reason: str


class Resume(msgspec.Struct, frozen=True):
    """A pause that was lifted: what waited at that time is sent again, in order."""

    at: datetime
    after: str = ""  # the position of the last one that was sent
    is_done: bool = False


async def pause_queue(by: str, reason: str, duration: timedelta = DEFAULT_PAUSE, also: Sequence[Write] = ()) -> Pause:
    if not timedelta() < duration <= LONGEST_PAUSE:
        raise InvalidRequest("A pause lasts more than 0 and at most 24 hours.")
    return await _put(Pause(now() + duration, by, reason), also)


async def resume_queue(by: str, reason: str, also: Sequence[Write] = ()) -> Pause:
    """Without a pause in force there is nothing to send again."""
    mark = [_resume_put(Resume(now()))] if await find_pause() else []
    return await _put(Pause(now(), by, reason), [*mark, *also])


async def find_resume() -> Resume | None:
    """Of the last pause, while something that waited for its end may not be sent yet."""
    doc = await get_kv().get(RESUME_KEY)
    resume = None if doc is None else msgspec.json.decode(doc, type=Resume)
    return resume if resume and not resume.is_done else None


async def note_resumed(resume: Resume, after: str, is_done: bool) -> None:
    """Not if the queue was paused and resumed again meanwhile: then everything is sent once more."""
    put = _resume_put(Resume(resume.at, after, is_done), {"resumedAt": stamp(resume.at)})
    try:
        await get_kv().transact(lambda: [put])
    except ConditionFailed:
        return


async def find_pause() -> Pause | None:
    return pause_of(await get_kv().get(PAUSE_KEY), now())


def pause_of(doc: str | None, at: datetime) -> Pause | None:
    pause = None if doc is None else msgspec.json.decode(doc, type=Pause)
    return pause if pause and at < pause.until else None


def _resume_put(resume: Resume, expect: dict[str, str | int] | None = None) -> Put:
    return Put(RESUME_KEY, encode(resume), {"resumedAt": stamp(resume.at)}, expect)


async def _put(pause: Pause, also: Sequence[Write]) -> Pause:
    await get_kv().transact(lambda: [Put(PAUSE_KEY, encode(pause)), *also])
    return pause
