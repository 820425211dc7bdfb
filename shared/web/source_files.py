"""The files of a skill as pages show them: a tree, and one file as highlighted source with findings at their lines.

Highlighting is by the scanner's own tokenizers: what is shown as a comment is what the scanner took for one.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from posixpath import normpath
from typing import NamedTuple

from shared.scanner import Finding
from shared.scanner.file_text import is_readable, text_of, unix_lines
from shared.scanner.report import ScannedFile, most_serious_first
from shared.web.invisible import show_invisible

LINES_PER_PAGE = 1000
LONGEST_LINE = 2000
LONGEST_PAGE = 400_000  # characters: Lambda returns 6 MB, and markup is many times as long as what it marks
MOST_MARKS = 20_000  # what a page highlights
LONGEST_TEXT = 1_000_000
_WORDS = (
    "and as async await break case catch class const continue def del do done elif else esac except export extends fi "
    "finally for from func function global if import in is lambda let local new not or package pass private public "
    "raise return static struct switch then throw try type until var void while with yield"
)
_KEYWORD = re.compile(rf"(?<![\w$@.-])(?:{'|'.join(_WORDS.split())})(?![\w-])")
_MARKDOWN_HEADING = re.compile(r" {0,3}#{1,6} |---\s*$")
_MARKDOWN_INLINE = re.compile(r"(?P<string>`[^`]{1,300}`)|(?P<keyword>\[[^\[\]]{0,200}\]\([^()\s]{1,300}\))")
_FENCES = ("```", "~~~")
_NOT_KEYWORDS = {"", "config", "ini", "lines", "html"}


class Piece(NamedTuple):
    kind: str  # "comment", "string", "keyword" or nothing special
    text: str


class SourceRow(NamedTuple):
    number: int
    pieces: list[Piece]
    findings: list[Finding]
    left_out: int = 0  # characters at the end of the line that are not shown


class SourcePage(NamedTuple):
    """One file, or a part of a long one."""

    path: str
    size: int
    rows: list[SourceRow]
    problem: str  # why it is not shown
    page: int
    pages: int
    findings: list[Finding]  # of the whole file


class TreeRow(NamedTuple):
    depth: int
    name: str
    path: str | None  # None for a folder
    size: int
    findings: int
    skipped: str  # why the scanner did not read it
    first_line: int = 0  # of its most serious finding; 0: it has none, or it is about the whole file


def page_of_line(line: int) -> int:
    return max(1, line - 1) // LINES_PER_PAGE + 1


def file_tree(files: Mapping[str, bytes], scanned: Iterable[ScannedFile], findings: Iterable[Finding]) -> list[TreeRow]:
    """Folders before their contents, in the order of their paths; SKILL.md is where readers begin."""
    skipped = {file.path: file.skipped for file in scanned}
    hits = _by_path(findings)
    rows: list[TreeRow] = []
    folders: set[str] = set()
    for path in sorted(files, key=lambda path: (path != "SKILL.md", path.lower())):
        *above, name = path.split("/")
        for depth, folder in enumerate(above):
            if (whole := "/".join(above[: depth + 1])) not in folders:
                folders.add(whole)
                rows.append(TreeRow(depth, folder, None, 0, 0, ""))
        own = hits.get(path, [])
        line = own[0].line if own else 0
        rows.append(TreeRow(len(above), name, path, len(files[path]), len(own), skipped.get(path, ""), line))
    return rows


def source_page(path: str, content: bytes, findings: Iterable[Finding], page: int = 1) -> SourcePage:
    own = _by_path(findings).get(path, [])
    if len(content) > LONGEST_TEXT:
        return SourcePage(path, len(content), [], "This file is too large to show.", 1, 1, own)
    text = unix_lines(text_of(content), path)
    if not is_readable(text):
        return SourcePage(path, len(content), [], "This is a binary file.", 1, 1, own)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    pages = max(1, -(-len(lines) // LINES_PER_PAGE))
    page = min(max(1, page), pages)
    first = (page - 1) * LINES_PER_PAGE
    shown = lines[first : first + LINES_PER_PAGE]
    rows = list(_rows(path, text, lines, first, shown, own))
    return SourcePage(path, len(content), rows, "", page, pages, own)


def resolve_link(target: str, page: str, files: Mapping[str, bytes]) -> str | None:
    """The file of the skill that a relative link on a page of it leads to."""
    path = target.partition("#")[0].partition("?")[0]
    if not path or path.startswith("/") or ":" in path.partition("/")[0]:
        return None
    folder = page.rpartition("/")[0]
    resolved = normpath(f"{folder}/{path}" if folder else path)
    return resolved if resolved in files else None


def _rows(
    path: str, text: str, lines: Sequence[str], first: int, shown: Sequence[str], findings: Sequence[Finding]
) -> Iterator[SourceRow]:
    spans = _highlights(path, text)
    ends = [end for _, end, _ in spans]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    by_line: dict[int, list[Finding]] = {}
    for finding in findings:
        by_line.setdefault(finding.line, []).append(finding)
    characters, marks = LONGEST_PAGE, MOST_MARKS
    for number, line in enumerate(shown, start=first + 1):
        part = line[: min(LONGEST_LINE, characters)]
        pieces = _pieces(part, starts[number - 1], spans if marks > 0 else (), ends)
        characters, marks = characters - len(part), marks - len(pieces)
        yield SourceRow(number, pieces, by_line.get(number, []), len(line) - len(part))


def _pieces(line: str, start: int, spans: Sequence[tuple[int, int, str]], ends: Sequence[int]) -> list[Piece]:
    pieces, at = [], 0
    index = bisect_left(ends, start + 1)
    while index < len(spans) and spans[index][0] < start + len(line):
        begins, finishes, kind = spans[index]
        left, right = max(at, begins - start), min(len(line), finishes - start)
        if left > at:
            pieces.append(Piece("", line[at:left]))
        if right > left:
            pieces.append(Piece(kind, line[left:right]))
        at = max(at, right)
        index += 1
    pieces = [*pieces, Piece("", line[at:])] if line[at:] or not pieces else pieces
    return [Piece(kind, show_invisible(text)) for kind, text in pieces]


def _highlights(path: str, text: str) -> list[tuple[int, int, str]]:
    """Spans that do not overlap, in order."""
    if path.lower().endswith((".md", ".mdx", ".markdown")):
        return list(_markdown(text))
    from shared.scanner.syntax import language_of_file, read_syntax  # here: it loads the matcher

    language = language_of_file(path, text)
    syntax = read_syntax(text, language)
    literals = sorted([(*span, "comment") for span in syntax.comments] + [(*span, "string") for span in syntax.strings])
    if language in _NOT_KEYWORDS:
        return list(_in_order(literals))
    return list(_in_order(sorted([*literals, *((*match.span(), "keyword") for match in _KEYWORD.finditer(text))])))


def _markdown(text: str) -> Iterator[tuple[int, int, str]]:
    """Headings and links; inline code and fenced blocks as text between quotes is in a program."""
    fence, at = "", 0
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if fence or mark in _FENCES:
            yield at, at + len(line), "string"
            fence = mark if not fence else "" if mark == fence else fence
        elif _MARKDOWN_HEADING.match(line):
            yield at, at + len(line), "keyword"
        else:
            inline = _MARKDOWN_INLINE.finditer(line[:LONGEST_LINE])
            yield from ((at + match.start(), at + match.end(), match.lastgroup or "") for match in inline)
        at += len(line) + 1


def _in_order(spans: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """A span that begins inside an earlier one is part of it: a keyword in a comment, a string in a string."""
    reached = 0
    for start, end, kind in spans:
        if start >= reached and end > start:
            yield start, end, kind
            reached = end


def _by_path(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=most_serious_first):
        found.setdefault(finding.path, []).append(finding)
    return found
