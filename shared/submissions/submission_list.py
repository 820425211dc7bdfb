"""Lists of submissions that are right at first sight.

An index is eventually consistent, so it only gives candidates. One round trip reads the index, the counters and the
feed of the last two minutes; a second re-reads, strongly, every active row and what the feed names, and merges: fresh
wins, a row that no longer matches is dropped, one that the index does not know yet is added. On a busy day the second
round trip has a limit, so that a view never costs more than work: what is not read again is shown as the feed has it,
and named.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import NamedTuple

from shared.db import now
from shared.records.submissions import ACTIVE_STATES, State, SubmissionRow, row_of
from shared.storage.kv import Read
from shared.submissions.counters import Stats, read_counters, stats_of
from shared.submissions.feed_store import get_recent_feed
from shared.submissions.submission_store import (
    Fresh,
    IndexPage,
    get_ids_by_path,
    get_indexed_rows,
    get_submission_index,
    get_submissions_fresh,
    position_of,
)
from shared.telemetry import logger

MAX_LIMIT = 500
READ_AGAIN = 500  # records, beside as many as a page has rows
SURELY_IN_ROW = 40  # letters of a reason that no row cuts off


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
    stale: list[str]  # shown as an index or the feed had them: their records were not read
    is_feed_cut: bool = (
        False  # an index that lags may still miss what changed before the part of the feed that was read
    )

    @property
    def degraded(self) -> bool:
        return self.stats.degraded or bool(self.stale) or self.is_feed_cut


async def list_submissions(query: ListQuery, counters: Awaitable[Read[dict[str, int]]] | None = None) -> Listing:
    """`counters`: if they are read already."""
    at = now()
    index, counts, feed = await asyncio.gather(_index_of(query), counters or read_counters(), get_recent_feed(at))
    candidates = list(dict.fromkeys([*_active_in_order(query, index), *feed.rows]))
    most = query.limit + READ_AGAIN
    fresh = await get_submissions_fresh(candidates[:most])
    not_read = {*fresh.failed, *candidates[most:]}
    stats = stats_of(counts, at)
    rows, next_position = _cut(_merge(query, index.rows, feed.rows, fresh, not_read), index.complete_until, query)
    shown = {row.id for row in rows}
    return Listing(
        rows=rows,
        next_position=next_position,
        total=_total(query, stats),
        stats=stats,
        stale=sorted(shown & not_read),
        is_feed_cut=feed.is_cut,
    )


async def list_some(
    query: ListQuery, ids: Iterable[str], counters: Awaitable[Read[dict[str, int]]] | None = None
) -> Listing:
    """Of these, what the list would show, in its order. Only the records are read."""
    at = now()
    fresh, counts = await asyncio.gather(get_submissions_fresh(ids), counters or read_counters())
    rows = [row_of(one) for one in fresh.submissions if not query.states or one.state in query.states]
    by_update = query.by_update or bool(query.states)
    rows.sort(key=lambda row: position_of(row, by_update), reverse=query.descending)
    stats = stats_of(counts, at)
    return Listing(rows, None, _total(query, stats), stats, stale=fresh.failed)


def _active_in_order(query: ListQuery, index: IndexPage) -> list[str]:
    """Those of the page first: an index names more candidates than a page shows."""
    active = [(position, row_id) for row_id, (position, row) in index.rows.items() if row.state in ACTIVE_STATES]
    return [row_id for _, row_id in sorted(active, reverse=query.descending)]


async def list_of_repo(source: str, limit: int, after: str | None) -> tuple[list[SubmissionRow], str | None, list[str]]:
    """Every submission of one source, straight from the rows that make them unique: never behind. A record that could
    not be read is shown as the list index has it, and named."""
    ids, end = await get_ids_by_path(source, after, limit)
    fresh = await get_submissions_fresh(ids.values())
    path_of = {submission.id: submission.skill_path for submission in fresh.submissions}
    by_id = await get_indexed_rows(fresh.failed)
    by_id |= {submission.id: row_of(submission) for submission in fresh.submissions}
    # What was submitted by name has a row under that name too: it is shown once, under its path.
    rows = [by_id[row_id] for path, row_id in ids.items() if row_id in by_id and path_of.get(row_id, path) == path]
    return rows, end, fresh.failed


class FoundByReason(NamedTuple):
    found: list[tuple[str, str]]  # position and id
    failed: list[str]  # that may fit: their records could not be read
    next_position: str | None  # None: this was the last page


async def find_by_reason(state: State, prefix: str, after: str | None = None, limit: int = MAX_LIMIT) -> FoundByReason:
    """Of one page of what is in this state, the oldest first, those whose reason begins so: rows name them, records
    decide."""
    index = await get_submission_index((state,), by_update=True, descending=False, limit=limit, after=after)
    page = sorted(
        pair for pair in index.rows.values() if index.complete_until is None or pair[0] <= index.complete_until
    )
    alike = {row.id: at for at, row in page[:limit] if (row.reason or "").startswith(prefix[:SURELY_IN_ROW])}
    fresh = await get_submissions_fresh(alike)
    fits = {s.id for s in fresh.submissions if s.state == state and (s.reason or "").startswith(prefix)}
    found = [(at, submission_id) for submission_id, at in alike.items() if submission_id in fits]
    return FoundByReason(found, fresh.failed, page[limit - 1][0] if len(page) > limit else index.complete_until)


async def _index_of(query: ListQuery) -> IndexPage:
    return await get_submission_index(query.states, query.by_update, query.descending, query.limit, query.after)


def _merge(
    query: ListQuery,
    index: dict[str, tuple[str, SubmissionRow]],
    feed: dict[str, SubmissionRow],
    fresh: Fresh,
    not_read: set[str],
) -> list[tuple[str, SubmissionRow]]:
    merged = {row_id: row for row_id, (_, row) in index.items()}
    merged |= {row_id: feed[row_id] for row_id in not_read if row_id in feed}
    merged |= {submission.id: row_of(submission) for submission in fresh.submissions}
    for row_id in fresh.missing:
        logger.error("index row without a record", extra={"submission": row_id})
        merged.pop(row_id, None)
    by_update = query.by_update or bool(query.states)
    shown = (row for row in merged.values() if not query.states or row.state in query.states)
    return [(position_of(row, by_update), row) for row in shown]


def _cut(
    rows: list[tuple[str, SubmissionRow]], complete_until: str | None, query: ListQuery
) -> tuple[list[SubmissionRow], str | None]:
    def is_on_page(position: str) -> bool:
        if query.descending:
            return (query.after is None or position < query.after) and (
                complete_until is None or position >= complete_until
            )
        return (query.after is None or position > query.after) and (
            complete_until is None or position <= complete_until
        )

    here = sorted((pair for pair in rows if is_on_page(pair[0])), key=lambda pair: pair[0], reverse=query.descending)
    page = here[: query.limit]
    next_position = page[-1][0] if len(here) > query.limit else complete_until
    return [row for _, row in page], next_position


def _total(query: ListQuery, stats: Stats) -> int | None:
    if not query.states or stats.by_state is None:
        return stats.total
    return sum(stats.by_state[state] for state in query.states)
