"""Archives inside a skill, read in memory. Nothing is ever unpacked to disk, and no bound can be exceeded."""

import io
import tarfile
import zipfile
import zlib

import msgspec

MAX_MEMBERS = 300


class Opened(msgspec.Struct, frozen=True):
    """What an archive holds, or the rule that it breaks by not showing it."""

    members: dict[str, bytes]
    breaks: str = ""
    detail: str = ""


def open_archive(content: bytes, room: int) -> Opened:
    """Read the members, as long as they fit into `room` bytes together."""
    if content.startswith(b"PK\x03\x04"):
        return _open_zip(content, room)
    if content.startswith(b"\x1f\x8b"):
        return _open_gzip(content, room)
    if content[257:262] == b"ustar":
        return _open_tar(content, room)
    return Opened({}, "FILE-ARCHIVE", "a kind of archive that is not read")


def _open_zip(content: bytes, room: int) -> Opened:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if any(entry.flag_bits & 1 for entry in entries):
            return Opened({}, "FILE-LOCKED-ARCHIVE", "entries need a password")
        # Sizes in the directory may lie, but no more than they say is read.
        if len(entries) > MAX_MEMBERS or sum(entry.file_size for entry in entries) > room:
            return Opened({}, "FILE-ARCHIVE", "too large to read")
        return Opened({entry.filename: archive.open(entry).read(entry.file_size) for entry in entries})
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, OSError, RuntimeError, EOFError) as error:
        return Opened({}, "FILE-ARCHIVE", f"an archive that does not open: {type(error).__name__}")


def _open_gzip(content: bytes, room: int) -> Opened:
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(content, room + 1)
    except zlib.error:
        return Opened({}, "FILE-ARCHIVE", "an archive that does not open")
    if len(unpacked) > room:
        return Opened({}, "FILE-ARCHIVE", "too large to read")
    return _open_tar(unpacked, room) if unpacked[257:262] == b"ustar" else Opened({"content": unpacked})


def _open_tar(content: bytes, room: int) -> Opened:
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                if not (member.isfile() or member.isdir()):
                    return Opened({}, "FILE-ARCHIVE", f"{member.name[:80]} is a link or a device")
                if len(members) >= MAX_MEMBERS:
                    return Opened({}, "FILE-ARCHIVE", "too many entries to read")
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None:
                    members[member.name] = file.read(room)
    except (tarfile.TarError, ValueError, OSError, EOFError):
        return Opened({}, "FILE-ARCHIVE", "an archive that does not open")
    return Opened(members)
