"""A repository's archive, parsed while it is downloaded: nothing on disk, no more in memory than one skill may have.

Only what `git archive` writes is accepted. An archive that another program might read differently (a name used twice
or in two places, bytes after the end, inconsistent fields) is refused as a whole, because a scan of one reading says
nothing about the other.
"""

import re
import zlib
from collections.abc import Collection, Generator, Iterator
from enum import StrEnum
from typing import NamedTuple

from shared.errors import PlatformError, Refused
from shared.scanner.file_names import clashes, leaves_its_folder, same_place

MB = 1024 * 1024
MAX_ARCHIVE = 50 * MB
MAX_UNPACKED = 512 * MB
MAX_RATIO = 100  # source code compresses 5 to 20 times
RATIO_FREE = 10 * MB  # below this size the ratio is not checked
MAX_MEMBERS = 100_000
MAX_DEPTH = 64
MAX_NAMES = 16 * MB  # all names together: they are kept to see which comes twice
MAX_SKILL_FILES = 500
MAX_SKILL_BYTES = 10 * MB
MAX_FILE = MB
MAX_ANOMALIES = 200

_BLOCK = 512
_PIECE = 64 * 1024
_LONGEST_PAX = 16 * 1024
_NUMBER = re.compile(rb"([0-7]{11})[\0 ]")
_GIT_LONG_NAME = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\.data")


class AnomalyKind(StrEnum):
    """What a skill's folder should not contain. All but the last two are excluded from its files."""

    SYMLINK = "symlink"
    HARDLINK = "hardlink"
    DEVICE = "device"
    UNSAFE_PATH = "unsafe path"
    TOO_LARGE = "file too large"
    TOO_MANY = "too many files"
    OVER_SIZE = "skill too large"
    SUBMODULE = "submodule"
    LEFT_OUT = "left out of the archive"
    CHANGED = "changed in the archive"
    UNVERIFIED = "not compared with the commit"
    MORE = "more of these"
    CLASH = "names differ in case only"
    BINARY = "binary"


class Anomaly(NamedTuple):
    kind: AnomalyKind
    path: str
    why: str

    @property
    def hides_content(self) -> bool:
        """Whether a scan of the files misses something, so that it can never be complete."""
        return self.kind not in (AnomalyKind.CLASH, AnomalyKind.BINARY)


class Folder(NamedTuple):
    files: dict[str, bytes]
    anomalies: tuple[Anomaly, ...]
    unscanned: str = ""  # a fingerprint of what is in the folder but not among its files; empty if nothing is


class BrokenOff(PlatformError):
    """The archive is truncated: worth another download."""


