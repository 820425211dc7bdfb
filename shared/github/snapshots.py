"""A repository at one commit: its tree and its archive, fetched by one worker and read by all that need them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from shared.errors import Refused
from shared.github.archive import ArchiveReader, Folder
from shared.github.pins import unless_refused
from shared.github.repo_cache import RepoCache
from shared.storage.documents import encode
from shared.storage.kv import Key
from shared.timing import SNAPSHOT_AGE

PIECE = 4 * 1024 * 1024  # of an archive in the bucket: all that is in memory at once
FEED_STEP = 64 * 1024  # of a stored archive, between two turns of the event loop


class TreeEntry(msgspec.Struct):
    path: str
    mode: str
    sha: str


class Tree(msgspec.Struct):
    tree: list[TreeEntry]
    truncated: bool = False


TreeCheck = Callable[[Tree], None]  # raises Refused for what no archive is needed to refuse
Download = Callable[[ArchiveReader, Callable[[bytes], Awaitable[None]]], Awaitable[Folder]]


class StoredSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    tree: Tree | None = None  # None: it was refused
    pieces: list[str] | None = None  # digests of the archive's, in order; None: no worker has needed it yet
    refusal: tuple[str, str] | None = None  # of the tree, else of the archive as a whole: message and code


class Snapshot(NamedTuple):
    """Of one repository, by its id, at one commit. Without a cache everything is asked for each time."""

    repo_id: int
    commit: str
    cache: RepoCache | None
    ask_tree: Callable[[], Awaitable[Tree]]
    download: Download

    @property
    def _key(self) -> Key:
        return Key(f"github:{self.repo_id}:{self.commit}")

    async def tree(self) -> Tree:
        if self.cache is None:
            return await self.ask_tree()
        return unless_refused(await self.cache.share(self._key, SNAPSHOT_AGE, _tree_in, self._fetch_tree))

    async def read(self, check: TreeCheck, new_reader: Callable[[], ArchiveReader]) -> tuple[Tree, Folder]:
        """The tree, and what a reader makes of the archive."""
        if self.cache is None:
            tree = await self.ask_tree()
            check(tree)
            return tree, await self.download(new_reader(), _keep_nothing)
        cache = self.cache

        async def use(found: str) -> tuple[Tree, Folder] | Refused | None:
            stored = _STORED.decode(found)
            if stored.tree:
                check(stored.tree)
            if stored.refusal or stored.tree is None:
                return _refusal_of(stored)
            folder = await _read_pieces(cache, self._key, stored.pieces, new_reader()) if stored.pieces else None
            return None if folder is None else (stored.tree, folder)

        async def fetch(known: str | None) -> tuple[tuple[Tree, Folder] | Refused, str]:
            tree, listed = (await _tree_in(known), known) if known else await self._fetch_tree()
            if isinstance(tree, Refused):
                return tree, listed
            folder, stored = await self._fetch(cache, tree, check, new_reader())
            return folder if isinstance(folder, Refused) else (tree, folder), encode(stored)

        return unless_refused(await cache.share(self._key, SNAPSHOT_AGE, use, fetch))

    async def _fetch_tree(self, _: str | None = None) -> tuple[Tree | Refused, str]:
        try:
            tree = await self.ask_tree()
        except Refused as refusal:
            return refusal, encode(_refused(None, refusal))
        return tree, encode(StoredSnapshot(tree))

    async def _fetch(
        self, cache: RepoCache, tree: Tree, check: TreeCheck, reader: ArchiveReader
    ) -> tuple[Folder | Refused, StoredSnapshot]:
        try:
            check(tree)
        except Refused as refusal:  # of one folder: the tree serves the others
            return refusal, StoredSnapshot(tree)
        pieces = _Pieces(cache, self._key)
        try:
            folder = await self.download(reader, pieces.add)
        except Refused as refusal:
            return refusal, _refused(tree, refusal)
        await pieces.flush()
        return folder, StoredSnapshot(tree, pieces.digests)


class _Pieces:
    """Takes an archive as it arrives and puts it into the bucket piece by piece."""

    def __init__(self, cache: RepoCache, key: Key) -> None:
        self._cache = cache
        self._key = key
        self._buffer = bytearray()
        self.digests: list[str] = []

    async def add(self, chunk: bytes) -> None:
        self._buffer += chunk
        if len(self._buffer) >= PIECE:
            await self.flush()

    async def flush(self) -> None:
        if self._buffer:
            self.digests.append(await self._cache.put_piece(self._key, bytes(self._buffer)))
            self._buffer.clear()


_STORED = msgspec.json.Decoder(StoredSnapshot)


async def _tree_in(found: str) -> Tree | Refused:
    stored = _STORED.decode(found)
    return stored.tree or _refusal_of(stored)


def _refused(tree: Tree | None, refusal: Refused) -> StoredSnapshot:
    return StoredSnapshot(tree, refusal=(str(refusal), refusal.code))


def _refusal_of(stored: StoredSnapshot) -> Refused:
    return Refused(*stored.refusal) if stored.refusal else Refused("This repository cannot be read.")


async def _read_pieces(cache: RepoCache, key: Key, digests: Iterable[str], reader: ArchiveReader) -> Folder | None:
    """None if a piece is missing or damaged."""
    for digest in digests:
        piece = await cache.find_piece(key, digest)
        if piece is None:
            return None
        for start in range(0, len(piece), FEED_STEP):
            reader.feed(piece[start : start + FEED_STEP])
            await asyncio.sleep(0)
    return reader.finish()


async def _keep_nothing(chunk: bytes) -> None:
    pass
