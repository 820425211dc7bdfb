"""Archives inside a skill, read in memory as unpackers read them. Nothing is unpacked to disk.

One budget is shared by all archives of a skill, nested ones included. What an unpacker might find and this reader did
not read (damaged, locked, sparse, beyond the budget, outside the entries) is a problem that names the member.
"""

import bz2
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from shared.scanner.file_names import same_place
from shared.scanner.zip_entries import ZipEntry, ZipReader, is_zip

MAX_MEMBERS = 1000  # of all archives of a skill together
MAX_NAME = 1000
XZ_MEMORY = 24 * 1024 * 1024  # what the default level needs, twice over
UNSUPPORTED = (b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd", b"\x1f\x9d", b"MSCF", b"xar!", b"LZIP", b"\x04\x22\x4d\x18")
_TAR_MAGIC = slice(257, 262)


class Budget:
    """How much may still be unpacked, in bytes and members."""

    def __init__(self, max_bytes: int, max_members: int = MAX_MEMBERS) -> None:
        self.bytes_left = max_bytes
        self.members_left = max_members
        self.document_bytes_left = max_bytes  # of the streams of documents, of which only the text is kept

    def take(self, size: int) -> None:
        self.bytes_left = max(0, self.bytes_left - size)
        self.members_left -= 1


class Member(NamedTuple):
    """A file in an archive, or a part of it; `problem` says why it was not read, or not completely."""

    name: str
    content: bytes = b""
    problem: str = ""
    rule: str = "FILE-ARCHIVE"


def is_archive(content: bytes) -> bool:
    return bool(_opener(content))


def read_archive(content: bytes, budget: Budget) -> Iterator[Member]:
    """Never raises, whatever the bytes are."""
    opener = _opener(content)
    places: set[str] = set()
    try:
        for member in opener(content, budget) if opener else ():
            if budget.members_left <= 0:
                yield Member(_shown(member.name), problem="not read: the archives have too many members")
                return
            budget.take(len(member.content))
            place = same_place(member.name)
            problem = member.problem or ("in the archive twice" if place in places else "")
            yield member._replace(name=_shown(member.name), problem=problem)
            places.add(place)
    except Exception as error:  # noqa: BLE001 - the parsers of the standard library raise almost anything
        yield Member("", problem=f"damaged: {type(error).__name__}")


def between_members(content: bytes) -> bytes:
    """All of an archive but the data of its members: headers, further fields, padding. A program that is given the
    archive itself reads these too."""
    try:
        spans = _spans_of_members(content)
    except Exception:  # noqa: BLE001 - see above
        return content
    pieces, at = [], 0
    for start, end in sorted(spans):
        pieces.append(content[at:start])
        at = max(at, end)
    return b"\xff".join([*pieces, content[at:]])


def _spans_of_members(content: bytes) -> list[tuple[int, int]]:
    opener = _opener(content)
    if opener is _zip:
        return [(entry.start, entry.end) for entry in ZipReader(content).entries(MAX_MEMBERS)]
    if opener is not _tar:
        return []
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        return [(one.offset_data, one.offset_data + one.size) for one in islice(archive, MAX_MEMBERS) if one.isreg()]


def _opener(content: bytes) -> Callable[[bytes, Budget], Iterator[Member]] | None:
    if content.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\0\0")) and not is_zip(content):
        return _compressed
    if content[_TAR_MAGIC] == b"ustar" or _is_old_tar(content):
        return _tar
    if is_zip(content):
        return _zip
    return _unsupported if content.startswith(UNSUPPORTED) else None


def _is_old_tar(content: bytes) -> bool:
    """A tar without its mark: only the sum of its first block tells."""
    digits = content[148:156].strip(b"\0 ")
    if len(content) < 512 or not content[0] or not digits.isdigit() or any(byte > ord("7") for byte in digits):
        return False
    return int(digits, 8) == sum(content[:148]) + 256 + sum(content[156:512])


def _unsupported(content: bytes, budget: Budget) -> Iterator[Member]:
    yield Member("", problem="unsupported archive format")


def _compressed(content: bytes, budget: Budget) -> Iterator[Member]:
    """One file, in one or several streams one after another. Each but the first counts as a member: what follows it is
    copied, so an archive of nothing but tiny ones would take the square of its size."""
    limit = budget.bytes_left
    unpacked = bytearray()
    rest, problem = content, ""
    while rest.strip(b"\0") and not problem and budget.members_left > 0:
        budget.members_left -= rest is not content
        try:
            rest, problem = _one_stream(rest, unpacked, limit)
        except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
            problem = "damaged, or followed by bytes that do not belong to it"
    yield Member("content", bytes(unpacked), problem)


def _one_stream(content: bytes, unpacked: bytearray, limit: int) -> tuple[bytes, str]:
    """What follows the stream, and what is wrong with it."""
    stream = _decompressor(content)
    inflate(stream, content, unpacked, limit)
    if len(unpacked) > limit:
        del unpacked[limit:]
        return b"", "not read to its end: it unpacks to more than is read"
    return stream.unused_data, "" if stream.eof else "damaged: it ends too early"


def _decompressor(content: bytes) -> Any:
    if content.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31)
    return bz2.BZ2Decompressor() if content.startswith(b"BZh") else lzma.LZMADecompressor(memlimit=XZ_MEMORY)


