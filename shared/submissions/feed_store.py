"""The feed at rest: one entry for every change of a submission, by minute, written in the transaction of the change.

Its partitions are minutes, not lists, so it has a fan-out of its own: a time range is every shard of each of its
minutes. They are read strongly consistent, because the feed is what makes up for indexes that lag.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.records.submissions import CATEGORIES, Submission, SubmissionRow, row_of
from shared.storage.documents import encode, minutes_between, parse_each, stamp
from shared.storage.kv import SHARDS, Key, Put, Query, Row, query_all, shard_of
from shared.timing import FEED_TTL, FEED_WINDOW

RECENT_CHANGES = 500  # of a partition: 2,000 a minute


def feed_position(row: Submission | SubmissionRow) -> str:
    return f"{stamp(row.updated_at)}#{row.id}#{row.version}"


def feed_put(submission: Submission) -> Put:
    partition = _partition(submission.updated_at, shard_of(submission.id))
    expires_at = int((submission.updated_at + FEED_TTL).timestamp())
    return Put(Key(partition, feed_position(submission)), encode(row_of(submission)), {"expiresAt": expires_at})


async def get_feed(since: datetime, until: datetime) -> list[SubmissionRow]:
    """Every change between two times in its order, strongly consistent, for as long as the feed is kept."""
    return rows_in(await _entries(since, until))


class RecentFeed(NamedTuple):
    rows: dict[str, SubmissionRow]  # the last change of each, the newest first
    is_cut: bool  # a minute had more changes than were read


async def get_recent_feed(at: datetime) -> RecentFeed:
    """What changed in the last two minutes, strongly consistent: an index may not show it yet. Of each partition the
    newest changes: where there are more, the index has caught up with the rest unless it lags for seconds."""
    since = at - FEED_WINDOW
    queries = [Query(pk, after=stamp(since), descending=True, limit=RECENT_CHANGES) for pk in _partitions(since, at)]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    changes = sorted(rows_in(row for page in pages for row in page.rows), key=lambda row: row.version)
    newest = sorted({row.id: row for row in changes}.values(), key=lambda row: row.updated_at, reverse=True)
    return RecentFeed({row.id: row for row in newest}, any(page.more for page in pages))


async def get_moved(since: datetime, until: datetime) -> set[str]:
    """The ids of all that moved or were created between two times: all of them, strongly consistent, for as long as
    the feed is kept."""
    entries = await _entries(since.replace(second=0, microsecond=0), until)
    return {entry.sort.split("#")[1] for entry in entries}


async def get_published_names(since: datetime, until: datetime) -> set[str]:
    """Of the skills that got a version between two times, in lower case."""
    rows = await get_feed(since.replace(second=0, microsecond=0), until)
    return {row.skill_name.lower() for row in rows if row.state in CATEGORIES["published"]}


def names_skill(submission: Submission) -> bool:
    """Whether its entry has the whole name: a very long one is cut off."""
    return row_of(submission).skill_name == submission.skill_name


def rows_in(rows: Iterable[Row]) -> list[SubmissionRow]:
    return parse_each({row.key: row.text for row in rows}, _ROW)[0]


_ROW = msgspec.json.Decoder(SubmissionRow)


async def _entries(since: datetime, until: datetime) -> list[Row]:
    found = await asyncio.gather(*(query_all(get_kv(), pk, after=stamp(since)) for pk in _partitions(since, until)))
    return sorted((row for rows in found for row in rows), key=lambda row: row.sort)


def _partitions(since: datetime, until: datetime) -> list[str]:
    return [_partition(minute, shard) for minute in minutes_between(since, until) for shard in range(SHARDS)]


def _partition(minute: datetime, shard: int) -> str:
    return f"feed:{minute:%Y-%m-%dT%H:%M}:{shard}"
