"""The counters against the records, and how they are repaired while records keep changing.

A walk reads every record once, page by page, in as many calls as it takes; what it found is stored as it goes, so a
count of any size continues with the next call, also after a crash. Every change that a counter counts leaves a trace in
its own transaction, so it is known which records changed since the walk began: only those are read again, twice, with
the counters between. Where none of a counter's records changed between the two reads, all of them are known as they
were when the counter was read: there, and only there, the difference is certain. A change writes a record and its
counter alike, so drift that was true once stays true: it is subtracted, whatever moves meanwhile.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.marketplace.skill_store import get_page_of_names, read_skills
from shared.records.facets import FACET_COUNTERS
from shared.records.submissions import State
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Add, Expect, Key, Put, Read, Write, shard_of
from shared.submissions.counters import (
    COUNTER_KEYS,
    COUNTER_SHARDS,
    SKILL_COUNTER_KEYS,
    SKILLS,
    VERSIONS,
    get_changed_skills,
    group_of,
    read_counters,
    read_skill_counters,
    share_of,
)
from shared.submissions.feed_store import get_moved
from shared.submissions.submission_store import get_page_of_ids, get_submissions_fresh
from shared.timing import API_TIMEOUT, FEED_TTL, seconds_left

RECORDS_PER_PAGE = 1000
PAGES_AT_ONCE = 20
LONGEST_RUN = timedelta(minutes=40)  # well before the traces of what changed since it began expire
ROUNDS = 3  # for counters that are never quiet; then they have no verdict
MOST_CHANGED = 5000  # records that are read again; with more of them nothing is quiet
CLOCKS_APART = timedelta(minutes=5)  # of the workers that leave the traces
_REPAIRS = Key("recount:repairs")

Counts = dict[str, int]


class Recount(NamedTuple):
    """The counters and the records, by state, of skills and versions, and by facet. `busy`: counters that moved while
    they were compared, and `unread`: records that could not be read. Neither has a verdict."""

    counted: Counts
    found: Counts
    unread: int
    busy: int
    drift_by_counter: Mapping[Key, Counts]

    @property
    def drift(self) -> Counts:
        return {name: n for name, n in _sum(self.drift_by_counter.values()).items() if n}

    @property
    def submissions(self) -> int:
        return sum(self.found[state] for state in State)


class Progress(NamedTuple):
    run_id: str
    repairs: int
    checked: int  # records read so far
    total: int  # submissions and skills, by the counters
    recount: Recount | None  # None: not finished


async def continue_recount(run_id: str | None = None) -> Progress:
    """Starts a count, or continues one. A repeated call counts nothing twice."""
    before = await get_run(run_id) if run_id else await start_run(await find_repairs())
    run = await walk(before)
    is_late = seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 4 and not before.is_walked
    if not run.is_walked or is_late:
        counted = _sum([counts for kind in KINDS for counts in await _counters(kind)])
        return Progress(run.id, run.repairs, run.checked, _records(counted), None)
    recount = await _compare(run)
    return Progress(run.id, run.repairs, run.checked, _records(recount.counted), recount)


async def find_repairs() -> int:
    """How often the counters were repaired so far. Read before counting: of two repairs, one wins."""
    doc = await get_kv().get(_REPAIRS)
    return 0 if doc is None else int(msgspec.json.decode(doc)["repairs"])


async def apply_repairs(recount: Recount, repairs: int, also: Sequence[Write]) -> None:
    expect: Expect = {"repairs": repairs} if repairs else ABSENT
    guard = Put(_REPAIRS, encode({"repairs": repairs + 1}), {"repairs": repairs + 1}, expect)
    adds = [Add(key, {name: -n for name, n in drift.items()}) for key, drift in recount.drift_by_counter.items()]
    try:
        await get_kv().transact(lambda: [guard, *adds, *also])
    except ConditionFailed as error:
        raise Conflict("Another repair changed the counters meanwhile.", code="changed_meanwhile") from error


# --- the walk -------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    counts: Counts  # what the record adds to its counter
    version: int


class Records(NamedTuple):
    known: dict[str, Known]
    unread: set[str]


class Kind(NamedTuple):
    """What is counted, where its records are, and how changed ones are found."""

    page: Callable[[str | None, int], Awaitable[tuple[list[str], str | None]]]  # of their ids, behind a position
    counters: Sequence[Key]  # one per group of ids
    read_counters: Callable[[], Awaitable[Read[Counts]]]
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
    repairs: int  # how often the counters had been repaired when it began
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
        raise Conflict("This count was paused for too long. Start it again.", code="recount_expired")
    return run


async def walk(run: Run) -> Run:
    """Some more pages, as the time allows, at least one."""
    for page in range(PAGES_AT_ONCE):
        if run.is_walked or (page and seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 2):
            break
        run = await _walk_page(run)
    return run


async def found_of(run: Run, number: int, ids: Iterable[str]) -> list[tuple[str, Counts]]:
    """What the walk over a kind found of these; those created after it passed are left out."""
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
    except ConditionFailed:  # another call continues the same count: a page is counted once
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


# --- the comparison -------------------------------------------------------------------------------------------------


class _Shard(NamedTuple):
    counted: Counts
    found: Counts
    unread: int
    is_quiet: bool


async def _compare(run: Run) -> Recount:
    shards: dict[Key, _Shard] = {}
    for number, kind in enumerate(KINDS):
        shards |= {kind.counters[n]: shard for n, shard in (await _compare_kind(run, number)).items()}
    drifts = {key: _difference(shard) for key, shard in shards.items() if shard.is_quiet}
    return Recount(
        _sum(shard.counted for shard in shards.values()),
        _sum(shard.found for shard in shards.values()),
        unread=sum(shard.unread for shard in shards.values()),
        busy=sum(not shard.is_quiet and not shard.unread for shard in shards.values()),
        drift_by_counter={key: drift for key, drift in drifts.items() if drift},
    )


async def _compare_kind(run: Run, number: int) -> dict[int, _Shard]:
    shards: dict[int, _Shard] = {}
    left: Collection[int] = range(COUNTER_SHARDS)
    for _ in range(ROUNDS):
        shards |= await _look(run, number, left)
        left = [n for n in left if not shards[n].is_quiet]
        if not left or seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 4:
            break
    return shards


async def _look(run: Run, number: int, shards: Collection[int]) -> dict[int, _Shard]:
    """The order matters: what changes before the counters are read shows in the second look, wherever it was before.
    What is new is among it too: an index may not show that yet."""
    kind, part = KINDS[number], run.parts[number]
    began = now()
    changed = _of(shards, await kind.find_changed(run.started_at - CLOCKS_APART, began + CLOCKS_APART))
    if len(changed) > MOST_CHANGED:
        counted = await _counters(kind)
        return {n: _Shard(counted[n], _all_of(kind, part.found[n]), part.unread[n], is_quiet=False) for n in shards}
    first = await kind.read(sorted(changed))
    counted = await _counters(kind)
    meanwhile = _of(shards, await kind.find_changed(began - CLOCKS_APART, now() + CLOCKS_APART))
    second = await kind.read(sorted(changed | meanwhile))
    walked = await found_of(run, number, first.known)
    return {n: _shard(n, kind, part, counted[n], first, second, walked) for n in shards}


def _shard(
    number: int,
    kind: Kind,
    part: Part,
    counted: Counts,
    first: Records,
    second: Records,
    walked: Sequence[tuple[str, Counts]],
) -> _Shard:
    found = Counter(part.found[number])
    for each in _of([number], first.known):
        found.update(first.known[each].counts)
    for each, counts in walked:
        if shard_of(each, COUNTER_SHARDS) == number:
            found.subtract(counts)
    unread = max(part.unread[number], len(_of([number], first.unread | second.unread)))  # mostly the same ones
    is_same = all(
        first.known.get(each) == second.known.get(each) for each in _of([number], first.known.keys() | second.known)
    )
    return _Shard(counted, _all_of(kind, found), unread, is_same and not unread)


def _of(shards: Collection[int], ids: Iterable[str]) -> set[str]:
    return {each for each in ids if shard_of(each, COUNTER_SHARDS) in shards}


async def _counters(kind: Kind) -> list[Counts]:
    """Of each group together. A repair changes the first of its group."""
    read = await kind.read_counters()
    if read.failed:
        raise Unavailable("The counters cannot be read.")
    groups = [Counter[str]() for _ in kind.counters]
    for key, counts in read.found.items():
        groups[group_of(key)].update(counts)
    return [_all_of(kind, group) for group in groups]


def _all_of(kind: Kind, counts: Mapping[str, int]) -> Counts:
    return {name: counts.get(name, 0) for name in kind.names}


def _records(counted: Counts) -> int:
    return sum(counted[name] for name in (*State, SKILLS))


def _difference(shard: _Shard) -> Counts:
    return {name: n for name, counted in shard.counted.items() if (n := counted - shard.found[name])}


def _sum(counts: Iterable[Mapping[str, int]]) -> Counts:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


# --- what is counted ------------------------------------------------------------------------------------------------


async def _submissions(ids: Iterable[str]) -> Records:
    fresh = await get_submissions_fresh(ids)
    return Records({one.id: Known({one.state: 1}, one.seq) for one in fresh.submissions}, set(fresh.failed))


async def _skills(names: Iterable[str]) -> Records:
    read = await read_skills(names, with_counts=False)
    known = {name: Known(share_of(skill), skill.record_version) for name, skill in read.skills.items()}
    return Records(known, set(read.failed))


KINDS = (
    Kind(get_page_of_ids, COUNTER_KEYS, read_counters, list(State), _submissions, get_moved),
    Kind(
        get_page_of_names,
        SKILL_COUNTER_KEYS,
        read_skill_counters,
        (SKILLS, VERSIONS, *FACET_COUNTERS),
        _skills,
        get_changed_skills,
    ),
)