class ArchiveReader:
    """Feed it the bytes of a .tar.gz as they arrive; `finish` returns the files of one folder ("." for all). Raises
    Refused for the archive as a whole only, so that a refusal holds for every folder of it."""

    def __init__(self, folder: str, commit: str) -> None:
        self._prefix = "" if folder == "." else f"{folder}/"
        self._commit = commit
        self._gzip = zlib.decompressobj(wbits=31)
        self._packed = self._unpacked = 0
        self._buffer = bytearray()
        self._parser = self._parse()
        self._wanted = next(self._parser)
        self._names: set[str] = set()
        self._name_bytes = 0
        self._root: str | None = None
        self._contents = _Contents()
        self._ended = False

    def feed(self, packed: bytes) -> None:
        self._packed += len(packed)
        if self._packed > MAX_ARCHIVE:
            raise Refused("The repository's archive is larger than 50 MB, the most we check.", "archive_too_large")
        for piece in self._inflate(packed):
            self._buffer += piece
            while len(self._buffer) >= self._wanted:
                taken = bytes(self._buffer[: self._wanted])
                del self._buffer[: self._wanted]
                self._wanted = self._parser.send(taken)

    def finish(self) -> Folder:
        if not self._gzip.eof or not self._ended:
            raise BrokenOff("The archive ends too early.")
        if any(self._buffer):
            raise _two_readings("there are bytes after its end")
        return self._contents.folder()

    def _inflate(self, packed: bytes) -> Iterator[bytes]:
        """In small pieces: a bomb is detected long before it is unpacked."""
        while packed:
            if self._gzip.eof:
                raise _two_readings("there are bytes after its end")
            try:
                piece = self._gzip.decompress(packed, MB)
            except zlib.error as error:
                raise Refused("GitHub's archive of this repository is damaged.", "bad_archive") from error
            self._unpacked += len(piece)
            self._check_ratio()
            yield piece
            packed = self._gzip.unconsumed_tail or self._gzip.unused_data

    def _check_ratio(self) -> None:
        if self._unpacked > max(RATIO_FREE, self._packed * MAX_RATIO) or self._unpacked > MAX_UNPACKED:
            raise Refused("The repository's archive unpacks to far more than we check.", "archive_too_large")

    def _parse(self) -> Generator[int, bytes, None]:
        """Yields the number of bytes it needs next, and is sent exactly those."""
        long_name: str | None = None
        while True:
            block = yield _BLOCK
            if not any(block):
                break
            header = _Header.read(block)
            if header.kind in "xg":
                records = _pax_records((yield from _padded(header.size, _LONGEST_PAX)))
                if long_name is not None or (header.kind == "g" and self._root is not None):
                    raise _two_readings("its extended headers are out of place")
                long_name = self._extended(header.kind, records)
                continue
            yield from self._member(header, _one_name(header.name, long_name))
            long_name = None
        yield from self._end(long_name)

    def _end(self, long_name: str | None) -> Generator[int, bytes, None]:
        if any((yield _BLOCK)) or long_name is not None:
            raise _two_readings("it ends twice")
        self._ended = True
        while True:  # git fills the last 10 KB with zeros
            if any((yield _BLOCK)):
                raise _two_readings("there are bytes after its end")

    def _extended(self, kind: str, records: dict[str, str]) -> str | None:
        if kind == "g":
            if set(records) - {"comment"} or records.get("comment", self._commit) != self._commit:
                raise _two_readings("it is not the archive of the requested commit")
            return None
        if set(records) - {"path", "linkpath"}:
            raise _two_readings("its extended headers change more than names")
        return records.get("path", "")

    def _member(self, header: "_Header", name: str) -> Generator[int, bytes, None]:
        path = self._below_root(name.removesuffix("/"))
        inside = _is_in(self._prefix, path)
        if header.kind != "0":
            if header.kind not in _OTHER_KINDS or header.size:
                raise _two_readings("it has members of an unknown kind")
            if inside and (odd := _OTHER_KINDS[header.kind]):
                self._contents.refuse(odd, path.removeprefix(self._prefix))
            return
        if name.endswith("/"):
            raise _two_readings("a file is named like a folder")
        if inside and self._contents.takes(path.removeprefix(self._prefix), header.size, path.startswith(self._prefix)):
            self._contents.add(path.removeprefix(self._prefix), (yield from _padded(header.size, MAX_FILE)))
        else:
            yield from _skipped(header.size)

    def _below_root(self, name: str) -> str:
        """The path below the archive's single top folder; a name that leads out of it is returned unchanged."""
        if name in self._names:
            raise _two_readings(f"{_shown(name)[:100]!r} is in it twice")
        self._names.add(name)
        self._name_bytes += len(name)
        if len(self._names) > MAX_MEMBERS or self._name_bytes > MAX_NAMES:
            raise Refused(f"The repository has more than {MAX_MEMBERS} files, the most we check.", "archive_too_large")
        parts = name.split("/")
        if len(parts) > MAX_DEPTH:
            raise Refused(f"The repository nests folders deeper than {MAX_DEPTH}, the most we check.", "bad_archive")
        if _leads_out(name):
            return name
        self._root = self._root or parts[0]
        if parts[0] != self._root:
            raise _two_readings("it has more than one top folder")
        if "." in parts or "" in parts:
            raise _two_readings("a path is not in its canonical form")
        return "/".join(parts[1:])


class SkillMdReader(ArchiveReader):
    """Of an archive, only these files, as far as they are no larger than a skill may be."""

    def __init__(self, paths: Collection[str], commit: str) -> None:
        super().__init__(".", commit)
        self._paths = frozenset(paths)

    def _member(self, header: "_Header", name: str) -> Generator[int, bytes, None]:
        path = self._below_root(name.removesuffix("/"))
        if header.kind == "0" and path in self._paths and self._contents.takes(path, header.size, True):
            self._contents.add(path, (yield from _padded(header.size, MAX_FILE)))
        else:
            yield from _skipped(header.size)


