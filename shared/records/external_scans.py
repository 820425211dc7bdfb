"""A scan by an external scanner: requested, claimed for a while, finished once. Pure: no clock, no store."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from shared.timing import SCAN_LEASE, SCAN_TIMEOUT

MAX_CLAIMS = 3  # a skill that kills its scanner is not offered for ever
MAX_FINDINGS = 100

Text = Annotated[str, msgspec.Meta(max_length=500)]
Link = Annotated[str, msgspec.Meta(max_length=500, pattern="^https://[!-~]+$")]  # pages link it: no other scheme


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"


class ExternalVerdict(StrEnum):
    """From good to bad."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    CONCERNS = "CONCERNS"
    FAIL = "FAIL"


class ExternalFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    severity: Literal["critical", "high", "medium", "low"]
    title: Text
    file: Text | None = None
    line: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] | None = None


class ExternalOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a scanner reports. FAILED: it could not look, so it says nothing about the skill."""

    status: Literal["COMPLETED", "FAILED"]
    verdict: ExternalVerdict | None = None
    score: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    critical_count: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    summary: Text | None = None
    report_url: Link | None = None
    findings: Annotated[tuple[ExternalFinding, ...], msgspec.Meta(max_length=MAX_FINDINGS)] = ()


class ExternalScan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    skill_name: str
    provider: str
    content_hash: str
    requested_at: datetime
    record_version: int = 1
    claims: int = 0
    claim_id: str | None = None
    lease_until: datetime | None = None
    finished_at: datetime | None = None
    outcome: ExternalOutcome | None = None


def status_at(scan: ExternalScan, now: datetime) -> Status:
    if scan.outcome is not None:
        return Status(scan.outcome.status)
    if scan.lease_until is not None and now < scan.lease_until:
        return Status.RUNNING
    return Status.PENDING if now < scan.requested_at + SCAN_TIMEOUT else Status.TIMED_OUT


def claimable_at(scan: ExternalScan) -> datetime | None:
    """From when on a scanner may have it. A late result is worth more than none, so a timeout changes nothing."""
    if scan.outcome is not None or scan.claims >= MAX_CLAIMS:
        return None
    return scan.lease_until or scan.requested_at


def claimed(scan: ExternalScan, claim_id: str, now: datetime) -> ExternalScan:
    return _next(scan, claim_id=claim_id, claims=scan.claims + 1, lease_until=now + SCAN_LEASE)


def finished(scan: ExternalScan, outcome: ExternalOutcome, now: datetime) -> ExternalScan:
    return _next(scan, outcome=outcome, finished_at=now)


def is_critical(outcome: ExternalOutcome) -> bool:
    return outcome.critical_count > 0


def problem_of(outcome: ExternalOutcome) -> str | None:
    """What makes a report contradict itself, as a sentence."""
    if outcome.status == "FAILED":
        result = (outcome.verdict, outcome.score, outcome.critical_count, outcome.findings)
        return None if result == (None, None, 0, ()) else "A scan that FAILED has no verdict, score or findings."
    if outcome.verdict is None:
        return "A scan that is COMPLETED has a `verdict`: PASS, CONCERNS or FAIL."
    if is_critical(outcome) and outcome.verdict is not ExternalVerdict.FAIL:
        return "A result with critical findings has the verdict FAIL."
    return None


def _next(scan: ExternalScan, **set_: object) -> ExternalScan:
    return msgspec.structs.replace(scan, record_version=scan.record_version + 1, **set_)
