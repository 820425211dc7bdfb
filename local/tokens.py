"""Secrets of the local platform, in LOCAL_DIR/secrets.json as the functions read them; admin tokens only as hashes. The
key of admin sessions is in a separate file, which only the admin pages get, and so are the key of owners'
sessions, for their pages, and that of receipts, for the functions that publish."""

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local.config import StartError

ROLES = ("admin", "reviewer")
OWN_NAME = "local"
KEYS_OF_THEIR_OWN = {
    "session-secret.json": "sessionKey",
    "owner-session-secret.json": "sessionKey",
    "receipt-secret.json": "receiptKey",
}


def prepare_secrets(directory: Path, wanted: str | None, scanners: Iterable[str] = ()) -> str:
    """Create missing secrets, including one per scanner. Returns the local admin token, kept for later starts."""
    file = directory / "admin-token"
    token = wanted or _kept_token(file) or secrets.token_urlsafe(24)
    write_private(file, token + "\n")
    with _secrets_to_change(directory) as values:
        for file_name, key in KEYS_OF_THEIR_OWN.items():
            if not (directory / file_name).exists():
                write_private(directory / file_name, json.dumps({key: secrets.token_hex(32)}) + "\n")
        others = [entry for entry in values["adminTokens"] if entry["name"] != OWN_NAME]
        values["adminTokens"] = [_entry(OWN_NAME, "admin", token), *others]
        for scanner in scanners:
            values["webhookSecrets"].setdefault(scanner, secrets.token_hex(32))
    return token


def add_admin_token(directory: Path, name: str, role: str) -> str:
    if not name or name == OWN_NAME or not name.isprintable():
        raise StartError(f"A token needs a NAME other than '{OWN_NAME}': make admin-token NAME=anna ROLE=reviewer")
    if role not in ROLES:
        raise StartError(f"ROLE must be {' or '.join(ROLES)}: make admin-token NAME={name} ROLE=reviewer")
    token = secrets.token_urlsafe(24)
    with _secrets_to_change(directory) as values:
        values["adminTokens"].append(_entry(name, role, token))
    return token


def write_private(path: Path, text: str) -> None:
    """Write atomically, readable by the owner only."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    except OSError:  # the disk is full
        partial.unlink()
        raise
    partial.replace(path)


@contextmanager
def _secrets_to_change(directory: Path) -> Iterator[dict[str, Any]]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".secrets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = directory / "secrets.json"
        values = _read(path)
        yield values
        write_private(path, json.dumps(values, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    new: dict[str, Any] = {
        "signingKey": secrets.token_hex(32),
        "adminTokens": [],
        "webhookSecrets": {},
        "githubToken": None,
    }
    try:
        return {**new, **json.loads(path.read_text())}
    except FileNotFoundError:
        return new
    except (ValueError, TypeError) as error:
        raise StartError(f"{path} is damaged ({error}); repair it, or delete it to get new secrets.") from error


def _kept_token(file: Path) -> str | None:
    return file.read_text().strip() or None if file.exists() else None


def _entry(name: str, role: str, token: str) -> dict[str, str]:
    return {"name": name, "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()}
