"""The result of a scan: findings, the verdict that follows from them, and a manifest of the scanned files."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

SCANNER_VERSION = "1.0.0"


class Verdict(StrEnum):
    PASS = "PASS"  # noqa: S105 - a verdict
    CONCERNS = "CONCERNS"
    FAIL = "FAIL"


class Action(StrEnum):
    BLOCK = "block"
    REVIEW = "review"
    NOTE = "note"
    NONE = "none"


class Severity(StrEnum):
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    title: str
    category: str
    severity: Severity
    action: Action
    certain: bool
    path: str
    line: int
    column: int
    excerpt: str
    context: str
    why: str
    fix: str


class Capability(msgspec.Struct, frozen=True):
    """Something a skill can do. Shown apart from threats: a deploy skill needs the network, and that is fine."""

    name: str
    because: str
    declared: bool


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    description: str = ""
    version: str = ""
    category: str = "other"
    tags: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ScannedFile(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    size: int
    skipped: str = ""  # why it was not read as text; empty when it was


class ScanManifest(msgspec.Struct, frozen=True, kw_only=True):
    scanner_version: str
    rule_set_version: str
    content_hash: str
    files: tuple[ScannedFile, ...]


class ScanReport(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    action: Action
    certain: bool
    score: int
    incomplete: tuple[str, ...]
    findings: tuple[Finding, ...]
    capabilities: tuple[Capability, ...]
    front_matter: FrontMatter
    signature: tuple[int, ...]
    receipt: ScanManifest
    unfinished: str = ""  # the limit that ended the scan before its end; such a report is shown but never used again

    def adding(self, findings: Iterable[Finding] = (), incomplete: Iterable[str] = ()) -> "ScanReport":
        """The report with further findings, such as a similarity to a blocked skill, and a new decision."""
        together = tuple(sorted(dict.fromkeys([*self.findings, *findings]), key=most_serious_first))
        unscanned = (*self.incomplete, *incomplete)
        decision = decide(together, unscanned).as_dict()
        return msgspec.structs.replace(self, findings=together, incomplete=unscanned, **decision)

    def as_dict(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))


class ScanDecision(msgspec.Struct, frozen=True):
    verdict: Verdict
    action: Action
    certain: bool
    score: int

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


ACTION_ORDER = (Action.BLOCK, Action.REVIEW, Action.NOTE, Action.NONE)
SEVERITY_ORDER = (Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM, Severity.LOW)
POINTS = {Severity.CRITICAL: 25, Severity.HIGH: 15, Severity.MEDIUM: 8, Severity.LOW: 3}
SCORE_BAND = {Verdict.PASS: (80, 100), Verdict.CONCERNS: (50, 79), Verdict.FAIL: (0, 49)}


def decide(findings: Iterable[Finding], incomplete: Iterable[str]) -> ScanDecision:
    """The action of the matched rules decides; the score is only informative."""
    findings = list(findings)
    action = min((f.action for f in findings), key=ACTION_ORDER.index, default=Action.NONE)
    verdict = verdict_for(action, bool(list(incomplete)))
    blocks = [f for f in findings if f.action is Action.BLOCK]
    certain = any(f.certain for f in blocks) or len({f.category for f in blocks}) >= 2
    return ScanDecision(verdict, action, certain, score_for(findings, verdict))


def verdict_for(action: Action, incomplete: bool) -> Verdict:
    if action is Action.BLOCK:
        return Verdict.FAIL
    return Verdict.CONCERNS if incomplete or action is Action.REVIEW else Verdict.PASS


def score_for(findings: Iterable[Finding], verdict: Verdict) -> int:
    # A note is an observation, not a fault, so it costs no points.
    once = {(f.rule, f.path): POINTS[f.severity] for f in findings if f.action in (Action.BLOCK, Action.REVIEW)}
    low, high = SCORE_BAND[verdict]
    return max(low, min(high, 100 - sum(once.values())))


def most_serious_first(finding: Finding) -> tuple[int, int, str, int, int, str]:
    return (
        ACTION_ORDER.index(finding.action),
        SEVERITY_ORDER.index(finding.severity),
        finding.path,
        finding.line,
        finding.column,
        finding.rule,
    )
