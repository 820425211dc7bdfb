"""What changed, in the order it changed, for pages that stay open.

A position in the feed is a feed key, `updatedAt#id#version`, or a bare time. Every answer starts ten seconds before
the position it continues, because a transaction may become visible a little after the time it carries: whoever reads
drops repeats by (id, version) and misses nothing.
"""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import InvalidRequest
from shared.storage.documents import parse_each, stamp
from shared.storage.kv import SHARDS, Query, Row
from shared.submissions.submission_store import SubmissionRow, feed_partition
from shared.timing import FEED_TTL

OVERLAP = timedelta(seconds=10)  # longer than any transaction is retried with one time
LONGEST_WINDOW = timedelta(minutes=5)
MAX_EVENTS = 500
POSITION_PATTERN = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)(?:#sub_[a-z0-9]{26}#[0-9]{1,9})?"
)
_POSITION = re.compile(POSITION_PATTERN)


class FeedEvent(NamedTuple):
    position: str
    row: SubmissionRow


class FeedPage(NamedTuple):
    events: list[FeedEvent]
    last_id: str  # where the next answer continues
    is_reset: bool = False  # the position is older than the feed: load the list again
    has_more: bool = False  # the answer is full: ask again at once


async def get_events(since: str | None, at: datetime) -> FeedPage:
    """Everything after `since` and what its last ten seconds repeat: at most five minutes, or 500 new events."""
    if since is None:
        return FeedPage([], stamp(at))
    position, time = _read_position(since)
    if time < at - FEED_TTL:
        return FeedPage([], stamp(at), is_reset=True)
    end = min(at, time + LONGEST_WINDOW)
    rows = await _rows_between(time - OVERLAP, end)
    repeated = [row for row in rows if row.sort <= position]
    new = [row for row in rows if row.sort > position]
    is_cut = len(new) > MAX_EVENTS
    shown = _newest_of_each(repeated) + new[:MAX_EVENTS]
    last_id = new[MAX_EVENTS - 1].sort if is_cut else max(stamp(end), position)
    return FeedPage(_parse(shown), last_id, has_more=is_cut or end < at)


_ROW = msgspec.json.Decoder(SubmissionRow)


def _read_position(text: str) -> tuple[str, datetime]:
    match = _POSITION.fullmatch(text)
    try:
        if match is None:
            raise ValueError("not a position")  # noqa: TRY301 - one answer for both
        time = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidRequest(
            "`since` is the `lastEventId` of the answer before; leave it out to start from now.", code="invalid_since"
        ) from None
    return text, time


async def _rows_between(start: datetime, end: datetime) -> list[Row]:
    minutes = int((end.replace(second=0, microsecond=0) - start.replace(second=0, microsecond=0)).total_seconds() // 60)
    partitions = [
        feed_partition(start + timedelta(minutes=n), shard) for n in range(minutes + 1) for shard in range(SHARDS)
    ]
    found = await asyncio.gather(*(_rows_after(partition, stamp(start)) for partition in partitions))
    return sorted((row for rows in found for row in rows), key=lambda row: row.sort)


async def _rows_after(partition: str, after: str) -> list[Row]:
    page = await get_kv().query(Query(partition, after=after))
    rows = page.rows
    while page.more:
        page = await get_kv().query(Query(partition, after=rows[-1].sort))
        rows = rows + page.rows
    return rows


def _newest_of_each(rows: list[Row]) -> list[Row]:
    """A repeat only has to say how things stand: a later version of a record tells all that an earlier one told."""
    by_id = {row.sort.split("#")[1]: row for row in rows}
    return sorted(by_id.values(), key=lambda row: row.sort)


def _parse(rows: list[Row]) -> list[FeedEvent]:
    positions = {row.key: row.sort for row in rows}
    parsed, malformed = parse_each({row.key: row.text for row in rows}, _ROW)
    kept = [positions[row.key] for row in rows if row.key not in malformed]
    return [FeedEvent(position, row) for position, row in zip(kept, parsed, strict=True)]
