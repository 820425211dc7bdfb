"""Lists of submissions that are right at first sight.

An index is eventually consistent, so it only gives candidates. One round trip reads the index, the counters and the
feed of the last two minutes; a second re-reads, strongly, every active row and everything the feed names, and merges:
fresh wins, a row that no longer matches is dropped, one that the index does not know yet is added.
"""

import asyncio
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.records.submissions import ACTIVE_STATES, State, Submission, time_of
from shared.storage.documents import minutes_between, parse_each, stamp
from shared.storage.kv import LISTS, SHARDS, Page, Query, query_all, rows_per_partition, shard_of
from shared.submissions.counters import COUNTER_KEYS, Stats, stats_of
from shared.submissions.submission_store import (
    Fresh,
    SubmissionRow,
    feed_partition,
    get_submissions_fresh,
    row_of,
)
from shared.telemetry import logger
from shared.timing import FEED_WINDOW, STORE_BUDGET

MAX_LIMIT = 500
LONGEST_ACCEPT = 2 * STORE_BUDGET  # from the making of an id to the time its record carries
SURELY_IN_ROW = 40  # letters of a reason: a row cuts it somewhere behind them


class ListQuery(NamedTuple):
    states: tuple[State, ...] = ()  # empty: all of them
    by_update: bool = False  # sorted by updatedAt instead of createdAt
    descending: bool = True
    limit: int = 50
    after: str | None = None  # the position of the last row of the page before


class Listing(NamedTuple):
    rows: list[SubmissionRow]
    next_position: str | None  # None: this was the last page
    total: int | None
    stats: Stats
    stale: list[str]  # shown as an index had them: their records could not be read

    @property
    def degraded(self) -> bool:
        return self.stats.degraded or bool(self.stale)


class IndexPage(NamedTuple):
    """Candidates by id. Up to `horizon` nothing is missing; None: nothing lies beyond."""

    rows: dict[str, tuple[str, SubmissionRow]]
    horizon: str | None


async def list_submissions(query: ListQuery) -> Listing:
    at = now()
    index, counts, feed = await asyncio.gather(
        get_submission_index(query), get_kv().get_counts(COUNTER_KEYS), get_recent_feed(at)
    )
    active = {row_id for row_id, (_, row) in index.rows.items() if row.state in ACTIVE_STATES}
    fresh = await get_submissions_fresh(active | feed.keys())
    stats = stats_of(counts, at)
    rows, next_position = _cut(_merge(query, index.rows, feed, fresh), index.horizon, query)
    shown = {row.id for row in rows}
    return Listing(
        rows=rows,
        next_position=next_position,
        total=_total(query, stats),
        stats=stats,
        stale=sorted(shown.intersection(fresh.failed)),
    )


async def get_submission_index(query: ListQuery) -> IndexPage:
    """The index alone: a page of candidates, each perhaps seconds old."""
    limit = rows_per_partition(query.limit)
    bound = {"before": query.after} if query.descending else {"after": query.after}
    queries = [Query(pk, index, descending=query.descending, limit=limit, **bound) for pk, index in _partitions(query)]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    found = [row for page in pages for row in page.rows]
    parsed, _ = parse_each({row.key: row.text for row in found}, _ROW)
    positions = {row.key.pk.removeprefix("sub:"): row.sort for row in found}
    return IndexPage({row.id: (positions[row.id], row) for row in parsed}, _complete_until(pages, query.descending))


async def list_of_repo(source: str, limit: int, after: str | None) -> tuple[list[SubmissionRow], str | None, list[str]]:
    """Every submission of one source, straight from the rows that make them unique: never behind. A record that could
    not be read is shown as the list index has it, and named."""
    page = await get_kv().query(Query(f"unique:{source}", after=after, limit=limit))
    ids = {row.sort: msgspec.json.decode(row.text)["id"] for row in page.rows}
    fresh = await get_submissions_fresh(ids.values())
    path_of = {submission.id: submission.skill_path for submission in fresh.submissions}
    by_id = await _rows_in_index(fresh.failed)
    by_id |= {submission.id: row_of(submission) for submission in fresh.submissions}
    # What was submitted by name has a row under that name too: it is shown once, under its path.
    rows = [by_id[row_id] for path, row_id in ids.items() if row_id in by_id and path_of.get(row_id, path) == path]
    return rows, page.rows[-1].sort if page.more else None, fresh.failed


async def _rows_in_index(ids: Iterable[str]) -> dict[str, SubmissionRow]:
    """An id says when it was made, so the index is asked for that moment alone."""
    queries = [
        Query(
            f"{LISTS['sub:']}#{shard_of(row_id)}",
            "list",
            after=stamp(time_of(row_id)),
            before=stamp(time_of(row_id) + LONGEST_ACCEPT),
        )
        for row_id in ids
    ]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    rows, _ = parse_each({row.key: row.text for page in pages for row in page.rows}, _ROW)
    return {row.id: row for row in rows}


