"""External scans in one line: requested, claimed, reported."""

from shared.marketplace.external_scan_dispatch import claim_scan, dispatch_external_scans
from shared.marketplace.external_scan_store import get_security
from shared.records.external_scans import ExternalFinding, ExternalOutcome, ExternalVerdict
from shared.records.submissions import State
from shared.submissions.submission_store import get_submission
from shared.verification.external_scan_results import report_result
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within

NAME = "uploads/anonymous/greeter"
CLEAN = ExternalOutcome(status="COMPLETED", verdict=ExternalVerdict.PASS, score=97)
CRITICAL = ExternalOutcome(
    status="COMPLETED",
    verdict=ExternalVerdict.FAIL,
    score=20,
    critical_count=1,
    findings=(ExternalFinding("low", "Odd."), ExternalFinding("critical", "Runs what it is given.", "run.py", 3)),
)


async def published(env, name="greeter", **files):
    """A published skill with a scan requested of every scanner."""
    submission = await submitted(env, a_bundle(name, **files))
    await processed(env, submission)
    submission = await within(env, lambda: get_submission(submission.id))
    assert submission.state == State.PUBLISHED
    await requested(env, submission.skill_name, submission.content_hash)
    return submission


async def requested(env, name=NAME, content_hash="hash-1", scanners=("bandit", "other")):
    await within(env, lambda: dispatch_external_scans(name, content_hash, scanners))


def claim(env, provider="bandit"):
    return within(env, lambda: claim_scan(provider))


def report(env, scan, outcome=CLEAN, **other):
    named = {"claim_id": scan.claim_id, "content_hash": scan.content_hash} | other
    return within(env, lambda: report_result(scan.provider, scan.skill_name, outcome=outcome, **named))


async def security(env, name=NAME):
    return await within(env, lambda: get_security(name))


async def status(env, provider="bandit", name=NAME):
    return next(p.status for p in (await security(env, name)).providers if p.provider == provider)
