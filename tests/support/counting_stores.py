"""Stores that count: how many requests a call makes, and in how many round trips."""

import asyncio
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict

from shared.storage.kv import Page, Query
from tests.support.memory import MemoryContent, MemoryKV, Row

KEYS_PER_REQUEST = 100  # as DynamoDB has it
WRITES_PER_REQUEST = 25
SETTLED = 30  # turns of the event loop after which no other request is about to start


class LookedUpKV(MemoryKV):
    """Once frozen, queries are looked up instead of searched for: large stores stay quick to ask."""

    _partitions: dict | None = None

    def freeze(self) -> None:
        """From now on nothing is written, and time says something about the caller."""
        partitions = defaultdict(list)
        for key, item in self.items.items():
            partitions[None, key.pk].append(Row(key, key.sk, item.doc))
            for index in ("list", "state", "due"):
                if pk := item.attrs.get(f"{index}Pk"):
                    text = "" if index == "due" else item.attrs["row"]
                    partitions[index, pk].append(Row(key, item.attrs[f"{index}Sk"], text))
        self._partitions = {name: sorted(rows, key=lambda row: row.sort) for name, rows in partitions.items()}

    async def query(self, query: Query) -> Page:
        if self._partitions is None:
            return await super().query(query)
        rows = self._partitions.get((query.index, query.pk), [])
        first = 0 if query.after is None else bisect_right(rows, query.after, key=lambda row: row.sort)
        last = len(rows) if query.before is None else bisect_left(rows, query.before, key=lambda row: row.sort)
        if query.prefix is not None:
            first = bisect_left(rows, query.prefix, key=lambda row: row.sort)
            last = bisect_left(rows, f"{query.prefix}\U0010ffff", key=lambda row: row.sort)
        limit = query.limit or last - first
        if query.descending:
            return Page(rows[max(first, last - limit) : last][::-1], more=last - first > limit)
        return Page(rows[first : min(last, first + limit)], more=last - first > limit)


class CountingKV(LookedUpKV):
    """Answers come in waves: all requests that are under way together are one round trip."""

    def __init__(self, now) -> None:
        super().__init__(now)
        self.forget()
        self._gate: asyncio.Future[None] | None = None

    def forget(self) -> None:
        self.requests = self.round_trips = 0  # of reads
        self.writes = 0

    async def get(self, key):
        await self._wave()
        return await super().get(key)

    async def get_many(self, keys):
        keys = list(keys)
        await self._wave(math.ceil(len(keys) / KEYS_PER_REQUEST))
        return await super().get_many(keys)

    async def get_counts(self, keys):
        await self._wave()
        return await super().get_counts(keys)

    async def query(self, query: Query) -> Page:
        await self._wave()
        return await super().query(query)

    async def put(self, put) -> None:
        self.writes += 1
        await super().put(put)

    async def put_all(self, puts) -> None:
        puts = list(puts)
        self.writes += math.ceil(len(puts) / WRITES_PER_REQUEST)
        await super().put_all(puts)

    async def transact(self, build):
        self.writes += 1
        return await super().transact(build)

    async def take(self, key, most, expires_at, amount=1):
        self.writes += 1
        return await super().take(key, most, expires_at, amount)

    async def _wave(self, requests: int = 1) -> None:
        if not requests:
            return
        self.requests += requests
        if self._gate is None:
            self._gate = asyncio.get_running_loop().create_future()
            self._open_after(SETTLED)
        await self._gate

    def _open_after(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._open_after, turns - 1)
            return
        gate, self._gate = self._gate, None
        self.round_trips += 1
        gate.set_result(None)


class CountingContent(MemoryContent):
    requests = 0

    async def get_files(self, content_hash):
        self.requests += 1
        return await super().get_files(content_hash)

    async def get_body(self, key):
        self.requests += 1
        return await super().get_body(key)

    async def put_body(self, key, body):
        self.requests += 1
        await super().put_body(key, body)

    async def put_files(self, files):
        self.requests += 1
        return await super().put_files(files)

    async def keep_files(self, files):
        self.requests += 1
        await super().keep_files(files)
