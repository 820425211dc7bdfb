"""Which repositories the sweep looks at, and when: one small record each, however many skills it has, in the due index.
What GitHub said of a repository is in repo_health_store; this only says when to ask again."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.storage.documents import encode, stamp
from shared.storage.kv import SHARDS, Key, Put, Query, query_shards, shard_of
from shared.timing import REPO_SWEEP_AGE

COUNTED = 100_000  # how many overdue repositories are counted
_DUE = "due:repo"
_STATE = Key("sweep:state")
_HOUR = timedelta(hours=1)


class SweepState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Between two ticks."""

    window_ends: datetime | None = None  # of GitHub's quota
    used: int = 0  # of the quota, in this window
    limit: int | None = None  # of the quota
    stopped_until: datetime | None = None  # the share of this window is used up: no request before
    overdue: int = 0  # when the last tick ended
    ticked_at: datetime | None = None
    enrolled_until: str | None = None  # skills of an older release, as far as they were looked at
    is_enrolled: bool = False


class SweepStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As of the last tick. `roundMs` is how long it takes at present until every repository was looked at once."""

    ticked_at: datetime | None
    overdue: int
    requests_per_hour: int | None  # that the sweep may make; null before its first request
    round_ms: int | None


class Watch(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    source: str
    due: datetime | None = None  # None: of an older release
    has_published: bool = False  # since the last check: its skills get GitHub's answer even if it is not new


def watch_put(source: str, due: datetime, has_published: bool = False, instead_of: Watch | None = None) -> Put:
    """A publication has its repository looked at soon, whatever was planned. `instead_of`: only in place of this one,
    so that a look does not undo what a publication asked for meanwhile."""
    watch = Watch(source=source, due=due, has_published=has_published)
    attrs: dict[str, str | int] = {"duePk": f"{_DUE}#{shard_of(source)}", "dueSk": _due_sort(source, due)}
    expect = {"dueSk": _due_sort(source, instead_of.due)} if instead_of and instead_of.due else None
    return Put(_key(source), encode(watch), attrs, expect)


async def find_watch(source: str) -> Watch | None:
    doc = await get_kv().get(_key(source))
    return None if doc is None else _WATCH.decode(doc)


async def get_due_repos(at: datetime, limit: int) -> list[str]:
    """Their sources, the longest due first."""
    found = await query_shards(get_kv(), Query(_DUE, "due", before=stamp(at), limit=limit))
    return [row.sort.partition("#")[2] for row in found.rows[:limit]]


async def get_sweep_state() -> SweepState:
    doc = await get_kv().get(_STATE)
    return SweepState() if doc is None else _DECODER.decode(doc)


async def put_sweep_state(state: SweepState) -> None:
    """Only the sweep writes it, and only one runs at a time."""
    await get_kv().put(Put(_STATE, encode(state)))


async def get_sweep_status() -> SweepStatus:
    state = await get_sweep_state()
    per_hour = allowed_requests(state.limit) if state.limit else None
    catching_up = _HOUR * state.overdue / per_hour if per_hour else timedelta()
    round_ = REPO_SWEEP_AGE + max(await get_sweep_lag(), catching_up)
    return SweepStatus(
        ticked_at=state.ticked_at,
        overdue=state.overdue,
        requests_per_hour=per_hour,
        round_ms=round(round_.total_seconds() * 1000) if state.ticked_at else None,
    )


async def count_overdue(at: datetime) -> int:
    """All of them: it decides how long a round takes."""
    return sum(await asyncio.gather(*(_count_overdue(f"{_DUE}#{shard}", at) for shard in range(SHARDS))))


async def _count_overdue(partition: str, at: datetime) -> int:
    query = Query(partition, "due", before=stamp(at))
    page = await get_kv().query(query)
    counted = len(page.rows)
    while page.more and counted < COUNTED // SHARDS:
        page = await get_kv().query(replace(query, after=page.rows[-1].sort))
        counted += len(page.rows)
    return counted


async def get_sweep_lag() -> timedelta:
    """How late the repository that is due next is."""
    rows = (await query_shards(get_kv(), Query(_DUE, "due", limit=1))).rows
    due = (datetime.fromisoformat(row.sort.partition("#")[0]) for row in rows[:1])
    return max(timedelta(), *(now() - one for one in due), timedelta())


def allowed_requests(quota: int) -> int:
    """A fifth of it: the rest is for submissions."""
    return max(1, quota // 5)


_DECODER = msgspec.json.Decoder(SweepState)
_WATCH = msgspec.json.Decoder(Watch)


def _key(source: str) -> Key:
    return Key(f"repo-watch:{source}")


def _due_sort(source: str, due: datetime) -> str:
    return f"{stamp(due)}#{source}"
