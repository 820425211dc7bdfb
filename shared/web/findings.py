"""Findings as a page shows them: by file, each with the lines around it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from shared.scanner import Finding
from shared.scanner.file_text import text_of, unix_lines
from shared.scanner.report import FlowStep, by_line, first_sentences, most_serious_first
from shared.web.invisible import show_invisible

AROUND = 3
LONGEST_LINE = 300
WHOLE = "Whole skill"


class SourceLine(NamedTuple):
    number: int
    text: str
    is_hit: bool


class FindingView(NamedTuple):
    rule: str
    title: str
    severity: str
    action: str
    category: str
    line: int | None
    lines: list[SourceLine]
    why: str
    fix: str
    steps: tuple[FlowStep, ...] = ()
    also: tuple[Finding, ...] = ()  # of the same line, less serious


class FileFindings(NamedTuple):
    path: str
    total: int
    findings: list[FindingView]


def by_file(findings: Iterable[Finding], files: Mapping[str, bytes]) -> list[FileFindings]:
    """The worst file first, the worst line first in it."""
    groups: dict[str, list[list[Finding]]] = {}
    for line in by_line(sorted(findings, key=most_serious_first)):
        groups.setdefault(line[0].path, []).append(line)
    return [
        FileFindings(path or WHOLE, sum(map(len, lines)), [_view(line, files.get(path)) for line in lines])
        for path, lines in groups.items()
    ]


def _view(findings: list[Finding], content: bytes | None) -> FindingView:
    finding, *also = findings
    return FindingView(
        rule=finding.rule,
        title=finding.title,
        severity=finding.severity,
        action=finding.action,
        category=finding.category,
        line=finding.line or None,
        lines=_lines_around(content, finding) or _excerpt(finding.excerpt, finding.line),
        why=first_sentences(finding.why),
        fix=finding.fix,
        steps=next((one.steps for one in findings if one.steps), ()),
        also=tuple(msgspec.structs.replace(other, why=first_sentences(other.why)) for other in also),
    )


def _lines_around(content: bytes | None, finding: Finding) -> list[SourceLine]:
    line = finding.line
    if content is None or not line:
        return []
    lines = unix_lines(text_of(content), finding.path).split("\n")  # as the scanner counted them
    if line > len(lines):
        return []
    first = max(1, line - AROUND)
    shown = lines[first - 1 : line + AROUND - 1]
    return [SourceLine(first + n, _shorten(text), first + n == line) for n, text in enumerate(shown)]


def _excerpt(excerpt: str, line: int) -> list[SourceLine]:
    return [
        SourceLine((line or 1) + n, _shorten(text), is_hit=True)
        for n, text in enumerate(excerpt.split("\n")[:6])
        if excerpt
    ]


def _shorten(text: str) -> str:
    text = show_invisible(text.rstrip("\r"))
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
