"""What changed between two versions of a skill, file by file. Pure: it is given the files."""

import difflib
from collections.abc import Mapping

import msgspec

MAX_LINES = 4000  # of one file: a larger one is told to have changed, not shown


class FileDiff(msgspec.Struct, frozen=True):
    filename: str
    status: str  # added | removed | modified
    additions: int
    deletions: int
    patch: str | None  # None: too large or not text


def diff_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[FileDiff]:
    paths = sorted(before.keys() | after.keys())
    changed = [path for path in paths if before.get(path) != after.get(path)]
    return [_diff(path, before.get(path), after.get(path)) for path in changed]


def summary_of(diffs: list[FileDiff]) -> str:
    if not diffs:
        return "no file changed"
    files = "1 file" if len(diffs) == 1 else f"{len(diffs)} files"
    return f"{files} changed, +{sum(d.additions for d in diffs)} −{sum(d.deletions for d in diffs)} lines"


def _diff(path: str, before: bytes | None, after: bytes | None) -> FileDiff:
    status = "added" if before is None else "removed" if after is None else "modified"
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        return FileDiff(path, status, 0, 0, None)
    lines = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]  # without the two lines of file names
    additions = sum(line.startswith("+") for line in lines)
    deletions = sum(line.startswith("-") for line in lines)
    return FileDiff(path, status, additions, deletions, "\n".join(lines))


def _lines(content: bytes | None) -> list[str] | None:
    try:
        lines = (content or b"").decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= MAX_LINES else None
