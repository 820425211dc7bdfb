"""The counters against the records, and how they are set right while others go on moving.

A counter shard and the records it counts are compared at one moment: the shard is read between two reads of its
records, and only where neither a record nor the shard changed meanwhile is there a verdict. A move changes a record and
its counter alike, so drift that was true once stays true: it is taken off by an addition, whatever moves meanwhile.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.documents import encode
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.kv import ABSENT, Add, Expect, Key, Put, Write, shard_of
from shared.stats import COUNTER_KEYS, COUNTER_SHARDS
from shared.submission_list import get_recent_feed
from shared.submission_store import get_submissions_fresh
from shared.submissions import State

RECOUNT_CHUNK = 2000
ROUNDS = 3  # for shards that are never quiet; then they have no verdict
_REPAIRS = Key("recount:repairs")

Counts = dict[State, int]


class Recount(NamedTuple):
    """What the counters say and what the records say. `busy`: counters that moved while they were counted, and
    `unread`: records that could not be read. Neither has a verdict."""

    counted: Counts
    found: Counts
    unread: int
    busy: int
    drift_by_shard: Mapping[int, Counts]

    @property
    def drift(self) -> Counts:
        return {state: n for state, n in _sum(self.drift_by_shard.values()).items() if n}


class _Shard(NamedTuple):
    counted: Counts
    found: Counts
    unread: int
    is_quiet: bool


async def count_again() -> Recount:
    shards: dict[int, _Shard] = {}
    left: Collection[int] = range(COUNTER_SHARDS)
    for _ in range(ROUNDS):
        shards |= await _look(left)
        left = [number for number in left if not shards[number].is_quiet]
        if not left:
            break
    drifts = {number: _difference(shard) for number, shard in shards.items() if shard.is_quiet}
    return Recount(
        _sum(shard.counted for shard in shards.values()),
        _sum(shard.found for shard in shards.values()),
        unread=sum(shard.unread for shard in shards.values()),
        busy=sum(not shard.is_quiet and not shard.unread for shard in shards.values()),
        drift_by_shard={number: drift for number, drift in drifts.items() if drift},
    )


async def find_repairs() -> int:
    """How often the counters were set right so far. Read before counting: of two repairs, one wins."""
    doc = await get_kv().get(_REPAIRS)
    return 0 if doc is None else int(msgspec.json.decode(doc)["repairs"])


async def set_right(recount: Recount, repairs: int, also: Sequence[Write]) -> None:
    expect: Expect = {"repairs": repairs} if repairs else ABSENT
    guard = Put(_REPAIRS, encode({"repairs": repairs + 1}), {"repairs": repairs + 1}, expect)
    adds = [
        Add(COUNTER_KEYS[number], {state: -n for state, n in drift.items()})
        for number, drift in recount.drift_by_shard.items()
    ]
    try:
        await get_kv().transact(lambda: [guard, *adds, *also])
    except ConditionFailed as error:
        raise Conflict("Somebody else set the counters right meanwhile.", code="changed_meanwhile") from error


async def _look(numbers: Collection[int]) -> dict[int, _Shard]:
    """The order matters. Counters first: whatever is created from here on shows in their sum."""
    before = await _counters()
    ids = await _ids(numbers)
    first = await _states(ids)
    counted = await _counters()
    second = await _states(ids)
    by_shard: dict[int, list[str]] = {number: [] for number in numbers}
    for submission_id in ids:
        by_shard[shard_of(submission_id, COUNTER_SHARDS)].append(submission_id)
    return {
        number: _shard(counted[number], before[number] == counted[number], by_shard[number], first, second)
        for number in numbers
    }


def _shard(counted: Counts, is_still: bool, ids: Sequence[str], first: "_States", second: "_States") -> _Shard:
    found = Counter(first.known[i][0] for i in ids if i in first.known)
    unread = sum(i in first.unread or i in second.unread for i in ids)
    is_same = all(first.known.get(i) == second.known.get(i) for i in ids)
    return _Shard(counted, {state: found[state] for state in State}, unread, is_still and is_same and not unread)


class _States(NamedTuple):
    known: dict[str, tuple[State, int]]  # with the version of the record
    unread: set[str]


async def _ids(numbers: Collection[int]) -> list[str]:
    """An index may not show the newest yet, the feed does."""
    ids = {*await get_kv().ids("sub:"), *await get_recent_feed(now())}
    return sorted(i for i in ids if shard_of(i, COUNTER_SHARDS) in numbers)


async def _states(ids: Sequence[str]) -> _States:
    known: dict[str, tuple[State, int]] = {}
    unread: set[str] = set()
    for start in range(0, len(ids), RECOUNT_CHUNK):
        fresh = await get_submissions_fresh(ids[start : start + RECOUNT_CHUNK])
        known |= {submission.id: (submission.state, submission.version) for submission in fresh.submissions}
        unread |= set(fresh.failed)
    return _States(known, unread)


async def _counters() -> list[Counts]:
    read = await get_kv().get_counts(COUNTER_KEYS)
    if read.failed:
        raise Unavailable("The counters cannot be read.")
    return [{state: read.found.get(key, {}).get(state, 0) for state in State} for key in COUNTER_KEYS]


def _difference(shard: _Shard) -> Counts:
    return {state: n for state in State if (n := shard.counted[state] - shard.found[state])}


def _sum(counts: Iterable[Counts]) -> Counts:
    total: Counter[State] = Counter()
    for each in counts:
        total.update(each)
    return {state: total[state] for state in State}
