"""What `clawhub` calls the files of a skill on disk: a digest of their digests, in its own order. Pure."""

import hashlib
from collections.abc import Sequence

from shared.records.manifests import FileDigest

# How its runtime orders text: signs before digits before letters, and capitals matter only where all else is equal.
_ORDER = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_WEIGHTS = {letter: weight for weight, letter in enumerate(_ORDER)}


def fingerprint_of(files: Sequence[FileDigest]) -> str | None:
    """None where it cannot be known: the order of other letters depends on the language of the client."""
    visible = [file for file in files if not any(part.startswith(".") for part in file.path.split("/"))]
    if not visible or not all(letter in _WEIGHTS for file in visible for letter in file.path.lower()):
        return None
    lines = [f"{file.path}:{file.sha256}" for file in sorted(visible, key=lambda file: _place(file.path))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _place(path: str) -> tuple[list[int], list[bool]]:
    return [_WEIGHTS[letter] for letter in path.lower()], [letter.isupper() for letter in path]
