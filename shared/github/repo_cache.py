"""What GitHub said about a repository, shared by all workers for minutes: a batch of fifty skills asks once.

An entry is one record; while a worker asks GitHub, the record is its lease, and the others wait for what it stores. An
entry that does not serve (absent, expired, damaged, or without an answer that is needed) is replaced by one of them.
Only what was parsed from public answers is stored, never a request or its headers.
"""

import hashlib
import math
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec

from shared.errors import ConditionFailed, Deferred, NeedsPerson, NotFound, Unavailable
from shared.storage.content import Content
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, KV, Expect, Key, Put
from shared.telemetry import logger
from shared.timing import BUSY_PAUSE, FETCH_LEASE, FETCH_WAIT, LONGEST_QUOTA_WAIT, attempts_within, seconds_to_wait

LARGEST_DOC = 100_000  # bytes in the record itself; what is larger goes to the bucket
WRITES_TRIED = 3

T = TypeVar("T")


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`found` is served until `until`. Without it, a worker is asking GitHub until then, or GitHub was down."""

    revision: str
    asked_at: datetime
    until: datetime
    found: str | None = None
    piece: str | None = None  # `found` is in the bucket, under this digest
    failure: "SharedFailure | None" = None

    def is_valid(self, now: datetime) -> bool:
        return self.asked_at <= now < self.until

    def serves(self, since: datetime | None) -> bool:
        return self.failure is not None or since is None or self.asked_at >= since

    @property
    def is_fetching(self) -> bool:
        return self.found is None and self.piece is None and self.failure is None


class SharedFailure(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Of one worker's attempt: the others need not try for themselves."""

    message: str
    what: str = ""
    code: str = ""
    until: datetime | None = None
    parked_by: str = ""

    def error(self) -> Deferred | NeedsPerson:
        if self.until is None:
            return NeedsPerson(self.message, self.parked_by)
        return Deferred(self.message, self.what, self.until, self.code)