def inflate(stream: Any, content: bytes, unpacked: bytearray, limit: int) -> None:
    """At most one byte more than the limit, so that the caller sees that there is more."""
    data = content
    while not stream.eof and len(unpacked) <= limit:
        piece = stream.decompress(data, limit + 1 - len(unpacked))
        unpacked += piece
        data = getattr(stream, "unconsumed_tail", b"")
        if not piece and not data:
            return


def _zip(content: bytes, budget: Budget) -> Iterator[Member]:
    reader = ZipReader(content)
    for entry in reader.entries(MAX_MEMBERS):
        yield _zip_member(content, entry, budget.bytes_left)
    for name, part in reader.rest():
        yield Member(name, part[: budget.bytes_left], "not read to its end" if len(part) > budget.bytes_left else "")
    if reader.problem:
        yield Member("", problem=reader.problem)


def _zip_member(content: bytes, entry: ZipEntry, limit: int) -> Member:
    if entry.is_locked:
        return Member(entry.name, problem="needs a password", rule="FILE-LOCKED-ARCHIVE")
    if entry.problem:
        return Member(entry.name, problem=entry.problem)
    unpacked = bytearray()
    packed = content[entry.start : entry.end]
    if entry.method == 0:
        unpacked += packed[: limit + 1]
    else:
        try:
            stream = bz2.BZ2Decompressor() if entry.method == 12 else zlib.decompressobj(wbits=-15)
            inflate(stream, packed, unpacked, limit)
        except (zlib.error, OSError, ValueError):
            return Member(entry.name, bytes(unpacked), "damaged")
    if len(unpacked) > limit:
        return Member(entry.name, bytes(unpacked[:limit]), "not read to its end: it unpacks to more than is read")
    if entry.is_link:
        return Member(entry.name, problem=f"-> {unpacked[:100].decode('utf-8', 'replace')}", rule="FILE-SYMLINK")
    is_whole = len(unpacked) == entry.size and zlib.crc32(unpacked) == entry.crc
    return Member(entry.name, bytes(unpacked), "" if is_whole else "damaged: its size or sum is another one")


def _tar(content: bytes, budget: Budget) -> Iterator[Member]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            if not member.isdir():
                yield _tar_member(archive, content, member, budget.bytes_left)
        if content[archive.offset :].strip(b"\0"):
            yield Member("(after the end)", content[archive.offset :][: budget.bytes_left], "bytes after its end")


def _tar_member(archive: tarfile.TarFile, packed: bytes, member: tarfile.TarInfo, limit: int) -> Member:
    if member.issym() or member.islnk():
        return Member(member.name, problem=f"-> {member.linkname[:100]}", rule="FILE-SYMLINK")
    if member.issparse():
        return Member(member.name, problem="not read: sparse, it unpacks to more than it holds")
    if not member.isfile():
        return Member(member.name, problem="not a file")
    if member.size > limit:
        return Member(member.name, problem="not read: it unpacks to more than is read")
    try:
        file = archive.extractfile(member)
        content = file.read() if file else b""
        after = member.offset_data + member.size
        is_padded = not packed[after : -(-after // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE].strip(b"\0")
        return Member(member.name, content, "" if is_padded else "followed by bytes that belong to no file")
    except (tarfile.TarError, OSError, EOFError, ValueError):
        return Member(member.name, problem="damaged")


def _shown(name: str) -> str:
    name = name.encode("utf-8", "replace").decode()
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
