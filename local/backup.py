"""All data of a platform in one file, and back. SQLite copies its database while it is used."""

import contextlib
import os
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from local.config import StartError
from local.store.database import VERSION

DATABASE = "platform.db"
SECRETS = ("secrets.json", "session-secret.json", "owner-session-secret.json", "receipt-secret.json", "admin-token")


def write_backup(directory: Path, file: Path) -> int:
    """One moment of the data. Returns the size in bytes."""
    if not (directory / DATABASE).is_file():
        raise StartError(f"{directory} has no data; name the folder of the platform with LOCAL_DIR.")
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        copy = Path(folder) / DATABASE
        _copy_database(directory / DATABASE, copy)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive:
            for path in (copy, *(directory / name for name in SECRETS)):
                if path.exists():
                    archive.add(path, path.name)
            raw.flush()
            os.fsync(raw.fileno())
    partial.replace(file)
    return file.stat().st_size


def restore_backup(directory: Path, file: Path) -> None:
    """Replaces everything, in one transaction for the database: a running platform sees the one or the other."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        _unpack(file, Path(folder))
        copy = Path(folder) / DATABASE
        _check(copy, file)
        _copy_database(copy, directory / DATABASE)
        for name in SECRETS:
            if (Path(folder) / name).exists():
                (Path(folder) / name).chmod(0o600)
                (Path(folder) / name).replace(directory / name)


def _copy_database(source: Path, target: Path) -> None:
    try:
        with (
            contextlib.closing(sqlite3.connect(source, timeout=60)) as reader,
            contextlib.closing(sqlite3.connect(target, timeout=60)) as writer,
        ):
            reader.backup(writer)
    except sqlite3.Error as error:
        raise StartError(f"{source} could not be copied to {target}: {error}.") from error


def _unpack(file: Path, folder: Path) -> None:
    """Regular files of the names that a backup has, and nothing else."""
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                body = archive.extractfile(member) if member.isreg() and member.name in (DATABASE, *SECRETS) else None
                if body is not None:
                    with (folder / member.name).open("wb") as out:
                        while chunk := body.read(1 << 20):
                            out.write(chunk)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise StartError(f"{file} is not a backup that can be read: {error}.") from error


def _check(copy: Path, file: Path) -> None:
    if not copy.exists():
        raise StartError(f"{file} has no {DATABASE} in it.")
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        try:
            [(found,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
            [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        except sqlite3.DatabaseError as error:
            found, version = str(error), 0
    if version > VERSION:
        raise StartError(f"The data in {file} has the format {version} of a newer release; this one knows {VERSION}.")
    if found != "ok":
        raise StartError(f"The database in {file} is damaged: {found}.")
