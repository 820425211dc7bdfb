"""What changed between two versions of a skill, file by file, as patches that can be applied. Pure: given the files.

Authors choose the content, so the work is bounded whatever it is: lines that are there once on both sides hold a file
together, and what lies between two of them is compared line by line only while that is small.
"""

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from shared.scanner.file_text import is_readable, text_of

MAX_LINES = 4000  # of one file: a larger one is listed as changed, without a patch
MAX_LINES_IN_ALL = 10_000
MAX_BYTES_IN_ALL = 1024 * 1024  # of both sides: the response must fit the limit of a function
MAX_CELLS = 40_000  # lines by lines: what is compared at once; beyond, all of it counts as replaced
CONTEXT = 3
_CUT_OFF = "\n\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


class FileDiff(msgspec.Struct, frozen=True):
    filename: str
    status: str  # added | removed | modified
    additions: int
    deletions: int
    patch: str | None  # None: too large or not text


def diff_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[FileDiff]:
    paths = sorted(before.keys() | after.keys())
    left, bytes_left = MAX_LINES_IN_ALL, MAX_BYTES_IN_ALL
    diffs = []
    for path in paths:
        if before.get(path) != after.get(path):
            old, new = _lines(before.get(path)), _lines(after.get(path))
            left -= len(old or ()) + len(new or ())
            bytes_left -= len(before.get(path, b"")) + len(after.get(path, b""))
            status = "added" if path not in before else "removed" if path not in after else "modified"
            diffs.append(_diff(path, status, old, new if min(left, bytes_left) >= 0 else None))
    return diffs


def count_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """A short summary that costs little, whatever the files are."""
    changed = sum(before[path] != after[path] for path in before.keys() & after.keys())
    counts = {
        "changed": changed,
        "added": len(after.keys() - before.keys()),
        "removed": len(before.keys() - after.keys()),
    }
    parts = [f"{n} {'file' if n == 1 else 'files'} {what}" for what, n in counts.items() if n]
    return ", ".join(parts) or "no file changed"


def summary_of(diffs: list[FileDiff]) -> str:
    if not diffs:
        return "no file changed"
    files = "1 file" if len(diffs) == 1 else f"{len(diffs)} files"
    return f"{files} changed, +{sum(d.additions for d in diffs)} −{sum(d.deletions for d in diffs)} lines"


def unified_of(diffs: list[FileDiff]) -> str:
    """All of them as one text, as `git diff` would write it."""
    return "\n".join(map(_with_names, diffs))


def _with_names(diff: FileDiff) -> str:
    old = "/dev/null" if diff.status == "added" else f"a/{diff.filename}"
    new = "/dev/null" if diff.status == "removed" else f"b/{diff.filename}"
    if diff.patch is None:
        return f"Files {old} and {new} differ"
    return f"--- {old}\n+++ {new}\n{diff.patch}"


def _diff(path: str, status: str, old: list[str] | None, new: list[str] | None) -> FileDiff:
    if old is None or new is None or (status == "modified" and old == new):  # bytes differ, lines do not
        return FileDiff(path, status, 0, 0, None)
    opcodes = _opcodes(old, new)
    deletions = sum(i2 - i1 for tag, i1, i2, _, _ in opcodes if tag != "equal")
    additions = sum(j2 - j1 for tag, _, _, j1, j2 in opcodes if tag != "equal")
    return FileDiff(path, status, additions, deletions, "\n".join(_patch(old, new, opcodes)))


def _lines(content: bytes | None) -> list[str] | None:
    """Cut at line feeds only, so that nothing else about a file is lost; None: not text, or too long."""
    if not content:
        return []
    text = text_of(content)
    if not text or not is_readable(text):
        return None
    lines = text.split("\n")
    last = lines.pop()
    if last:
        lines.append(last + _CUT_OFF)
    return lines if len(lines) <= MAX_LINES else None


def _patch(old: Sequence[str], new: Sequence[str], opcodes: Sequence[Opcode]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, "", "")
    matcher.opcodes = list(opcodes)  # type: ignore[attr-defined]  # it only has to group them
    for group in matcher.get_grouped_opcodes(CONTEXT):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@"
        for tag, from_, to, new_from, new_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[from_:to])
            else:
                yield from (f"-{line}" for line in old[from_:to])
                yield from (f"+{line}" for line in new[new_from:new_to])


def _range(start: int, end: int) -> str:
    """Counted from 1; an empty range is named by the line before it."""
    length = end - start
    return f"{start + (length > 0)}" + ("" if length == 1 else f",{length}")


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    opcodes: list[Opcode] = []
    i = j = 0
    for next_i, next_j, length in [*_matches(old, new), (len(old), len(new), 0)]:
        if i < next_i or j < next_j:
            opcodes.append(("replace", i, next_i, j, next_j))
        if length:
            # Runs that touch are one: two of them side by side would make a hunk in which nothing changes.
            touches = bool(opcodes) and opcodes[-1][0] == "equal"
            _, start, _, new_start, _ = opcodes.pop() if touches else ("equal", next_i, next_i, next_j, next_j)
            opcodes.append(("equal", start, next_i + length, new_start, next_j + length))
        i, j = next_i + length, next_j + length
    return opcodes


def _matches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of lines that are the same, in order."""
    i = j = 0
    for next_i, next_j in [*_anchors(old, new), (len(old), len(new))]:
        if next_i < i or next_j < j:
            continue  # it is inside a run that was yielded already
        yield from _between(old, new, i, next_i, j, next_j)
        i, j = next_i, next_j
        while i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
        if i > next_i:
            yield next_i, next_j, i - next_i


def _between(
    old: Sequence[str], new: Sequence[str], i1: int, i2: int, j1: int, j2: int
) -> Iterator[tuple[int, int, int]]:
    start = 0
    while i1 + start < i2 and j1 + start < j2 and old[i1 + start] == new[j1 + start]:
        start += 1
    end = 0
    while i2 - end > i1 + start and j2 - end > j1 + start and old[i2 - end - 1] == new[j2 - end - 1]:
        end += 1
    if start:
        yield i1, j1, start
    yield from _compared(old, new, i1 + start, i2 - end, j1 + start, j2 - end)
    if end:
        yield i2 - end, j2 - end, end


def _compared(
    old: Sequence[str], new: Sequence[str], i1: int, i2: int, j1: int, j2: int
) -> Iterator[tuple[int, int, int]]:
    if not 0 < (i2 - i1) * (j2 - j1) <= MAX_CELLS:
        return
    matcher = difflib.SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False)
    yield from ((i1 + i, j1 + j, length) for i, j, length in matcher.get_matching_blocks() if length)


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that are there once on both sides, as many as are in the same order."""
    in_old, in_new = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if in_new[line] == 1 and in_old[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(old) if line in places]
    ends: list[int] = []  # the lowest place in which an ordered run of each length can end
    runs: list[int] = []  # and which pair ends it
    before: list[int | None] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(runs[at - 1] if at else None)
        ends[at : at + 1] = [j]
        runs[at : at + 1] = [n]
    chosen = []
    n_or_none = runs[-1] if runs else None
    while n_or_none is not None:
        chosen.append(pairs[n_or_none])
        n_or_none = before[n_or_none]
    return chosen[::-1]
