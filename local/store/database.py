"""One SQLite file holds everything the platform stores on one machine.

One thread writes. It takes all writes that wait, applies them in one transaction and answers them after its commit,
which ends with an fsync of the write-ahead log: a write that was answered survives SIGKILL and a power failure, and a
hundred writes at once cost one fsync. Reads use a connection of their own and see what is committed.
"""

import asyncio
import sqlite3
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from local.store.errors import RequestError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
VERSION = 1
MOST_IN_ONE_COMMIT = 500
CACHE_KIB = 32_768
SYNCHRONOUS = "FULL"  # an fsync for every commit; with less, a power failure loses what was answered
SCHEMA = """
CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, definition TEXT NOT NULL);
CREATE TABLE items (
    id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item BLOB NOT NULL,
    expires INTEGER
);
CREATE UNIQUE INDEX items_by_key ON items (tbl, pk, sk);
CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE entries (
    idx INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item_pk TEXT NOT NULL, item_sk TEXT NOT NULL,
    item BLOB NOT NULL, PRIMARY KEY (idx, pk, sk, item_pk, item_sk)
) WITHOUT ROWID;
CREATE TABLE transactions (token TEXT PRIMARY KEY, request BLOB NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE queues (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, attributes TEXT NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue INTEGER NOT NULL, message_id TEXT NOT NULL, body TEXT NOT NULL,
    sent_at REAL NOT NULL, visible_at REAL NOT NULL, receives INTEGER NOT NULL DEFAULT 0, received_at REAL, receipt TEXT
);
CREATE INDEX messages_by_time ON messages (queue, visible_at);
CREATE TABLE buckets (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE objects (
    bucket TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, media_type TEXT NOT NULL, modified REAL NOT NULL,
    PRIMARY KEY (bucket, key)
);
"""
# Newer than the schema; an earlier release ignores it. What expires is found without reading a body.
INDEX_BY_AGE = "CREATE INDEX IF NOT EXISTS objects_by_age ON objects (key, modified)"


class Opened(NamedTuple):
    is_new: bool
    cut_bytes: int  # of writes that were never answered: behind the last commit in the log


class Database:
    def __init__(self, path: Path, fill: Work | None = None) -> None:
        """`fill` gets a new database before anything else does, in the transaction that creates it."""
        self._path = path
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        self.opened = Opened(self._create(fill), self._cut_bytes())
        self._writer.execute(INDEX_BY_AGE)
        self.reader = self._connect()
        self.reader.execute("PRAGMA query_only = 1")
        self._waiting: SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_until_closed, name="writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs the work on the writer's thread. Returns once it is on disk; if it raises, nothing of it is."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put((work, future))
        return await future

    def close(self) -> None:
        """Everything that waits is written first; the log is merged into the file."""
        self._waiting.put(None)
        self._thread.join()
        self.reader.close()
        self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=30, cached_statements=256
        )
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return connection

    def _create(self, fill: Work | None) -> bool:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise sqlite3.DatabaseError(f"its format is {version}, and this release knows {VERSION}")
        if version == VERSION:
            return False
        self._writer.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA.split(";\n"):
            self._writer.execute(statement)
        if fill is not None:
            fill(self._writer)
        self._writer.execute(f"PRAGMA user_version = {VERSION}")
        self._writer.execute("COMMIT")
        return True

    def _cut_bytes(self) -> int:
        _, frames, _ = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return torn_bytes(self._path.with_name(f"{self._path.name}-wal"), frames)

    # --- the writer's thread ---

    def _write_until_closed(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < MOST_IN_ONE_COMMIT and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)
                    break
                batch.append(following)
            outcomes = self._apply([work for work, _ in batch])
            futures = [future for _, future in batch]
            futures[0].get_loop().call_soon_threadsafe(_deliver, futures, outcomes)

    def _apply(self, works: list[Work]) -> list[Any]:
        """Their results, or errors, in one transaction. Without its commit nothing happened."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            outcomes = [self._apply_one(work) for work in works]
            self._commit()
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            return [RequestError("InternalServerError", f"Nothing was written: {error}.", 500)] * len(works)
        return outcomes

    def _commit(self) -> None:
        self._writer.execute("COMMIT")

    def _apply_one(self, work: Work) -> Any:
        self._writer.execute("SAVEPOINT one")
        try:
            outcome = work(self._writer)
        except Exception as error:  # noqa: BLE001 an error answers its own request, not those beside it
            self._writer.execute("ROLLBACK TO one")
            outcome = error
        self._writer.execute("RELEASE one")
        return outcome


def _deliver(futures: list["asyncio.Future[Any]"], outcomes: list[Any]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # its client is gone
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def torn_bytes(log: Path, frames: int) -> int:
    """The bytes of a write-ahead log behind its last commit, which SQLite ignores. Frames of an earlier use of the file
    have another salt and do not count."""
    try:
        content = log.read_bytes()
    except FileNotFoundError:
        return 0
    if len(content) < 32:
        return len(content)
    page_size, salt = struct.unpack(">I", content[8:12])[0], content[16:24]
    at = end = 32 + frames * (24 + page_size)
    while at < len(content) and (content[at + 8 : at + 16] == salt or len(content) - at < 16):
        at += 24 + page_size
    return min(at, len(content)) - end if at > end else 0
