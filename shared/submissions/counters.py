"""Counters: ten items that hold a number per state and what arrived in the open hours, and ten for the skills in the
marketplace and their versions. A change adds to one of them in its own transaction (-old +new), so adding them up gives
the true count at every moment. Unknown is null, never 0."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from shared.db import get_kv, get_settings, now
from shared.errors import ConditionFailed
from shared.records.facets import COUNTED, counted_facets, facet_counter
from shared.records.skills import Skill
from shared.records.submissions import ACTIVE_STATES, CATEGORIES, CATEGORY_OF, Change, State
from shared.storage.documents import encode, minutes_between, stamp
from shared.storage.kv import ABSENT, Add, Key, Put, Read, Write, query_all, shard_of
from shared.submissions.feed_store import get_published_names
from shared.timing import FEED_TTL, HOLDER_TTL

COUNTER_SHARDS = 10  # or a multiple of it, by the settings; a recount compares these groups


def counter_keys(shards: int) -> list[Key]:
    return [Key(f"stats:{shard}") for shard in range(shards)]


COUNTER_KEYS = counter_keys(COUNTER_SHARDS)
MOST_SHARDS = "shards"  # in the first counter, for readers with a lower setting: how many there were, if more than 10
_MOST = Key("stats:shards")
SKILL_COUNTER_KEYS = [Key("stats:skills", str(shard)) for shard in range(COUNTER_SHARDS)]
SKILLS, VERSIONS = "skills", "versions"
HELD = "held"
LATEST_COUNT = timedelta(minutes=10)  # after the end of an hour: no transaction takes longer
ROLLED_UP = 26  # hours that a scan looks back
DAY_TTL = timedelta(days=8)
CREATED = "created"  # beside the states in the counts of an hour


class Stats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    total: int | None
    active: int | None
    published: int | None
    rejected: int | None
    blocked: int | None
    on_hold: int | None
    by_state: dict[State, int] | None
    generated_at: datetime
    degraded: bool


class Market(NamedTuple):
    """Skills that are listed, and their versions. None: unknown."""

    skills: int | None
    versions: int | None


def count_change(change: Change) -> list[Add]:
    """The counter writes that belong into the transaction of this change."""
    counts: Counter[str] = Counter({change.after.state: 1})
    if change.before:
        counts[change.before.state] -= 1
    moved = {state: n for state, n in counts.items() if n}
    if not moved:
        return []
    arrived = {_hour_counter(change.after.updated_at, name): n for name, n in _arrivals(change).items()}
    shards = get_settings().counter_shards
    return [Add(counter_keys(shards)[shard_of(change.after.id, shards)], moved | arrived)]


def holder_key(holder: str) -> Key:
    return Key(f"held:{holder}")


def count_held(change: Change) -> list[Add]:
    """What a holder takes of the queue or gives back, for the transaction of this change. Taking is refused beyond the
    share of one. The count expires when the holder has been idle for so long that it must be 0."""
    before, after = change.before and change.before.held_by, change.after.held_by
    expires_at = int((change.after.updated_at + HOLDER_TTL).timestamp())
    if before == after:
        return []
    gives = [Add(holder_key(before), {HELD: -1}, expires_at=expires_at)] if before else []
    most = get_settings().max_held
    return gives + ([Add(holder_key(after), {HELD: 1}, most, expires_at)] if after else [])


async def get_queue_use(holder: str | None) -> tuple[int | None, int]:
    """How many are active, None if that is unknown, and how many of them this holder has; in one request."""
    keys = [holder_key(holder)] if holder else []
    read = await _read_counters(keys)
    active = None if read.failed else stats_of(_without(read, keys), now()).active
    return active, sum(read.found[key].get(HELD, 0) for key in keys if key in read.found)


def _arrivals(change: Change) -> dict[str, int]:
    """What an hour counts: entering a category, and being new. Moves within a category are not counted."""
    before, after = change.before, change.after
    if before is None:
        return {after.state: 1, CREATED: 1}
    return {after.state: 1} if CATEGORY_OF[before.state] != CATEGORY_OF[after.state] else {}


def count_skill(before: Skill | None, after: Skill | None, is_in_feed: bool = False) -> list[Write]:
    """For the transaction that makes one of the other: guarded by the skill's version, so nothing counts twice. Each
    change leaves a trace, which a recount needs: that of a publication is its entry in the feed."""
    shares: dict[str, Counter[str]] = defaultdict(Counter)
    for skill, sign in ((before, -1), (after, 1)):
        if skill:
            shares[skill.name.lower()].update({name: sign * n for name, n in share_of(skill).items()})
    changed = [name for name, share in shares.items() if any(share.values())]
    counts: dict[Key, Counter[str]] = defaultdict(Counter)
    for name in changed:
        counts[SKILL_COUNTER_KEYS[shard_of(name, COUNTER_SHARDS)]].update(shares[name])
    sums = {key: {name: n for name, n in each.items() if n} for key, each in counts.items()}
    traces = [] if is_in_feed else map(_trace_of, changed)
    return [*(Add(key, each) for key, each in sums.items() if each), *traces]


def _trace_of(name: str) -> Put:
    at = now()
    expires_at = int((at + FEED_TTL).timestamp())
    return Put(Key(_traces(at), f"{stamp(at)}#{name}"), encode({"name": name}), {"expiresAt": expires_at})


def _traces(minute: datetime) -> str:
    return f"skills-changed:{minute:%Y-%m-%dT%H:%M}"


async def get_changed_skills(since: datetime, until: datetime) -> set[str]:
    """The names of all whose share of a counter changed between two times: every one of them, strongly consistent, for
    as long as the traces are kept."""
    traces = asyncio.gather(*(query_all(get_kv(), _traces(minute)) for minute in minutes_between(since, until)))
    published, pages = await asyncio.gather(get_published_names(since, until), traces)
    return published | {row.sort.partition("#")[2] for rows in pages for row in rows}


def share_of(skill: Skill) -> dict[str, int]:
    """What it adds to the counters: nothing while it is in no list."""
    return {SKILLS: 1, VERSIONS: skill.versions, **counted_facets(skill)} if skill.is_listed else {}


def _hour_counter(time: datetime, name: str) -> str:
    """Beside the states in the counters themselves: no write more, and no read."""
    return f"{_hour_prefix(time)}{name}"


def _hour_prefix(time: datetime) -> str:
    return f"{time:%y%m%d%H}."


def _former_hour_keys(time: datetime) -> list[Key]:
    """Where earlier releases counted: their counts are carried over when the hour is rolled up."""
    hour = f"stats:hour:{time:%Y-%m-%dT%H}"
    return [key for n in range(COUNTER_SHARDS) for key in (Key(hour, str(n)), Key(f"{hour}:{n}"))]


class Hour(msgspec.Struct, frozen=True):
    start: datetime
    counts: dict[str, int]  # what entered each state in this hour, and `created`


def read_counters() -> asyncio.Task[Read[dict[str, int]]]:
    """Started at once; all who need the counters in one request wait for the same."""
    return asyncio.create_task(_read_counters())


async def _read_counters(also: Sequence[Key] = ()) -> Read[dict[str, int]]:
    """All that were ever used. Adding them up is exact whatever number of them a change was counted with: what one
    loses another has."""
    own = counter_keys(get_settings().counter_shards)
    read = await get_kv().get_counts([*own, *also])
    rest = counter_keys(read.found.get(COUNTER_KEYS[0], {}).get(MOST_SHARDS, 0))[len(own) :]
    if not rest:
        return read
    more = await get_kv().get_counts(rest)
    return Read(read.found | more.found, [*read.missing, *more.missing], [*read.failed, *more.failed])


async def read_skill_counters() -> Read[dict[str, int]]:
    return await get_kv().get_counts(SKILL_COUNTER_KEYS)


async def note_shards() -> None:
    """For readers after the number was lowered, and for those of the release before. Of two scans, one notes it."""
    shards = get_settings().counter_shards
    read = await get_kv().get_counts([_MOST])
    known = read.found.get(_MOST, {}).get(MOST_SHARDS, 0)
    if read.failed or shards <= max(known, COUNTER_SHARDS):
        return
    noted = Put(_MOST, "{}", {MOST_SHARDS: shards}, {MOST_SHARDS: known} if known else ABSENT)
    with suppress(ConditionFailed):
        await get_kv().transact(lambda: [noted, Add(COUNTER_KEYS[0], {MOST_SHARDS: shards - known})])


def group_of(counter: Key) -> int:
    """Of ten. A record stays in its group whatever the number of counters is, because that is a multiple of ten."""
    number = counter.pk.rpartition(":")[2] if counter.sk == "." else counter.sk
    return int(number) % COUNTER_SHARDS


async def get_hours(
    at: datetime, hours: int = 24, counters: Awaitable[Read[dict[str, int]]] | None = None
) -> list[Hour] | None:
    """The last hours, oldest first, the current one last. None when a part of them could not be read."""
    starts = _hours_until(at, hours)
    closed, open_ = _split(starts, at)
    read, days = await asyncio.gather(counters or read_counters(), _read_days(starts))
    counted = None if read.failed else _added(read.found.values())
    rolled_up = {start: found for start in closed if (found := _of_day(days, start)) is not None}
    missing = [start for start in closed if start not in rolled_up]
    late = await _former(missing) if missing else {}  # no scan has rolled these up yet
    if counted is None or late is None:
        return None
    known = rolled_up | {start: _added([_in_hour(counted, start), n]) for start, n in late.items()}
    known |= {start: _added([_in_hour(counted, start), _carried(days, start)]) for start in open_}
    return [Hour(start, known[start]) for start in starts]


async def roll_up_hours(at: datetime) -> int:
    """Sums closed hours into one record a day, so that counters stay small. Returns how many hours were added. Two at
    once write the same sums: an hour leaves the counters only when an earlier call has stored it, so the counters are
    read before the days."""
    closed, open_ = _split(_hours_until(at, ROLLED_UP), at)
    read = await read_counters()
    counted = None if read.failed else _added(read.found.values())
    days = await _read_days([*closed, *open_])
    missing = [start for start in closed if _of_day(days, start) is None]
    former, carried = await asyncio.gather(_former(missing), _former(open_))
    if counted is None or former is None or carried is None:
        return 0
    sums = {(_day_key(start), f"{start:%H}"): _added([_in_hour(counted, start), n]) for start, n in former.items()}
    sums |= {(_day_key(start), f"{start:%H}{_FORMER}"): n for start, n in carried.items() if n != _carried(days, start)}
    expires_at = int((at + DAY_TTL).timestamp())
    for day in {day for day, _ in sums}:
        doc = {**days.get(day, {}), **{hour: n for (of, hour), n in sums.items() if of == day}}
        await get_kv().put(Put(day, encode(doc), {"expiresAt": expires_at}))
    await _forget_hours(counted, {_hour_prefix(start) for start in {*missing, *open_}})
    return len(missing)


async def _forget_hours(counted: Mapping[str, int], kept: set[str]) -> None:
    """Everything that is rolled up or older than what a scan looks at."""
    gone = [name for name in counted if "." in name and not any(map(name.startswith, kept))]
    if gone:
        for key in counter_keys(max(get_settings().counter_shards, counted.get(MOST_SHARDS, 0))):
            await get_kv().transact(partial(list, [Add(key, remove=gone)]))


_Day = dict[str, dict[str, int]]  # by hour; with the suffix, what an open hour has under its former key
_FORMER = ".former"


def _split(starts: Sequence[datetime], at: datetime) -> tuple[list[datetime], list[datetime]]:
    """Hours into which nothing is counted any more, and the others."""
    ends = [start + timedelta(hours=1) + LATEST_COUNT for start in starts]
    closed = sum(end <= at for end in ends)
    return list(starts[:closed]), list(starts[closed:])


def _hours_until(at: datetime, hours: int) -> list[datetime]:
    this_hour = at.replace(minute=0, second=0, microsecond=0)
    return [this_hour - timedelta(hours=n) for n in reversed(range(hours))]


def _day_key(hour: datetime) -> Key:
    return Key(f"stats:day:{hour:%Y-%m-%d}")


async def _read_days(starts: Sequence[datetime]) -> dict[Key, _Day]:
    """What could not be read is not there: the counters of its hours are read instead."""
    read = await get_kv().get_many({_day_key(start) for start in starts})
    return {key: msgspec.json.decode(doc, type=_Day) for key, doc in read.found.items()}


def _of_day(days: Mapping[Key, _Day], start: datetime) -> dict[str, int] | None:
    return days.get(_day_key(start), {}).get(f"{start:%H}")


def _carried(days: Mapping[Key, _Day], start: datetime) -> dict[str, int]:
    return days.get(_day_key(start), {}).get(f"{start:%H}{_FORMER}", {})


def _in_hour(counted: Mapping[str, int], start: datetime) -> dict[str, int]:
    prefix = _hour_prefix(start)
    return {name.removeprefix(prefix): n for name, n in counted.items() if name.startswith(prefix)}


async def _former(starts: Sequence[datetime]) -> dict[datetime, dict[str, int]] | None:
    keys = {start: _former_hour_keys(start) for start in starts}
    read = await get_kv().get_counts(key for shards in keys.values() for key in shards)
    if read.failed:
        return None
    return {start: _added([read.found[key] for key in keys[start] if key in read.found]) for start in starts}


def drain_rate(hours: Sequence[Hour], at: datetime, span: int = 1) -> float:
    """Submissions per hour that stopped being active, over the last `span` hours to the minute: of the hour in which
    they begin, the share that is in them."""
    begun = 1 - (at - hours[-1].start) / timedelta(hours=1)
    return (sum(map(_drained, hours[-span:])) + begun * _drained(hours[-span - 1])) / span


async def get_stats(counters: Awaitable[Read[dict[str, int]]] | None = None) -> Stats:
    return stats_of(await (counters or read_counters()), now())


async def get_totals() -> tuple[Stats, Market]:
    """Of submissions and of the marketplace, in one request."""
    read = await _read_counters(SKILL_COUNTER_KEYS)
    return stats_of(_without(read, SKILL_COUNTER_KEYS), now()), _market_of(_part(read, SKILL_COUNTER_KEYS))


async def get_facet_counts() -> dict[str, dict[str, int]] | None:
    """How many listed skills have each value, by facet, in one request, however many skills there are. Only the values
    that some have; None: unknown."""
    read = await read_skill_counters()
    if read.failed:
        return None
    total = _added(read.found.values())
    return {
        key: {value: n for value in values if (n := total.get(facet_counter(key, value), 0)) > 0}
        for key, values in COUNTED.items()
    }


def _drained(hour: Hour) -> int:
    return sum(hour.counts.get(state, 0) for state in State if state not in ACTIVE_STATES)


def _part(read: Read[dict[str, int]], keys: Collection[Key]) -> Read[dict[str, int]]:
    return Read({key: read.found[key] for key in keys if key in read.found}, [], [k for k in read.failed if k in keys])


def _without(read: Read[dict[str, int]], keys: Collection[Key]) -> Read[dict[str, int]]:
    return _part(read, [key for key in (*read.found, *read.failed) if key not in keys])


def _market_of(read: Read[dict[str, int]]) -> Market:
    if read.failed:
        return Market(None, None)
    total = _added(read.found.values())
    return Market(total.get(SKILLS, 0), total.get(VERSIONS, 0))


def stats_of(read: Read[dict[str, int]], at: datetime) -> Stats:
    # a sum without one of its parts is not a smaller number but an unknown one
    by_state = None if read.failed else _sum(read.found.values())

    def total(states: Iterable[State]) -> int | None:
        return None if by_state is None else sum(by_state[state] for state in states)

    return Stats(
        total=total(State),
        active=total(CATEGORIES["active"]),
        published=total(CATEGORIES["published"]),
        rejected=total(CATEGORIES["rejected"]),
        blocked=total(CATEGORIES["blocked"]),
        on_hold=total(CATEGORIES["onHold"]),
        by_state=by_state,
        generated_at=at,
        degraded=by_state is None,
    )


def _sum(shards: Iterable[Mapping[str, int]]) -> dict[State, int]:
    return {state: sum(shard.get(state, 0) for shard in shards) for state in State}


def _added(shards: Iterable[Mapping[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for shard in shards:
        counts.update(shard)
    return dict(counts)
