"""The outcome table of the domain, row by row, and what a skill earns by it."""

from datetime import timedelta
from itertools import product

import pytest

from shared.records.decision import (
    CertTier,
    Community,
    Judged,
    TrustTier,
    certification,
    decide,
    is_vendor,
    judged_by_score,
    needs_judge,
    trust,
)
from shared.records.submissions import LEGAL_MOVES, State

J, S, C = Judged, State, CertTier
APPROVED = S.AUTO_APPROVED

#   tier 1      certain  incomplete  vendor  judge        state            certification
TABLE = [
    ("PASS", False, False, False, J.PASS, APPROVED, C.VERIFIED),
    ("PASS", False, False, False, J.CONCERNS, S.ON_HOLD, None),
    ("PASS", False, False, False, J.FAIL, S.REJECTED, None),
    ("PASS", False, False, False, J.NONE, APPROVED, C.SCANNED),
    ("PASS", False, False, False, J.UNDECIDED, S.ON_HOLD, None),
    ("CONCERNS", False, False, False, J.PASS, APPROVED, C.SCANNED),
    ("CONCERNS", False, False, False, J.CONCERNS, S.ON_HOLD, None),
    ("CONCERNS", False, False, False, J.FAIL, S.REJECTED, None),
    ("CONCERNS", False, False, False, J.NONE, S.ON_HOLD, None),
    ("CONCERNS", False, False, False, J.UNDECIDED, S.ON_HOLD, None),
    ("CONCERNS", False, True, False, J.PASS, S.ON_HOLD, None),
    ("CONCERNS", False, True, False, J.CONCERNS, S.ON_HOLD, None),
    ("CONCERNS", False, True, False, J.FAIL, S.REJECTED, None),
    ("CONCERNS", False, True, False, J.NONE, S.ON_HOLD, None),
    ("CONCERNS", False, True, False, J.UNDECIDED, S.ON_HOLD, None),
    ("FAIL", True, False, False, None, S.TIER1_FAILED, None),
    ("FAIL", False, False, False, None, S.BLOCKED, None),
    ("FAIL", True, True, False, None, S.TIER1_FAILED, None),
    ("FAIL", False, True, False, None, S.BLOCKED, None),
    ("PASS", False, False, True, None, APPROVED, C.CERTIFIED),
    ("CONCERNS", False, False, True, None, S.ON_HOLD, None),
    ("CONCERNS", False, True, True, None, S.ON_HOLD, None),
    ("FAIL", True, False, True, None, S.TIER1_FAILED, None),
    ("FAIL", False, False, True, None, S.BLOCKED, None),
]


@pytest.mark.parametrize(("verdict", "certain", "incomplete", "vendor", "judged", "state", "tier"), TABLE)
def test_the_outcome_table(verdict, certain, incomplete, vendor, judged, state, tier):
    outcome = decide(verdict, certain, incomplete, judged, vendor, clearance_covers=False, because="it says why")
    assert (outcome.state, outcome.cert_tier) == (state, tier)
    assert needs_judge(verdict, vendor, clearance_covers=False) is (judged is not None)
    if state is APPROVED:
        assert outcome.publish_as is (S.VENDOR_APPROVED if vendor else S.PUBLISHED)
        assert outcome.publish_as in LEGAL_MOVES[APPROVED]
    else:
        assert outcome.reason.startswith("it says why. ")
        assert "rate" not in outcome.reason
    assert state in LEGAL_MOVES[S.TIER1_SCANNING]
    assert (outcome.parked_by is not None) is (state in (S.ON_HOLD, S.BLOCKED))


def test_nothing_but_a_clearance_gets_past_a_block_rule_or_an_incomplete_scan():
    """Also where the table has no row: whatever the judge says, and for any owner."""
    for verdict, certain, incomplete, vendor, judged in product(
        ("PASS", "CONCERNS", "FAIL"), (False, True), (False, True), (False, True), Judged
    ):
        outcome = decide(verdict, certain, incomplete, judged, vendor, clearance_covers=False)
        if verdict == "FAIL" or incomplete:
            assert outcome.state is not APPROVED, (verdict, certain, incomplete, vendor, judged)
        cleared = decide(verdict, certain, incomplete, None, vendor, clearance_covers=True)
        assert cleared == (APPROVED, C.CERTIFIED, None, None, S.PUBLISHED)


def test_an_unknown_verdict_or_a_missing_judgement_never_decides():
    with pytest.raises(ValueError, match="no verdict"):
        decide("pass", False, False, J.PASS, False, False)
    with pytest.raises(ValueError, match="no judgement"):
        decide("PASS", False, False, None, False, False)


@pytest.mark.parametrize(
    ("score", "judged"), [(100, J.PASS), (80, J.PASS), (79, J.CONCERNS), (40, J.CONCERNS), (39, J.FAIL), (0, J.FAIL)]
)
def test_a_score_has_one_meaning(score, judged):
    assert judged_by_score(score) is judged


def test_a_vendor_is_a_login_and_a_number_at_the_head_of_the_default_branch():
    vendors = {("acme", 12)}
    assert is_vendor("Acme", 12, None, vendors)
    assert not is_vendor("Acme", 13, None, vendors)  # the name was taken over
    assert not is_vendor("other", 12, None, vendors)
    assert not is_vendor("Acme", 12, "v1.0", vendors)


def test_certification_is_what_the_evidence_carries():
    assert certification("PASS", J.NONE) is C.SCANNED
    assert certification("PASS", J.PASS) is C.VERIFIED
    assert certification("CONCERNS", J.PASS) is C.SCANNED
    assert certification("CONCERNS", None, is_approved_by_person=True) is C.CERTIFIED
    assert certification("PASS", None, is_vendor=True) is C.CERTIFIED


YOUNG = Community()
ESTABLISHED = Community(age=timedelta(days=91), installs=101)
SUSPECT = Community(has_confirmed_report=True, was_ever_blocked=True)


@pytest.mark.parametrize(
    ("earned", "score", "tier"),
    [
        ((None, None, False, SUSPECT), 0, TrustTier.T1),
        ((None, None, True, ESTABLISHED), 40, TrustTier.T1),
        (("CONCERNS", None, False, SUSPECT), 15, TrustTier.T1),
        (("CONCERNS", None, False, YOUNG), 25, TrustTier.T1),
        (("PASS", None, False, SUSPECT), 30, TrustTier.T2),
        (("PASS", None, True, ESTABLISHED), 70, TrustTier.T2),
        (("PASS", 79, True, ESTABLISHED), 94, TrustTier.T2),
        (("PASS", 80, True, SUSPECT), 74, TrustTier.T3),
        (("PASS", 100, True, ESTABLISHED), 100, TrustTier.T3),
        (("PASS", 100, True, ESTABLISHED, True), 100, TrustTier.T4),
        (("PASS", 100, False, ESTABLISHED, True), 80, TrustTier.T3),
        (("CONCERNS", 80, True, YOUNG, True), 69, TrustTier.T3),
        (("PASS", 100, True, ESTABLISHED, True, True), None, TrustTier.T0),
    ],
)
def test_trust_adds_up(earned, score, tier):
    assert trust(*earned) == (score, tier)
