"""The result of a scan: findings, the verdict that follows from them, and a manifest of the scanned files."""

import re
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


class FlowStep(msgspec.Struct, frozen=True):
    """One step of a value on its way out of the machine."""

    path: str
    line: int
    what: str


MAX_STEPS = 8


class Standing(StrEnum):
    """What a finding decides, by what its rule was measured to find (calibration.py)."""

    POLICY = "policy"  # about what may be published at all, whatever the figures say
    CERTAIN = "certain"  # blocks
    ALONE = "alone"  # a question for a reviewer
    SUPPORTING = "supporting"  # only beside a finding of another category, or a flow


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
    steps: tuple[FlowStep, ...] = ()  # of a flow, from its source to its sink; at most MAX_STEPS
    standing: Standing = Standing.POLICY  # older receipts have none: their findings decide by their actions
    is_described: bool = False  # its place excuses it in part: it supports other findings, never a second of its kind

    @property
    def decides_alone(self) -> bool:
        return self.standing is not Standing.SUPPORTING

    @property
    def blocks(self) -> bool:
        return self.action is Action.BLOCK and self.standing in (Standing.CERTAIN, Standing.POLICY)


class PermissionUse(msgspec.Struct, frozen=True, array_like=True):
    """One use of a capability: a host, path, variable or command, and where it stands."""

    kind: str
    value: str
    path: str
    line: int


class Capability(msgspec.Struct, frozen=True):
    """Something a skill can do. Shown apart from threats: a deploy skill needs the network, and that is fine."""

    name: str
    because: str
    declared: bool
    uses: tuple[PermissionUse, ...] = ()

    def lines(self) -> list[str]:
        return [f"{self.name}: {use.value}" for use in self.uses] or [self.name]


def permissions_of(capabilities: Iterable[Capability]) -> tuple[str, ...]:
    """As one line each, to be compared between versions: what was observed, not what was declared."""
    return tuple(line for capability in capabilities if not capability.declared for line in capability.lines())


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    description: str = ""
    version: str = ""
    category: str = "other"
    tags: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
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

    unread_languages: tuple[str, ...] = ()  # those reasons of `incomplete` that a reader of the language settles

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
DECISIVE = (Action.BLOCK, Action.REVIEW)
POINTS = {Severity.CRITICAL: 25, Severity.HIGH: 15, Severity.MEDIUM: 8, Severity.LOW: 3}
MAX_SENTENCES, MAX_REASON = 3, 500
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
SCORE_BAND = {Verdict.PASS: (80, 100), Verdict.CONCERNS: (50, 79), Verdict.FAIL: (0, 49)}


def decide(findings: Iterable[Finding], incomplete: Iterable[str]) -> ScanDecision:
    """The strongest deciding finding decides; only certain evidence blocks. The score is informative."""
    deciding = deciding_findings(findings)
    certain = is_certain(deciding)
    action = min((f.action for f in deciding), key=ACTION_ORDER.index, default=Action.NONE)
    if action is Action.BLOCK and not (certain or any(f.blocks for f in deciding)):
        action = Action.REVIEW
    verdict = verdict_for(action, bool(list(incomplete)))
    return ScanDecision(verdict, action, certain, score_for(deciding, verdict))


def is_certain(deciding: Iterable[Finding]) -> bool:
    """No second opinion is needed: a rule that says so, or blocks of two categories that each decide alone."""
    blocks = [f for f in deciding if f.action is Action.BLOCK]
    return any(f.certain for f in blocks) or len({f.category for f in blocks if f.decides_alone}) >= 2


def deciding_findings(findings: Iterable[Finding]) -> list[Finding]:
    """All but the supporting ones that have nothing to support. Notes are among them; they decide nothing."""
    findings = list(findings)
    if _is_supported(findings):
        return findings
    return [f for f in findings if f.decides_alone or f.action not in DECISIVE]


def _is_supported(findings: Iterable[Finding]) -> bool:
    """Two categories, or a flow and something beside it; at least one of them is more than a description."""
    decisive = [f for f in findings if f.action in DECISIVE]
    if all(f.is_described for f in decisive):
        return False
    kinds_of_evidence = {bool(f.steps) for f in decisive}
    return len({f.category for f in decisive}) >= 2 or len(kinds_of_evidence) == 2


def verdict_for(action: Action, incomplete: bool) -> Verdict:
    if action is Action.BLOCK:
        return Verdict.FAIL
    return Verdict.CONCERNS if incomplete or action is Action.REVIEW else Verdict.PASS


def score_for(findings: Iterable[Finding], verdict: Verdict) -> int:
    # A note is an observation, not a fault, so it costs no points.
    once = {(f.rule, f.path): POINTS[f.severity] for f in findings if f.action in DECISIVE}
    low, high = SCORE_BAND[verdict]
    return max(low, min(high, 100 - sum(once.values())))


def first_sentences(text: str) -> str:
    """A reason as it is shown: of a flow, whose steps are shown beside it, the beginning."""
    shown = " ".join(SENTENCE_END.split(text)[:MAX_SENTENCES])
    return shown if len(shown) <= MAX_REASON else f"{shown[:MAX_REASON].rpartition(' ')[0]} …"


def by_line(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one line together, in their order; those about the whole skill stay apart."""
    groups: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.path, finding.line if finding.path else -len(groups)), []).append(finding)
    return list(groups.values())


def most_serious_first(finding: Finding) -> tuple[int, int, str, int, int, str]:
    return (
        ACTION_ORDER.index(finding.action),
        SEVERITY_ORDER.index(finding.severity),
        finding.path,
        finding.line,
        finding.column,
        finding.rule,
    )