class RepoCache:
    def __init__(self, kv: KV, content: Content, clock: Callable[[], datetime]) -> None:
        self.kv = kv
        self._content = content
        self._clock = clock

    async def share(
        self,
        key: Key,
        lifetime: timedelta,
        use: Callable[[str], Awaitable[T | None]],
        fetch: Callable[[str | None], Awaitable[tuple[T, str]]],
        since: datetime | None = None,
    ) -> T:
        """What `use` makes of the stored document, or what `fetch` gets from GitHub: of all who need it, one fetches.
        `use` returns None if the document does not serve; `fetch` gets that document, and returns a better one too.
        What was asked for before `since` does not serve."""
        async for _ in attempts_within(timedelta(seconds=seconds_to_wait(FETCH_WAIT)), first_pause=0.05):
            entry, expect = await self._read(key)
            if entry and entry.is_fetching:
                continue
            found = await self._found_in(key, entry) if entry and entry.serves(since) else None
            if found is not None and (used := await use(found)) is not None:
                return used
            if lease := await self._take(key, expect):
                return await self._fetch(key, lease, lifetime, partial(fetch, found))
        until = self._clock() + BUSY_PAUSE
        raise Deferred("Another worker is still reading this repository.", "GitHub", until, "github_down")

    async def replace(self, key: Key, lifetime: timedelta, asked_at: datetime, found: str) -> None:
        """Stores what a request learned for itself, unless what is stored was asked for later."""
        entry = await self._entry(key, asked_at, lifetime, found)
        for _ in range(WRITES_TRIED):
            stored, expect = await self._read(key)
            if stored and stored.asked_at >= asked_at:
                return
            try:
                await self.kv.put(_put(key, entry, expect))
            except ConditionFailed:
                continue
            return

    async def put_piece(self, key: Key, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        await self._content.put_body(_place(key, digest), data)
        return digest

    async def find_piece(self, key: Key, digest: str) -> bytes | None:
        """None if it is not there as it was stored. (Who may not list a bucket is refused what it does not have.)"""
        try:
            data = await self._content.get_body(_place(key, digest))
        except (NotFound, Unavailable):
            return None
        if hashlib.sha256(data).hexdigest() == digest:
            return data
        logger.warning("damaged piece of a repository", extra={"key": key.pk, "piece": digest})
        return None

    async def _read(self, key: Key) -> tuple[CacheEntry | None, Expect | None]:
        """The entry if it is valid, and the condition for writing over what is stored."""
        doc = await self.kv.get(key)
        if doc is None:
            return None, ABSENT
        try:
            entry = _ENTRY.decode(doc)
        except msgspec.MsgspecError:
            return None, None
        return entry if entry.is_valid(self._clock()) else None, {"revision": entry.revision}

    async def _found_in(self, key: Key, entry: CacheEntry) -> str | None:
        if entry.failure:
            raise entry.failure.error()
        if entry.piece is None:
            return entry.found
        piece = await self.find_piece(key, entry.piece)
        return None if piece is None else piece.decode()

    async def _take(self, key: Key, expect: Expect | None) -> CacheEntry | None:
        now = self._clock()
        lease = CacheEntry(revision=uuid.uuid4().hex, asked_at=now, until=now + FETCH_LEASE)
        try:
            await self.kv.put(_put(key, lease, expect))
        except ConditionFailed:  # another worker was faster
            return None
        return lease

    async def _fetch(
        self, key: Key, lease: CacheEntry, lifetime: timedelta, fetch: Callable[[], Awaitable[tuple[T, str]]]
    ) -> T:
        held: Expect = {"revision": lease.revision}
        try:
            result, found = await fetch()
            entry = await self._entry(key, lease.asked_at, lifetime, found)
        except (Deferred, NeedsPerson) as error:
            await self._settle(key, _failed(lease, error, lifetime), held)
            raise
        except BaseException:  # also when this worker runs out of time: the others need not wait for the lease's end
            await self._settle(key, msgspec.structs.replace(lease, until=lease.asked_at), held)
            raise
        await self._settle(key, entry, held)
        return result

    async def _settle(self, key: Key, entry: CacheEntry, held: Expect) -> None:
        """This worker has its answer: that the others cannot have it is no reason to fail."""
        try:
            await self.kv.put(_put(key, entry, held))
        except (ConditionFailed, Unavailable):
            logger.info("an answer of GitHub was not shared", extra={"key": key.pk})

    async def _entry(self, key: Key, asked_at: datetime, lifetime: timedelta, found: str) -> CacheEntry:
        entry = CacheEntry(revision=uuid.uuid4().hex, asked_at=asked_at, until=asked_at + lifetime, found=found)
        body = found.encode()
        if len(body) <= LARGEST_DOC:
            return entry
        return msgspec.structs.replace(entry, found=None, piece=await self.put_piece(key, body))


_ENTRY = msgspec.json.Decoder(CacheEntry)


def _put(key: Key, entry: CacheEntry, expect: Expect | None) -> Put:
    attrs: dict[str, str | int] = {"revision": entry.revision, "expiresAt": math.ceil(entry.until.timestamp())}
    return Put(key, encode(entry), attrs, expect)


def _failed(lease: CacheEntry, error: Deferred | NeedsPerson, lifetime: timedelta) -> CacheEntry:
    if isinstance(error, NeedsPerson):
        failure, until = SharedFailure(message=str(error), parked_by=error.parked_by), lease.asked_at + lifetime
    else:
        failure = SharedFailure(message=str(error), what=error.what, code=error.code, until=error.until)
        until = min(error.until, lease.asked_at + LONGEST_QUOTA_WAIT)
    return msgspec.structs.replace(lease, until=until, failure=failure)


def _place(key: Key, digest: str) -> str:
    """Named by its own content: two workers that write at once cannot spoil each other's."""
    return f"{key.pk.replace(':', '/')}/{digest}"
