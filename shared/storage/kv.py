"""The KV store: JSON documents by key, written in transactions, read in parallel, found through three indexes.

This is the contract. shared/storage/dynamo_kv.py is the real store; the tests' in-memory one passes the same suite.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

SHARDS = 4  # partitions per list; a partition takes 1,000 writes a second

# Which list of the `list` index holds the documents under a key prefix. Aliases, versions and the like are in none.
LISTS = {
    "sub:": "submissions:index",
    "skill:": "skills:published-index",
    "dead-letter:": "dead-letters:index",
    "block:": "blocklist:index",
    "report:": "reports:index",
}


class Key(NamedTuple):
    pk: str
    sk: str = "."


class Row(NamedTuple):
    """A row of a query result: `text` is the document, in an index the short `row`, in the due index empty."""

    key: Key
    sort: str
    text: str


class Page(NamedTuple):
    rows: list[Row]
    more: bool


class ShardedRows(NamedTuple):
    """Rows of several partitions, merged in one order. A partition may have been cut: past `complete_until` rows can be
    missing. None: every partition was read to its end."""

    rows: list[Row]
    complete_until: str | None

    def page(self, limit: int) -> tuple[list[Row], str | None]:
        """The first rows, and the position that continues after them: None at the end."""
        sorts = [row.sort for row in self.rows]
        known = len(sorts) if self.complete_until is None else sorts.index(self.complete_until) + 1
        return self.rows[: min(limit, known)], sorts[limit - 1] if known > limit else self.complete_until


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """Every requested key is in exactly one of the three: a key that could not be read is not a missing one."""

    found: dict[Key, T]
    missing: list[Key]
    failed: list[Key]


Expect = Mapping[str, str | int | None]  # attribute -> required value; None: it must be absent
ABSENT: Expect = MappingProxyType({"pk": None})


@dataclass(frozen=True, slots=True)
class Put:
    key: Key
    doc: str
    attrs: Mapping[str, str | int] = field(default_factory=dict)
    expect: Expect | None = None


@dataclass(frozen=True, slots=True)
class Add:
    """Adds to counters. Only ever inside a transaction with a conditional Put: repeated alone, it would count twice.
    Counters that are no longer needed are removed, which may be repeated."""

    key: Key
    counts: Mapping[str, int] = field(default_factory=dict)
    most: int | None = None  # of a single count: refused if that is not below it
    expires_at: int | None = None
    remove: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Check:
    key: Key
    expect: Expect


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    expect: Expect


Write = Put | Add | Check | Delete


@dataclass(frozen=True, slots=True)
class Query:
    """One partition of the table (strongly consistent) or of an index (eventually consistent: candidates only)."""

    pk: str
    index: str | None = None
    after: str | None = None  # sort keys above this one, exclusive
    before: str | None = None  # sort keys below this one, exclusive
    prefix: str | None = None
    descending: bool = False
    limit: int | None = None


class KV(Protocol):
    async def get(self, key: Key) -> str | None: ...

    async def get_many(self, keys: Iterable[Key]) -> Read[str]: ...

    async def get_counts(self, keys: Iterable[Key]) -> Read[dict[str, int]]: ...

    async def query(self, query: Query) -> Page: ...

    async def ids(self, prefix: str) -> list[str]: ...

    async def put(self, put: Put) -> None: ...

    async def put_all(self, puts: Iterable[Put]) -> None:
        """Without conditions and not all or nothing, at half the price of a transaction: only for what may be written
        twice, in any order. Raises Unavailable if it could not write each of them."""
        ...

    async def take(self, key: Key, most: int, expires_at: int, amount: int = 1) -> int | None:
        """Takes so many of at most `most`: returns how many are taken now, None if too few were left. A lost
        response may make it take twice, so it is for limits, not for exact counts."""
        ...

    async def transact(self, build: Callable[[], Sequence[Write]]) -> Sequence[Write]:
        """All writes or none; returns the stored writes. `build` is called before every attempt, so that each has a
        fresh time. Raises ConditionFailed unless what is stored is this very transaction."""
        ...


def shard_of(text: str, shards: int = SHARDS) -> int:
    return crc32(text.encode()) % shards


def rows_per_partition(limit: int) -> int:
    """Ids are spread evenly over the shards, so a share with some room fills a page."""
    share = (limit + 1) / SHARDS
    return min(limit + 1, math.ceil(share + 4 * math.sqrt(share)))


async def query_shards(kv: KV, *queries: Query) -> ShardedRows:
    """Each query on all shards of the list that its `pk` names. All queries have the same order."""
    sharded = [replace(query, pk=f"{query.pk}#{shard}") for query in queries for shard in range(SHARDS)]
    pages = await asyncio.gather(*map(kv.query, sharded))
    descending = queries[0].descending
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.sort, reverse=descending)
    return ShardedRows(rows, complete_until(pages, descending))


def complete_until(pages: Iterable[Page], descending: bool) -> str | None:
    """The sort key up to which no row of these partitions is missing. None: all were read to their end."""
    ends = [page.rows[-1].sort for page in pages if page.more]
    return (max if descending else min)(ends, default=None)


async def query_all(kv: KV, pk: str, index: str | None = None, after: str | None = None) -> list[Row]:
    """Every row of a partition, page by page. Sort keys are unique in a partition, so the last one continues it."""
    rows: list[Row] = []
    page = await kv.query(Query(pk, index, after))
    while page.more:
        rows += page.rows
        page = await kv.query(Query(pk, index, after=rows[-1].sort))
    return rows + page.rows


async def ids_of(kv: KV, prefix: str) -> list[str]:
    partitions = (f"{LISTS[prefix]}#{shard}" for shard in range(SHARDS))
    shards = await asyncio.gather(*(query_all(kv, partition, "list") for partition in partitions))
    return [row.key.pk.removeprefix(prefix) for rows in shards for row in rows]


async def page_of_ids(kv: KV, prefix: str, after: str | None, limit: int) -> tuple[list[str], str | None]:
    """The oldest ids of a list behind a position, and the position to continue from: None at the end."""
    found = await query_shards(kv, Query(LISTS[prefix], "list", after, limit=rows_per_partition(limit)))
    rows, end = found.page(limit)
    return [row.key.pk.removeprefix(prefix) for row in rows], end


def is_usable(key: Key) -> bool:
    """DynamoDB rejects a whole batch for one invalid key, so such a key is never sent."""
    return 0 < len(key.pk.encode()) <= 2048 and 0 < len(key.sk.encode()) <= 1024
