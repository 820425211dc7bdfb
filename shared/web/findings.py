"""Findings as a page shows them: by file, each with the lines around it."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

AROUND = 3
LONGEST_LINE = 300
SEVERITIES = ("critical", "high", "medium", "low", "info")


class Line(NamedTuple):
    number: int
    text: str
    is_hit: bool


class Shown(NamedTuple):
    rule: str
    title: str
    severity: str
    action: str
    category: str
    line: int | None
    lines: list[Line]
    why: str
    fix: str


class FileFindings(NamedTuple):
    path: str
    findings: list[Shown]


def by_file(findings: Iterable[Mapping[str, Any]], files: Mapping[str, bytes]) -> list[FileFindings]:
    """The worst file first, the worst finding first in it."""
    groups: dict[str, list[Shown]] = {}
    for finding in sorted(findings, key=_rank):
        path = str(finding.get("file") or "the skill as a whole")
        groups.setdefault(path, []).append(_shown(finding, files.get(path)))
    return [FileFindings(path, shown) for path, shown in groups.items()]


def _rank(finding: Mapping[str, Any]) -> tuple[int, str, int]:
    severity = str(finding.get("severity") or "info").lower()
    rank = SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
    return rank, str(finding.get("file") or ""), int(finding.get("line") or 0)


def _shown(finding: Mapping[str, Any], content: bytes | None) -> Shown:
    line = int(finding["line"]) if finding.get("line") else None
    excerpt = str(finding.get("excerpt") or "")
    return Shown(
        rule=str(finding.get("rule") or ""),
        title=str(finding.get("title") or finding.get("rule") or "Finding"),
        severity=str(finding.get("severity") or "info").lower(),
        action=str(finding.get("action") or "none").lower(),
        category=str(finding.get("category") or ""),
        line=line,
        lines=_lines_around(content, line) or _excerpt(excerpt, line),
        why=str(finding.get("why") or ""),
        fix=str(finding.get("fix") or ""),
    )


def _lines_around(content: bytes | None, line: int | None) -> list[Line]:
    if content is None or line is None:
        return []
    lines = content.decode("utf-8", errors="replace").split("\n")
    if line > len(lines):
        return []
    first = max(1, line - AROUND)
    shown = lines[first - 1 : line + AROUND - 1]
    return [Line(first + n, _cut(text), first + n == line) for n, text in enumerate(shown)]


def _excerpt(excerpt: str, line: int | None) -> list[Line]:
    return [Line((line or 1) + n, _cut(text), is_hit=True) for n, text in enumerate(excerpt.split("\n")[:6]) if excerpt]


def _cut(text: str) -> str:
    text = text.rstrip("\r")
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
