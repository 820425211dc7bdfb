"""Archives inside a skill, read in memory within fixed limits. Nothing is unpacked to disk."""

import io
import tarfile
import zipfile
import zlib

import msgspec

MAX_MEMBERS = 300


class ArchiveContents(msgspec.Struct, frozen=True):
    """The files of an archive, or the rule it violates when they cannot be read."""

    members: dict[str, bytes]
    rule_id: str = ""
    detail: str = ""


def open_archive(content: bytes, max_bytes: int) -> ArchiveContents:
    """Read all members, at most `max_bytes` in total."""
    if content.startswith(b"PK\x03\x04"):
        return _open_zip(content, max_bytes)
    if content.startswith(b"\x1f\x8b"):
        return _open_gzip(content, max_bytes)
    if content[257:262] == b"ustar":
        return _open_tar(content, max_bytes)
    return ArchiveContents({}, "FILE-ARCHIVE", "unsupported archive format")


def _open_zip(content: bytes, max_bytes: int) -> ArchiveContents:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if any(entry.flag_bits & 1 for entry in entries):
            return ArchiveContents({}, "FILE-LOCKED-ARCHIVE", "password-protected entries")
        # The sizes in the directory may be forged, but no more than that is read.
        if len(entries) > MAX_MEMBERS or sum(entry.file_size for entry in entries) > max_bytes:
            return ArchiveContents({}, "FILE-ARCHIVE", "too large to read")
        return ArchiveContents({entry.filename: archive.open(entry).read(entry.file_size) for entry in entries})
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, OSError, RuntimeError, EOFError) as error:
        return ArchiveContents({}, "FILE-ARCHIVE", f"archive cannot be opened: {type(error).__name__}")


def _open_gzip(content: bytes, max_bytes: int) -> ArchiveContents:
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(content, max_bytes + 1)
    except zlib.error:
        return ArchiveContents({}, "FILE-ARCHIVE", "archive cannot be opened")
    if len(unpacked) > max_bytes:
        return ArchiveContents({}, "FILE-ARCHIVE", "too large to read")
    return _open_tar(unpacked, max_bytes) if unpacked[257:262] == b"ustar" else ArchiveContents({"content": unpacked})


def _open_tar(content: bytes, max_bytes: int) -> ArchiveContents:
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                if not (member.isfile() or member.isdir()):
                    return ArchiveContents({}, "FILE-ARCHIVE", f"{member.name[:80]} is a link or a device")
                if len(members) >= MAX_MEMBERS:
                    return ArchiveContents({}, "FILE-ARCHIVE", "too many entries to read")
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None:
                    members[member.name] = file.read(max_bytes)
    except (tarfile.TarError, ValueError, OSError, EOFError):
        return ArchiveContents({}, "FILE-ARCHIVE", "archive cannot be opened")
    return ArchiveContents(members)