_ROW = msgspec.json.Decoder(SubmissionRow)


def _partitions(query: ListQuery) -> list[tuple[str, str]]:
    if not query.states and not query.by_update:
        return [(f"{LISTS['sub:']}#{shard}", "list") for shard in range(SHARDS)]
    states = query.states or tuple(State)
    return [(f"{state}#{shard}", "state") for state in states for shard in range(SHARDS)]


def _complete_until(pages: Iterable[Page], descending: bool) -> str | None:
    ends = [page.rows[-1].sort for page in pages if page.more]
    if not ends:
        return None
    return max(ends) if descending else min(ends)


class Fitting(NamedTuple):
    found: list[tuple[str, str]]  # position and id
    failed: list[str]  # that may fit: their records could not be read
    next_position: str | None  # None: everything was looked at


async def find_by_reason(state: State, prefix: str, after: str | None = None, limit: int = MAX_LIMIT) -> Fitting:
    """Of one page of what is in this state, the oldest first, those whose reason begins so: rows name them, records
    decide."""
    query = ListQuery((state,), by_update=True, descending=False, limit=limit, after=after)
    index = await get_submission_index(query)
    page = sorted(pair for pair in index.rows.values() if index.horizon is None or pair[0] <= index.horizon)
    alike = {row.id: at for at, row in page[:limit] if (row.reason or "").startswith(prefix[:SURELY_IN_ROW])}
    fresh = await get_submissions_fresh(alike)
    fits = {s.id for s in fresh.submissions if s.state == state and (s.reason or "").startswith(prefix)}
    found = [(at, submission_id) for submission_id, at in alike.items() if submission_id in fits]
    return Fitting(found, fresh.failed, page[limit - 1][0] if len(page) > limit else index.horizon)


async def get_recent_feed(at: datetime) -> dict[str, SubmissionRow]:
    """What changed in the last two minutes, strongly consistent: an index may not show it yet. The newest first: should
    a minute have more than a page takes, the index has caught up with the rest."""
    since = at - FEED_WINDOW
    minutes = [since + timedelta(minutes=n) for n in range(math.ceil(FEED_WINDOW / timedelta(minutes=1)))]
    partitions = {feed_partition(minute, shard) for minute in [*minutes, at] for shard in range(SHARDS)}
    pages = await asyncio.gather(
        *(get_kv().query(Query(pk, after=stamp(since), descending=True)) for pk in sorted(partitions))
    )
    rows, _ = parse_each({row.key: row.text for page in pages for row in page.rows}, _ROW)
    return {row.id: row for row in sorted(rows, key=lambda row: row.version)}


async def get_moved(since: datetime, until: datetime) -> set[str]:
    """The ids of all that moved or were created between two times, as the feed has it: every one of them, strongly
    consistent, for as long as the feed is kept."""
    partitions = [feed_partition(minute, shard) for minute in minutes_between(since, until) for shard in range(SHARDS)]
    found = await asyncio.gather(*(query_all(get_kv(), pk) for pk in partitions))
    return {row.sort.split("#")[1] for rows in found for row in rows}


def _merge(
    query: ListQuery, index: dict[str, tuple[str, SubmissionRow]], feed: dict[str, SubmissionRow], fresh: Fresh
) -> list[tuple[str, SubmissionRow]]:
    merged = {row_id: row for row_id, (_, row) in index.items()}
    merged |= {row_id: feed[row_id] for row_id in fresh.failed if row_id in feed}
    merged |= {submission.id: row_of(submission) for submission in fresh.submissions}
    for row_id in fresh.missing:
        logger.error("index row without a record", extra={"submission": row_id})
        merged.pop(row_id, None)
    return [(_position(query, row), row) for row in merged.values() if not query.states or row.state in query.states]


def _position(query: ListQuery, row: SubmissionRow | Submission) -> str:
    return f"{stamp(row.updated_at if query.by_update or query.states else row.created_at)}#{row.id}"


def _cut(
    rows: list[tuple[str, SubmissionRow]], horizon: str | None, query: ListQuery
) -> tuple[list[SubmissionRow], str | None]:
    def is_on_page(position: str) -> bool:
        if query.descending:
            return (query.after is None or position < query.after) and (horizon is None or position >= horizon)
        return (query.after is None or position > query.after) and (horizon is None or position <= horizon)

    here = sorted((pair for pair in rows if is_on_page(pair[0])), key=lambda pair: pair[0], reverse=query.descending)
    page = here[: query.limit]
    next_position = page[-1][0] if len(here) > query.limit else horizon
    return [row for _, row in page], next_position


def _total(query: ListQuery, stats: Stats) -> int | None:
    if not query.states or stats.by_state is None:
        return stats.total
    return sum(stats.by_state[state] for state in query.states)
