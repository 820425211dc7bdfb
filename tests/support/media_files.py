"""Small files of many formats, made by hand, and archives."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    made = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), *chunks]
    made += [(b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in made
    )


def font() -> bytes:
    tables = {b"cmap": b"\0" * 20, b"head": b"\1" * 54}
    at, head, body = 12 + 16 * len(tables), b"\0\1\0\0" + struct.pack(">HHHH", len(tables), 32, 1, 0), b""
    for name, data in tables.items():
        head += name + struct.pack(">III", 0, at + len(body), len(data))
        body += data
    return head + body


def wav() -> bytes:
    body = (
        b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", 4) + b"\1\2\3\4"
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


MEDIA = {
    "a.png": png(),
    "a.jpg": b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xda\0\2\1\2\xff\0\3\xff\xd9",
    "a.gif": b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
    "a.bmp": b"BM" + struct.pack("<IHHI", 30, 0, 0, 26) + b"\1" * 16,
    "a.ico": struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 1, 1, 0, 0, 1, 8, 4, 22) + b"\1\2\3\4",
    "a.wav": wav(),
    "a.ttf": font(),
    "a.woff2": b"wOF2\0\1\0\0" + struct.pack(">I", 20) + b"\1" * 8,
    "a.ogg": b"OggS\0\2" + b"\0" * 20 + b"\1\3abc",
    "a.mp4": struct.pack(">I", 12) + b"ftypmp42" + struct.pack(">I", 12) + b"mdat\1\2\3\4",
    "a.sqlite": (b"SQLite format 3\0" + struct.pack(">H", 512) + b"\0" * 10 + struct.pack(">I", 1)).ljust(512, b"\0"),
}


def zipped(members: Mapping[str, bytes] | list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            archive.writestr(name, content)
    return packed.getvalue()


def tarred(members: Mapping[str, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def sparse_tar(size: int) -> bytes:
    """A few blocks that say they hold `size` bytes, almost all of them zeros."""
    member = tarfile.TarInfo("disk.img")
    member.size = 512
    member.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.name": "disk.img",
        "GNU.sparse.size": str(size),
        "GNU.sparse.map": f"0,512,{size},0",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(b"x" * 512))
    return packed.getvalue()
