"""The first part of a recount: every record is read once, page by page, and what was found is stored as it goes.

So a count of any size goes on with the next call, also after a crash. Each page is kept beside the sums: a record that
changes after its page was read is taken out of the sums again, as its page has it.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.marketplace.skill_index import get_page_of_names, read_skills
from shared.records.submissions import State
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Expect, Key, Put, shard_of
from shared.submissions.counters import (
    COUNTER_KEYS,
    COUNTER_SHARDS,
    SKILL_COUNTER_KEYS,
    SKILLS,
    VERSIONS,
    get_changed_skills,
    share_of,
)
from shared.submissions.submission_store import get_moved, get_page_of_ids, get_submissions_fresh
from shared.timing import API_TIMEOUT, FEED_TTL, seconds_left

RECORDS_PER_PAGE = 1000
PAGES_AT_ONCE = 20
LONGEST_RUN = timedelta(minutes=40)  # well before it is forgotten what changed since it began

Counts = dict[str, int]


class Known(NamedTuple):
    counts: Counts  # what the record adds to its counter
    version: int


class Records(NamedTuple):
    known: dict[str, Known]
    unread: set[str]


class Kind(NamedTuple):
    """What is counted, where its records are, and who knows which of them changed."""

    page: Callable[[str | None, int], Awaitable[tuple[list[str], str | None]]]  # of their ids, behind a position
    counters: Sequence[Key]  # one per shard of the ids
    names: Sequence[str]  # of the numbers in each of them
    read: Callable[[Iterable[str]], Awaitable[Records]]
    find_changed: Callable[[datetime, datetime], Awaitable[set[str]]]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """How far the walk over one kind has come, and what it found for each counter."""

    last: str | None = None
    pages: int = 0
    checked: int = 0
    found: tuple[Counts, ...] = ({},) * COUNTER_SHARDS
    unread: tuple[int, ...] = (0,) * COUNTER_SHARDS
    is_walked: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    started_at: datetime
    repairs: int  # how often the counters had been set right when it began
    parts: tuple[Part, ...]  # one for each kind

    @property
    def is_walked(self) -> bool:
        return all(part.is_walked for part in self.parts)

    @property
    def checked(self) -> int:
        return sum(part.checked for part in self.parts)

    @property
    def pages(self) -> int:
        return sum(part.pages for part in self.parts)


async def start_run(repairs: int) -> Run:
    run = Run(id=secrets.token_hex(8), started_at=now(), repairs=repairs, parts=(Part(),) * len(KINDS))
    await get_kv().put(_run_put(run, ABSENT))
    return run


async def get_run(run_id: str) -> Run:
    doc = await get_kv().get(_run_key(run_id))
    run = None if doc is None else msgspec.json.decode(doc, type=Run)
    if run is None or now() - run.started_at > LONGEST_RUN:
        raise Conflict("This count was left for too long. Start it again.", code="recount_expired")
    return run


async def walk(run: Run) -> Run:
    """Some pages on, as the time allows, at least one."""
    for page in range(PAGES_AT_ONCE):
        if run.is_walked or (page and seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 2):
            break
        run = await _walk_page(run)
    return run


async def found_of(run: Run, number: int, ids: Iterable[str]) -> list[tuple[str, Counts]]:
    """What the walk over a kind found of these; those it came by before they were there are left out."""
    wanted = set(ids)
    if not wanted:
        return []
    read = await get_kv().get_many(_page_key(run.id, number, page) for page in range(run.parts[number].pages))
    if read.failed or read.missing:
        raise Unavailable("The pages of this count cannot be read.")
    groups = [group for doc in read.found.values() for group in msgspec.json.decode(doc, type=list[_Group])]
    return [(each, group.counts) for group in groups for each in wanted.intersection(group.ids)]


class _Group(msgspec.Struct, frozen=True, array_like=True):
    """Records of a page that add the same to their counters."""

    counts: Counts
    ids: list[str]


async def _walk_page(run: Run) -> Run:
    number = next(number for number, part in enumerate(run.parts) if not part.is_walked)
    kind, part = KINDS[number], run.parts[number]
    ids, end = await kind.page(part.last, RECORDS_PER_PAGE)
    records = await kind.read(ids)
    walked = Part(
        last=end,
        pages=part.pages + 1,
        checked=part.checked + len(ids),
        found=_added(part.found, records.known),
        unread=tuple(n + _of_shard(shard, records.unread) for shard, n in enumerate(part.unread)),
        is_walked=end is None,
    )
    after = msgspec.structs.replace(run, parts=(*run.parts[:number], walked, *run.parts[number + 1 :]))
    page = Put(_page_key(run.id, number, part.pages), _page_doc(records.known), {"expiresAt": _expires_at(run)})
    try:
        await get_kv().transact(lambda: [_run_put(after, {"pages": run.pages}), page])
    except ConditionFailed:  # another call goes on with the same count: one page is counted once
        return await get_run(run.id)
    return after


def _added(found: Sequence[Counts], known: Mapping[str, Known]) -> tuple[Counts, ...]:
    sums = [Counter(counts) for counts in found]
    for each, record in known.items():
        sums[shard_of(each, COUNTER_SHARDS)].update(record.counts)
    return tuple(dict(counts) for counts in sums)


def _of_shard(shard: int, ids: Iterable[str]) -> int:
    return sum(shard_of(each, COUNTER_SHARDS) == shard for each in ids)


def _page_doc(known: Mapping[str, Known]) -> str:
    groups: dict[tuple[tuple[str, int], ...], list[str]] = defaultdict(list)
    for each, record in known.items():
        groups[tuple(sorted(record.counts.items()))].append(each)
    return encode([_Group(dict(counts), ids) for counts, ids in groups.items()])


def _run_key(run_id: str) -> Key:
    return Key(f"recount:{run_id}")


def _page_key(run_id: str, kind: int, page: int) -> Key:
    return Key(f"recount:{run_id}", f"{kind}/{page:06d}")


def _run_put(run: Run, expect: Expect) -> Put:
    return Put(_run_key(run.id), encode(run), {"pages": run.pages, "expiresAt": _expires_at(run)}, expect)


def _expires_at(run: Run) -> int:
    return int((run.started_at + FEED_TTL).timestamp())


# --- what is counted ------------------------------------------------------------------------------------------------


async def _submissions(ids: Iterable[str]) -> Records:
    fresh = await get_submissions_fresh(ids)
    return Records({one.id: Known({one.state: 1}, one.seq) for one in fresh.submissions}, set(fresh.failed))


async def _skills(names: Iterable[str]) -> Records:
    read = await read_skills(names, with_counts=False)
    known = {name: Known(share_of(skill), skill.record_version) for name, skill in read.skills.items()}
    return Records(known, set(read.failed))


KINDS = (
    Kind(get_page_of_ids, COUNTER_KEYS, list(State), _submissions, get_moved),
    Kind(get_page_of_names, SKILL_COUNTER_KEYS, (SKILLS, VERSIONS), _skills, get_changed_skills),
)
