"""A zip file in the upload form stands for the folder in it: without JavaScript a browser sends no folders."""

import io
import zipfile
import zlib

from shared.errors import InvalidRequest, TooLarge
from shared.submissions.skill_source import MAX_BUNDLE, MAX_FILES

LEFT_OUT = {".git", ".DS_Store", "__MACOSX"}  # as by the script of the form
READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

UploadedFiles = list[tuple[str, bytes]]


def unzipped(files: UploadedFiles) -> UploadedFiles:
    """The files in it if a zip file is all that was sent. What it holds is limited before it is read, and only what was
    read here is stored, so it does not matter how others would read the archive."""
    if len(files) != 1 or not files[0][0].lower().endswith(".zip"):
        return files
    try:
        with zipfile.ZipFile(io.BytesIO(files[0][1])) as archive:
            return _read(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise _unreadable() from error


def _read(archive: zipfile.ZipFile) -> UploadedFiles:
    entries = [entry for entry in archive.infolist() if not entry.is_dir() and _is_wanted(entry.filename)]
    if len(entries) > MAX_FILES:
        raise InvalidRequest(f"A skill has 1 to {MAX_FILES} files.", code="invalid_bundle")
    read: UploadedFiles = []
    left = MAX_BUNDLE
    for entry in entries:
        if entry.compress_type not in READ:
            raise _unreadable()
        with archive.open(entry) as opened:
            content = opened.read(left + 1)
        left -= len(content)
        if left < 0:
            raise TooLarge("A skill holds at most 4 MB. Leave out what it does not need.")
        read.append((entry.filename, content))
    return read


def _is_wanted(path: str) -> bool:
    return not LEFT_OUT & {*path.split("/")}


def _unreadable() -> InvalidRequest:
    return InvalidRequest(
        "This zip file cannot be read. Send an ordinary one, without a password.", code="invalid_bundle"
    )
