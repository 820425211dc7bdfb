"""The decision on a skill: the outcome table, the certification and the trust it earns, each one function. Pure.

Only a person's clearance overrides a block rule or an incomplete scan. The judge can only make a verdict worse.
"""

from collections.abc import Collection
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from shared.records.submissions import State

JUDGE_PASSES = 80
JUDGE_REJECTS_BELOW = 40
OLD_ENOUGH = timedelta(days=90)
OFTEN_INSTALLED = 100


class Judged(StrEnum):
    PASS = "PASS"  # noqa: S105 - a verdict
    CONCERNS = "CONCERNS"
    FAIL = "FAIL"
    NONE = "none configured"
    UNDECIDED = "undecided"  # too large, over budget, or no usable response


class CertTier(StrEnum):
    SCANNED = "SCANNED"
    VERIFIED = "VERIFIED"
    CERTIFIED = "CERTIFIED"


class TrustTier(StrEnum):
    T0 = "T0"
    T1 = "T1"
    T2 = "T2"
    T3 = "T3"
    T4 = "T4"


class Ruling(NamedTuple):
    """What the outcome table says."""

    state: State
    cert_tier: CertTier | None = None
    reason: str | None = None
    parked_by: str | None = None
    publish_as: State | None = None  # where AUTO_APPROVED leads


class Community(NamedTuple):
    age: timedelta = timedelta()
    installs: int = 0
    has_confirmed_report: bool = False
    was_ever_blocked: bool = False


class Points(NamedTuple):
    """What a trust score is the sum of."""

    scan: int
    judge: float
    provenance: int
    community: int


MOST_POINTS = Points(scan=30, judge=30, provenance=20, community=20)


class Trust(NamedTuple):
    score: int | None  # None: it is blocked
    tier: TrustTier


def decide(
    tier1_verdict: str,
    certain: bool,
    incomplete: bool,
    judged: Judged | None,
    is_vendor: bool,
    clearance_covers: bool,
    because: str = "",
) -> Ruling:
    """The outcome table. `judged` is None where the judge is not needed; `because` is for the author."""
    if tier1_verdict not in ("PASS", "CONCERNS", "FAIL"):
        raise ValueError(f"{tier1_verdict!r} is no verdict")
    if clearance_covers:
        return _approved(tier1_verdict, None, is_cleared=True)
    if tier1_verdict == "FAIL":
        return _failed(certain, because)
    if is_vendor:
        return _vendor(tier1_verdict, incomplete, because)
    if judged is None:
        raise ValueError("the judge decides here, but there is no judgement")
    return _weigh(tier1_verdict, incomplete, judged, because)


def needs_judge(tier1_verdict: str, is_vendor: bool, clearance_covers: bool) -> bool:
    return tier1_verdict != "FAIL" and not is_vendor and not clearance_covers


def judged_by_score(score: int) -> Judged:
    if score >= JUDGE_PASSES:
        return Judged.PASS
    return Judged.CONCERNS if score >= JUDGE_REJECTS_BELOW else Judged.FAIL


def is_vendor(owner: str, owner_id: int, ref: str | None, vendors: Collection[tuple[str, int]]) -> bool:
    """A login can change owners, an id means nothing to a reader: both must match, on the default branch's head."""
    return ref is None and (owner.lower(), owner_id) in vendors


def certification(
    tier1_verdict: str, judged: Judged | None, is_approved_by_person: bool = False, is_vendor: bool = False
) -> CertTier:
    if is_approved_by_person or is_vendor:
        return CertTier.CERTIFIED
    if tier1_verdict == "PASS" and judged is Judged.PASS:
        return CertTier.VERIFIED
    return CertTier.SCANNED


def trust(
    tier1_verdict: str | None,
    judge_score: int | None,
    has_provenance: bool,
    community: Community,
    is_approved_by_person: bool = False,
    is_blocked: bool = False,
) -> Trust:
    """`has_provenance`: public default branch, commit pinned, repository id unchanged. None: never scanned."""
    score = round(sum(points_of(tier1_verdict, judge_score, has_provenance, community)))
    if is_blocked:
        return Trust(None, TrustTier.T0)
    if tier1_verdict is None or score < 30:
        return Trust(score, TrustTier.T1)
    passes = judge_score is not None and judge_score >= JUDGE_PASSES
    if score >= 80 and passes and has_provenance and is_approved_by_person:
        return Trust(score, TrustTier.T4)
    return Trust(score, TrustTier.T3 if score >= 60 and passes else TrustTier.T2)


def points_of(tier1_verdict: str | None, judge_score: int | None, has_provenance: bool, community: Community) -> Points:
    return Points(
        scan={"PASS": 30, "CONCERNS": 15}.get(tier1_verdict or "", 0),
        judge=(judge_score or 0) * 0.3,
        provenance=20 * has_provenance,
        community=_community_points(community),
    )


def _approved(tier1_verdict: str, judged: Judged | None, is_cleared: bool = False, is_vendor: bool = False) -> Ruling:
    tier = certification(tier1_verdict, judged, is_approved_by_person=is_cleared, is_vendor=is_vendor)
    publish_as = State.VENDOR_APPROVED if is_vendor else State.PUBLISHED
    return Ruling(State.AUTO_APPROVED, tier, publish_as=publish_as)


def _failed(certain: bool, because: str) -> Ruling:
    if certain:
        return Ruling(State.TIER1_FAILED, reason=_say("The scan is certain that this skill is harmful", because))
    return Ruling(State.BLOCKED, reason=_say("Blocked until a person has looked at it", because), parked_by="rule")


def _vendor(tier1_verdict: str, incomplete: bool, because: str) -> Ruling:
    if tier1_verdict == "PASS" and not incomplete:
        return _approved(tier1_verdict, None, is_vendor=True)
    return _held("The scan of a trusted vendor's skill has concerns", because, "rule")


def _weigh(tier1_verdict: str, incomplete: bool, judged: Judged, because: str) -> Ruling:
    if judged is Judged.FAIL:
        return Ruling(State.REJECTED, reason=_say("Rejected by the judge", because))
    if judged is Judged.CONCERNS:
        return _held("The judge has concerns", because, "judge")
    if judged is Judged.UNDECIDED:
        return _held("The judge could not decide", because, "judge")
    if incomplete:
        return _held("Some content could not be scanned", because, "rule")
    if tier1_verdict == "CONCERNS" and judged is Judged.NONE:
        return _held("The scan has concerns and no judge is configured", because, "rule")
    return _approved(tier1_verdict, judged)


def _held(what: str, because: str, parked_by: str) -> Ruling:
    return Ruling(State.ON_HOLD, reason=_say(what, because), parked_by=parked_by)


def _say(what: str, because: str) -> str:
    """The cause first: in a list it is what distinguishes submissions."""
    return f"{because.rstrip('.')}. {what}." if because else f"{what}."


def _community_points(community: Community) -> int:
    return 5 * (
        (community.age > OLD_ENOUGH)
        + (community.installs > OFTEN_INSTALLED)
        + (not community.has_confirmed_report)
        + (not community.was_ever_blocked)
    )
