"""Archives as `git archive` writes them, and archives that it never would."""

import gzip
import hashlib
from typing import NamedTuple

FILE, HARDLINK, SYMLINK, DEVICE, FOLDER, PIPE = "0", "1", "2", "3", "5", "6"


class Member(NamedTuple):
    name: str | bytes
    data: bytes = b""
    kind: str = FILE
    link: str = ""


def git_archive(root: str, commit: str, files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    members = [Member(f"{root}/", kind=FOLDER)]
    members += [Member(f"{root}/{path}", data) for path, data in sorted(files.items())]
    members += [Member(f"{root}/{path}", kind=SYMLINK, link=target) for path, target in (links or {}).items()]
    return packed(tar(members, commit))


def tar(members: list[Member], commit: str | None = None) -> bytes:
    comment = pax("g", comment=commit) if commit else b""
    return ended(comment + b"".join(map(entry, members)))


def packed(raw: bytes, level: int = 1) -> bytes:
    return gzip.compress(raw, compresslevel=level, mtime=0)


def ended(raw: bytes) -> bytes:
    raw += bytes(1024)
    return raw + bytes(-len(raw) % 10240)


def entry(member: Member) -> bytes:
    name = member.name if isinstance(member.name, bytes) else member.name.encode()
    if len(name) <= 100:
        return header(name, member) + padded(member.data)
    folder, slash, rest = _split(name)
    if slash:
        return header(rest, member, prefix=folder) + padded(member.data)
    blob = hashlib.sha1(member.data).hexdigest()
    return pax("x", path=name.decode()) + header(f"{blob}.data".encode(), member) + padded(member.data)


def header(name: bytes, member: Member, prefix: bytes = b"", size: int | None = None) -> bytes:
    block = bytearray(512)
    size = len(member.data) if size is None else size
    fields = {
        0: name,
        100: b"0000664\0",
        108: b"0000000\0",
        116: b"0000000\0",
        124: b"%011o\0" % size,
        136: b"%011o\0" % 1_700_000_000,
        148: b"        ",
        156: member.kind.encode(),
        157: member.link.encode(),
        257: b"ustar\x0000",
        345: prefix,
    }
    for offset, value in fields.items():
        block[offset : offset + len(value)] = value
    block[148:156] = b"%07o\0" % sum(block)
    return bytes(block)


def pax(kind: str, **records: str) -> bytes:
    data = b"".join(_record(key, value) for key, value in records.items())
    return header(b"pax_global_header", Member(b"", data, kind)) + padded(data)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def _record(key: str, value: str) -> bytes:
    text = f" {key}={value}\n".encode()
    length = len(text)
    while len(f"{length}") + len(text) != length:
        length = len(f"{length}") + len(text)
    return f"{length}".encode() + text


def _split(name: bytes) -> tuple[bytes, bytes, bytes]:
    at = name.rfind(b"/", 0, 156)
    if at <= 0 or len(name) - at - 1 > 100:
        return name, b"", b""
    return name[:at], b"/", name[at + 1 :]
