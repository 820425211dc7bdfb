"""Patches between versions: they can be applied, and no content makes them expensive."""

import difflib
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.marketplace.diffs import MAX_CELLS, MAX_LINES, MAX_LINES_IN_ALL, diff_files, summary_of, unified_of

texts = st.lists(st.sampled_from(["", "a", "b", "c", "d\r", "\u2028x", "- e", "+++ f", "@@ g"]), max_size=40).map(
    "\n".join
)


def applied(before: str, patch: str) -> str:
    """As `patch` would do it, checking each line that it says is there."""
    old = re.findall(r"[^\n]*\n|[^\n]+", before)
    steps = []
    for line in patch.split("\n"):
        if line.startswith("\\"):
            steps[-1] = (steps[-1][0], steps[-1][1].removesuffix("\n"))
        else:
            steps.append((line[0], f"{line[1:]}\n"))
    new, at = [], 0
    for mark, text in steps:
        if mark == "@":
            start, length = re.match(r"@ -(\d+)(?:,(\d+))? ", text).groups()
            new += old[at : int(start) - (length != "0")]
            at = int(start) - (length != "0")
        if mark in " -":
            assert old[at] == text
            at += 1
        if mark in " +":
            new.append(text)
    return "".join(new + old[at:])


@given(texts, texts)
def test_a_patch_makes_the_new_file_of_the_old_one(before, after):
    diffs = diff_files({"f": before.encode()}, {"f": after.encode()})
    assert bool(diffs) == (before != after)
    for diff in diffs:
        assert applied(before, diff.patch) == after
        assert diff.patch
        assert diff.additions == sum(line.startswith("+") for line in diff.patch.split("\n"))
        assert diff.deletions == sum(line.startswith("-") for line in diff.patch.split("\n"))


def test_files_are_added_removed_and_changed():
    before = {"SKILL.md": b"one\ntwo\n", "old.sh": b"echo\n", "same": b"x"}
    after = {"SKILL.md": b"one\nthree\n", "new.py": b"print()\n", "same": b"x"}
    diffs = diff_files(before, after)
    assert [(d.filename, d.status, d.additions, d.deletions) for d in diffs] == [
        ("SKILL.md", "modified", 1, 1),
        ("new.py", "added", 1, 0),
        ("old.sh", "removed", 0, 1),
    ]
    assert summary_of(diffs) == "3 files changed, +2 −2 lines"
    assert unified_of(diffs) == (
        "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+print()\n"
        "--- a/old.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-echo"
    )


def test_a_change_of_line_ends_alone_is_a_change():
    (crlf,) = diff_files({"f": b"a\r\nb\r\n"}, {"f": b"a\nb\n"})
    assert crlf.patch == "@@ -1,2 +1,2 @@\n-a\r\n-b\r\n+a\n+b"
    (cut_off,) = diff_files({"f": b"a\n"}, {"f": b"a"})
    assert cut_off.patch == "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file"


def test_a_small_change_in_a_long_file_is_a_small_patch():
    lines = [f"line {n}" if n % 3 else "" for n in range(3000)]
    changed = [*lines[:10], "new", *lines[10:2900], *lines[2901:]]
    (diff,) = diff_files({"f": "\n".join(lines).encode()}, {"f": "\n".join(changed).encode()})
    assert (diff.additions, diff.deletions) == (1, 1)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x\n" * (MAX_LINES + 1)], ids=["not text", "too long"])
def test_what_cannot_be_shown_is_still_listed(content):
    (diff,) = diff_files({}, {"f": content})
    assert (diff.status, diff.patch) == ("added", None)
    assert unified_of([diff]) == "Files /dev/null and b/f differ"


@pytest.mark.requirement("S01")
def test_many_changed_files_are_shown_up_to_a_limit():
    many = {f"f{n}": b"x\n" * 1000 for n in range(30)}
    shown = [diff for diff in diff_files({}, many) if diff.patch is not None]
    assert len(shown) == MAX_LINES_IN_ALL // 1000


@pytest.mark.requirement("S13")
def test_no_content_makes_a_diff_expensive(monkeypatch):
    """Pairs of lines that change places take the plain algorithm eight seconds; only little is ever given to it."""
    compared = []

    class Watched(difflib.SequenceMatcher):
        def __init__(self, isjunk, a, b, **more):
            compared.append(len(a) * len(b))
            super().__init__(isjunk, a, b, **more)

    monkeypatch.setattr(difflib, "SequenceMatcher", Watched)
    cases = [
        [str(n ^ 1) for n in range(MAX_LINES)],
        [str(n ^ 1) for n in range(MAX_LINES // 2)] * 2,  # no line is there once
        random.Random(1).choices([str(n) for n in range(90)], k=MAX_LINES),
    ]
    for new in cases:
        old = [str(int(line) ^ 1) for line in new]
        (diff,) = diff_files({"f": "\n".join(old).encode()}, {"f": "\n".join(new).encode()})
        assert applied("\n".join(old), diff.patch) == "\n".join(new)
    assert max(compared) <= MAX_CELLS
    assert sum(compared) <= MAX_LINES * 200 * len(cases)


def test_every_hunk_has_a_change_in_it():
    old = "---\nname: x\ndescription: y\nmetadata:\n  tags: []\n---\n\n# t\n\nUse it.\n\n1. Read\n2. Do it:\n\n| a |\n"
    new = old.replace("2. Do it:", "2. Say\n3. Do it:")
    [diff] = diff_files({"SKILL.md": old.encode()}, {"SKILL.md": new.encode()})
    assert [line for line in diff.patch.split("\n") if line.startswith("@@")] == ["@@ -10,6 +10,7 @@"]


def test_what_a_diff_says_is_bounded_in_bytes_too():
    before = {f"{n}.txt": b"a" * 400_000 for n in range(9)}
    after = dict.fromkeys(before, b"b" * 400000)
    diffs = diff_files(before, after)
    assert len(diffs) == 9
    assert sum(len(diff.patch or "") for diff in diffs) < 1_100_000
    assert diffs[0].patch, "the first still fits"
    assert diffs[-1].patch is None