class _Contents:
    """The files of the skill, under its caps."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.anomalies: list[Anomaly] = []
        self._seen = self._bytes = 0

    def takes(self, path: str, size: int, is_exactly_inside: bool) -> bool:
        self._seen += 1
        if not is_exactly_inside or not _is_safe(path):
            return self.refuse(AnomalyKind.UNSAFE_PATH, path)
        if size > MAX_FILE:
            return self.refuse(AnomalyKind.TOO_LARGE, path)
        if path == "SKILL.md":  # caps must never exclude it
            return True
        if len(self.files) >= MAX_SKILL_FILES - ("SKILL.md" not in self.files):
            return False
        self._bytes += size
        return self._bytes <= MAX_SKILL_BYTES

    def add(self, path: str, data: bytes) -> None:
        self.files[path] = data
        if b"\0" in data[:8000]:
            self.refuse(AnomalyKind.BINARY, path)

    def refuse(self, kind: AnomalyKind, path: str) -> bool:
        if len(self.anomalies) < MAX_ANOMALIES:
            self.anomalies.append(Anomaly(kind, _shown(path), _WHY[kind]))
        elif len(self.anomalies) == MAX_ANOMALIES:
            self.anomalies.append(
                Anomaly(AnomalyKind.MORE, _shown(path), f"Only the first {MAX_ANOMALIES} are listed.")
            )
        return False

    def folder(self) -> Folder:
        if self._seen > MAX_SKILL_FILES:
            self.refuse(AnomalyKind.TOO_MANY, f"{self._seen} files")
        if self._bytes > MAX_SKILL_BYTES:
            self.refuse(AnomalyKind.OVER_SIZE, f"{self._bytes // MB} MB")
        for path in clashes(self.files):
            self.refuse(AnomalyKind.CLASH, path)
        return Folder(self.files, tuple(self.anomalies))


class _Header(NamedTuple):
    name: str
    kind: str
    size: int

    @classmethod
    def read(cls, block: bytes) -> "_Header":
        size = _NUMBER.fullmatch(block[124:136])
        if block[257:265] != b"ustar\x0000" or size is None or not _checksum_holds(block):
            raise _two_readings("a header is inconsistent")
        name, prefix = _field(block[:100]), _field(block[345:500])
        kind = chr(block[156])
        return cls(f"{prefix}/{name}" if prefix else name, "0" if kind == "\0" else kind, int(size[1], 8))


_OTHER_KINDS = {
    "1": AnomalyKind.HARDLINK,
    "2": AnomalyKind.SYMLINK,
    "3": AnomalyKind.DEVICE,
    "4": AnomalyKind.DEVICE,
    "5": None,  # a folder
    "6": AnomalyKind.DEVICE,
}
_WHY = {
    AnomalyKind.SYMLINK: "A link can point at anything on the reader's machine. Put the file itself here.",
    AnomalyKind.HARDLINK: "A link is not a file. Put the file itself here.",
    AnomalyKind.DEVICE: "This is not a file.",
    AnomalyKind.UNSAFE_PATH: "This name leads out of the folder, or means something else on another system. Rename it.",
    AnomalyKind.TOO_LARGE: "Files up to 1 MB are checked.",
    AnomalyKind.TOO_MANY: f"At most {MAX_SKILL_FILES} files are checked. Leave out what the skill does not need.",
    AnomalyKind.OVER_SIZE: "At most 10 MB are checked. Leave out what the skill does not need.",
    AnomalyKind.CLASH: "Another file has this name in different case; on many systems only one of them remains.",
    AnomalyKind.BINARY: "This is not text, so it cannot be scanned like the rest.",
}


def _padded(size: int, most: int) -> Generator[int, bytes, bytes]:
    if size > most:
        raise _two_readings("a header is too long")
    if not size:
        return b""
    data = yield size + -size % _BLOCK
    return data[:size]


def _skipped(size: int) -> Generator[int, bytes, None]:
    left = size + -size % _BLOCK
    while left:
        step = min(left, _PIECE)
        yield step
        left -= step


def _pax_records(data: bytes) -> dict[str, str]:
    records: dict[str, str] = {}
    while data:
        digits, space, _ = data.partition(b" ")
        if not space or not re.fullmatch(rb"[1-9][0-9]{0,5}", digits):
            raise _two_readings("an extended header is malformed")
        record, data = data[: int(digits)], data[int(digits) :]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        name = key.decode("ascii", "replace")
        if record[-1:] != b"\n" or len(record) != int(digits) or not equals or b"\0" in value or name in records:
            raise _two_readings("an extended header is malformed")
        records[name] = value.decode("utf-8", "surrogateescape")
    return records


def _one_name(in_header: str, extended: str | None) -> str:
    """git puts a name into an extended header only if it is too long, and then uses a placeholder in the header."""
    if not extended:
        return in_header
    if not _GIT_LONG_NAME.fullmatch(in_header):
        raise _two_readings("a member has two names")
    return extended


def _field(raw: bytes) -> str:
    text, _, rest = raw.partition(b"\0")
    if any(rest):
        raise _two_readings("a name has a NUL in it")
    return text.decode("utf-8", "surrogateescape")


def _checksum_holds(block: bytes) -> bool:
    digits = block[148:156].rstrip(b"\0 ")
    if not re.fullmatch(rb"[0-7]{1,7}", digits):
        return False
    return int(digits, 8) == sum(block) - sum(block[148:156]) + 8 * ord(" ")


def _is_in(prefix: str, path: str) -> bool:
    """Also what is in the folder only on systems that ignore case or take a backslash for a separator, and what leads
    out of the archive: git cannot produce that, so it is a finding wherever it points."""
    return _leads_out(path) or same_place(path).startswith(same_place(prefix))


def _leads_out(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")


def _is_safe(path: str) -> bool:
    return not leaves_its_folder(path)


def _shown(path: str) -> str:
    return path[:300].encode("utf-8", "backslashreplace").decode()


def _two_readings(detail: str) -> Refused:
    return Refused(f"GitHub's archive of this repository cannot be trusted: {detail}.", "bad_archive")
