"""The counters against the records, and how they are set right while others go on changing them.

A walk reads every record once, in as many calls as it takes. Every change that a counter counts leaves a trace in its
own transaction, so it is known which records changed since the walk began: only those are read again, twice, with the
counters between. Where none of a counter's records changed between the two reads, all of them are known as they were
when the counter was read: there, and only there, the difference is certain. A change writes a record and its counter
alike, so drift that was true once stays true: it is taken off by an addition, whatever moves meanwhile.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.moderation.recount_walk import KINDS, Counts, Kind, Part, Records, Run, found_of, get_run, start_run, walk
from shared.records.submissions import State
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Add, Expect, Key, Put, Write, shard_of
from shared.submissions.counters import COUNTER_SHARDS, SKILLS
from shared.timing import API_TIMEOUT, seconds_left

ROUNDS = 3  # for counters that are never quiet; then they have no verdict
MOST_CHANGED = 5000  # that are looked at again; with more of them nothing is quiet
CLOCKS_APART = timedelta(minutes=5)  # of those who leave the traces
_REPAIRS = Key("recount:repairs")


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


class Progress(NamedTuple):
    run_id: str
    repairs: int
    checked: int  # records read so far
    total: int  # submissions and skills, as the counters say
    recount: Recount | None  # None: go on


async def continue_recount(run_id: str | None = None) -> Progress:
    """Starts a count, or goes on with one. The same call twice counts nothing twice."""
    before = await get_run(run_id) if run_id else await start_run(await find_repairs())
    run = await walk(before)
    is_late = seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 4 and not before.is_walked
    if not run.is_walked or is_late:
        counted = _sum([counts for kind in KINDS for counts in await _counters(kind)])
        return Progress(run.id, run.repairs, run.checked, _records(counted), None)
    recount = await _compare(run)
    return Progress(run.id, run.repairs, run.checked, _records(recount.counted), recount)


async def find_repairs() -> int:
    """How often the counters were set right so far. Read before counting: of two repairs, one wins."""
    doc = await get_kv().get(_REPAIRS)
    return 0 if doc is None else int(msgspec.json.decode(doc)["repairs"])


async def apply_repairs(recount: Recount, repairs: int, also: Sequence[Write]) -> None:
    expect: Expect = {"repairs": repairs} if repairs else ABSENT
    guard = Put(_REPAIRS, encode({"repairs": repairs + 1}), {"repairs": repairs + 1}, expect)
    adds = [Add(key, {name: -n for name, n in drift.items()}) for key, drift in recount.drift_by_counter.items()]
    try:
        await get_kv().transact(lambda: [guard, *adds, *also])
    except ConditionFailed as error:
        raise Conflict("Somebody else set the counters right meanwhile.", code="changed_meanwhile") from error


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
    read = await get_kv().get_counts(kind.counters)
    if read.failed:
        raise Unavailable("The counters cannot be read.")
    return [_all_of(kind, read.found.get(key, {})) for key in kind.counters]


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
