"""The counters against the records, and how they are set right while others go on moving.

A counter shard and the records it counts are compared at one moment: the shard is read between two reads of its
records, and only where neither a record nor the shard changed meanwhile is there a verdict. A change writes a record
and its counter alike, so drift that was true once stays true: it is taken off by an addition, whatever moves meanwhile.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.documents import encode
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.kv import ABSENT, Add, Expect, Key, Put, Write, shard_of
from shared.skill_index import read_skills
from shared.stats import COUNTER_KEYS, COUNTER_SHARDS, SKILL_COUNTER_KEYS, SKILLS, VERSIONS, share_of
from shared.submission_list import get_recent_feed
from shared.submission_store import get_submissions_fresh
from shared.submissions import State

RECOUNT_CHUNK = 2000
ROUNDS = 3  # for shards that are never quiet; then they have no verdict
_REPAIRS = Key("recount:repairs")

Counts = dict[str, int]


class Recount(NamedTuple):
    """What the counters say and what the records say, by state, of skills and of versions. `busy`: counters that moved
    while they were counted, and `unread`: records that could not be read. Neither has a verdict."""

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


class _Records(NamedTuple):
    known: dict[str, tuple[Counts, int]]  # what each adds to its counter, with the version of the record
    unread: set[str]


class _Kind(NamedTuple):
    """What is counted, and where its records are."""

    counters: Sequence[Key]  # one per shard of the ids
    names: Sequence[str]  # of the numbers in each of them
    find_ids: Callable[[], Awaitable[set[str]]]
    read: Callable[[Sequence[str]], Awaitable[_Records]]


class _Shard(NamedTuple):
    counted: Counts
    found: Counts
    unread: int
    is_quiet: bool


async def count_again() -> Recount:
    shards: dict[Key, _Shard] = {}
    for kind in _KINDS:
        shards |= {kind.counters[number]: shard for number, shard in (await _count_kind(kind)).items()}
    drifts = {key: _difference(shard) for key, shard in shards.items() if shard.is_quiet}
    return Recount(
        _sum(shard.counted for shard in shards.values()),
        _sum(shard.found for shard in shards.values()),
        unread=sum(shard.unread for shard in shards.values()),
        busy=sum(not shard.is_quiet and not shard.unread for shard in shards.values()),
        drift_by_counter={key: drift for key, drift in drifts.items() if drift},
    )


async def find_repairs() -> int:
    """How often the counters were set right so far. Read before counting: of two repairs, one wins."""
    doc = await get_kv().get(_REPAIRS)
    return 0 if doc is None else int(msgspec.json.decode(doc)["repairs"])


async def set_right(recount: Recount, repairs: int, also: Sequence[Write]) -> None:
    expect: Expect = {"repairs": repairs} if repairs else ABSENT
    guard = Put(_REPAIRS, encode({"repairs": repairs + 1}), {"repairs": repairs + 1}, expect)
    adds = [Add(key, {name: -n for name, n in drift.items()}) for key, drift in recount.drift_by_counter.items()]
    try:
        await get_kv().transact(lambda: [guard, *adds, *also])
    except ConditionFailed as error:
        raise Conflict("Somebody else set the counters right meanwhile.", code="changed_meanwhile") from error


async def _count_kind(kind: _Kind) -> dict[int, _Shard]:
    shards: dict[int, _Shard] = {}
    left: Collection[int] = range(COUNTER_SHARDS)
    for _ in range(ROUNDS):
        shards |= await _look(kind, left)
        left = [number for number in left if not shards[number].is_quiet]
        if not left:
            break
    return shards


async def _look(kind: _Kind, numbers: Collection[int]) -> dict[int, _Shard]:
    """The order matters. Counters first: whatever is created from here on shows in their sum."""
    before = await _counters(kind)
    ids = sorted(i for i in await kind.find_ids() if shard_of(i, COUNTER_SHARDS) in numbers)
    first = await _read(kind, ids)
    counted = await _counters(kind)
    second = await _read(kind, ids)
    by_shard: dict[int, list[str]] = {number: [] for number in numbers}
    for each in ids:
        by_shard[shard_of(each, COUNTER_SHARDS)].append(each)
    return {
        number: _shard(kind, counted[number], before[number] == counted[number], by_shard[number], first, second)
        for number in numbers
    }


def _shard(
    kind: _Kind, counted: Counts, is_still: bool, ids: Sequence[str], first: _Records, second: _Records
) -> _Shard:
    found = _sum(first.known[i][0] for i in ids if i in first.known)
    unread = sum(i in first.unread or i in second.unread for i in ids)
    is_same = all(first.known.get(i) == second.known.get(i) for i in ids)
    return _Shard(counted, _all_of(kind, found), unread, is_still and is_same and not unread)


async def _read(kind: _Kind, ids: Sequence[str]) -> _Records:
    known: dict[str, tuple[Counts, int]] = {}
    unread: set[str] = set()
    for start in range(0, len(ids), RECOUNT_CHUNK):
        records = await kind.read(ids[start : start + RECOUNT_CHUNK])
        known |= records.known
        unread |= records.unread
    return _Records(known, unread)


async def _counters(kind: _Kind) -> list[Counts]:
    read = await get_kv().get_counts(kind.counters)
    if read.failed:
        raise Unavailable("The counters cannot be read.")
    return [_all_of(kind, read.found.get(key, {})) for key in kind.counters]


def _all_of(kind: _Kind, counts: Mapping[str, int]) -> Counts:
    return {name: counts.get(name, 0) for name in kind.names}


def _difference(shard: _Shard) -> Counts:
    return {name: n for name, counted in shard.counted.items() if (n := counted - shard.found[name])}


def _sum(counts: Iterable[Mapping[str, int]]) -> Counts:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


# --- what is counted ------------------------------------------------------------------------------------------------


async def _submission_ids() -> set[str]:
    """An index may not show the newest yet, the feed does."""
    return {*await get_kv().ids("sub:"), *await get_recent_feed(now())}


async def _submissions(ids: Sequence[str]) -> _Records:
    fresh = await get_submissions_fresh(ids)
    return _Records({one.id: ({one.state: 1}, one.version) for one in fresh.submissions}, set(fresh.failed))


async def _skill_names() -> set[str]:
    """A skill is new when its submission is published, so the feed tells its name too."""
    recent = (await get_recent_feed(now())).values()
    return {*await get_kv().ids("skill:"), *(row.skill_name.lower() for row in recent)}


async def _skills(names: Sequence[str]) -> _Records:
    read = await read_skills(names, with_counts=False)
    known = {name: (share_of(skill), skill.record_version) for name, skill in read.skills.items()}
    return _Records(known, set(read.failed))


_KINDS = (
    _Kind(COUNTER_KEYS, list(State), _submission_ids, _submissions),
    _Kind(SKILL_COUNTER_KEYS, (SKILLS, VERSIONS), _skill_names, _skills),
)
