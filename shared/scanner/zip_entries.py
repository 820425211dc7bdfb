"""The entries of a zip file: by its directory, as most programs read it, compared with the headers before the data, as
programs that read while they download do. If both disagree, or something lies outside, it is unclear what is read."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

END = b"PK\5\6"
_ENTRY, _LOCAL = b"PK\1\2", b"PK\3\4"
_LONGEST_COMMENT = 65_535
_METHODS = (0, 8, 12)
_LOCKED = 0x1 | 0x40 | 0x2000
_SIZES_FOLLOW = 0x8
_UNICODE_PATH = 0x7075  # a second name in an extra field, which some unpackers prefer
_FILE_TYPE, _LINK = 0o170000, 0o120000


class ZipEntry(NamedTuple):
    name: str
    method: int
    crc: int
    size: int
    start: int  # of its packed bytes
    end: int
    is_locked: bool
    problem: str
    is_link: bool = False


def is_zip(content: bytes) -> bool:
    """Also with something before it: a program, a picture."""
    return content.startswith((_LOCAL, END)) or _end_record(content) >= 0


class ZipReader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._used: list[tuple[int, int]] = []  # what the entries and the directory account for
        self._comments: list[bytes] = []
        self.problem = ""

    def entries(self, most: int) -> Iterator[ZipEntry]:
        at = _end_record(self._content)
        if at < 0:
            self.problem = "damaged: it has no directory"
            return
        count, size, offset, comment = struct.unpack_from("<HIIH", self._content, at + 10)
        self._comments.append(self._content[at + 22 : at + 22 + comment])
        self._used.append((at, at + 22 + comment))
        shift = at - size - offset  # what was put before the archive
        if shift < 0 or 0xFFFFFFFF in (size, offset):
            self.problem = "damaged: its directory is not where it should be"
            return
        self._used.append((at - size, at))
        yield from self._directory(at - size, at, shift, most)
        if len(self._used) - 2 != count:
            self.problem = self.problem or "damaged: its directory has another number of entries"

    def rest(self) -> Iterator[tuple[str, bytes]]:
        """Comments, and what no entry accounts for: a program before the archive, members the directory leaves out."""
        if comment := b"\n".join(filter(None, self._comments)):
            yield "(comment)", comment
        at = 0
        for start, end in sorted(self._used):
            if self._content[at:start].strip(b"\0"):
                yield ("(before the entries)" if at == 0 else "(between the entries)"), self._content[at:start]
            at = max(at, end)
        if self._used and self._content[at:].strip(b"\0"):
            yield "(after the end)", self._content[at:]

    def _directory(self, at: int, end: int, shift: int, most: int) -> Iterator[ZipEntry]:
        count = 0
        while at + 46 <= end and self._content[at : at + 4] == _ENTRY:
            if count >= most:
                self.problem = "not read to its end: too many entries"
                return
            fields = struct.unpack_from("<HHHHHIIIHHHHHII", self._content, at + 6)
            name_size, extra, comment = fields[8:11]
            raw = self._content[at + 46 : at + 46 + name_size]
            name = raw.decode("utf-8" if fields[1] & 0x800 else "cp437", "replace")
            fields_of_extra = self._content[at + 46 + name_size : at + 46 + name_size + extra]
            at += 46 + name_size + extra
            self._comments.append(self._content[at : at + comment])
            at += comment
            entry = self._entry(raw, name, fields, shift + fields[14])
            if not entry.problem and (other := _other_name(fields_of_extra, name)):
                entry = entry._replace(problem=f"has a second name: {other[:100]}")
            if not name.endswith("/") or entry.size:
                yield entry
            count += 1
        if at != end:
            self.problem = "damaged: its directory cannot be read"

    def _entry(self, raw: bytes, name: str, fields: tuple[int, ...], at: int) -> ZipEntry:
        _, flags, method, _, _, crc, packed, size, *_ = fields
        local = self._local(at, raw)
        start = at + local
        problem = "" if local else "damaged: its two headers differ"
        if method not in _METHODS:
            problem = problem or f"packed by an unknown method ({method})"
        if start + packed > len(self._content):
            problem = problem or "damaged: it ends too early"
        if local and not (problem or self._is_consistent(at, flags, method, crc, packed, size)):
            problem = "damaged: its two headers differ"
        self._used.append((at, min(start + packed + self._descriptor(start + packed, flags), len(self._content))))
        is_link = fields[13] >> 16 & _FILE_TYPE == _LINK
        return ZipEntry(name, method, crc, size, start, start + packed, bool(flags & _LOCKED), problem, is_link)

    def _local(self, at: int, raw: bytes) -> int:
        """The length of the header before the data; 0 if there is none for this name."""
        if at < 0 or self._content[at : at + 4] != _LOCAL or at + 30 > len(self._content):
            return 0
        name_size, extra = struct.unpack_from("<HH", self._content, at + 26)
        return 30 + name_size + extra if self._content[at + 30 : at + 30 + name_size] == raw else 0

    def _is_consistent(self, at: int, flags: int, method: int, crc: int, packed: int, size: int) -> bool:
        local_flags, local_method = struct.unpack_from("<HH", self._content, at + 6)
        sizes = struct.unpack_from("<III", self._content, at + 14)
        if local_method != method or (local_flags ^ flags) & (_LOCKED | _SIZES_FOLLOW):
            return False
        return bool(flags & _SIZES_FOLLOW) or sizes in ((crc, packed, size), (crc, 0xFFFFFFFF, 0xFFFFFFFF))

    def _descriptor(self, at: int, flags: int) -> int:
        """Sizes after the data, with or without a mark."""
        if not flags & _SIZES_FOLLOW:
            return 0
        marked = self._content[at : at + 4] == b"PK\7\10"
        return next((n for n in ((16, 24) if marked else (12, 20)) if self._starts_something(at + n)), 0)

    def _starts_something(self, at: int) -> bool:
        return self._content[at : at + 4] in (_LOCAL, _ENTRY, END, b"PK\6\6")


def _other_name(extra: bytes, name: str) -> str:
    """What an extra field of the directory calls the entry, where that is not its name."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == _UNICODE_PATH and (other := extra[at + 9 : at + 4 + size].decode("utf-8", "replace")) != name:
            return other
        at += 4 + size
    return ""


def _end_record(content: bytes) -> int:
    """The last end record whose comment reaches exactly to the end, as unpackers look for it; else the last one."""
    last = at = content.rfind(END, max(0, len(content) - 22 - _LONGEST_COMMENT))
    while at >= 0:
        if at + 22 <= len(content) and at + 22 + int.from_bytes(content[at + 20 : at + 22], "little") == len(content):
            return at
        at = content.rfind(END, max(0, len(content) - 22 - _LONGEST_COMMENT), at)
    return last if last + 22 <= len(content) else -1
