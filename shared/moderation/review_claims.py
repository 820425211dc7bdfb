"""What reviewers do before they decide: claim a submission, so that no one else decides it, and write notes.

A decision is refused while another reviewer holds the claim. It checks and ends the claim in its own transaction, so a
claim that is made at the same moment is either seen or comes too late.
"""

from shared.access.audit import MAX_REASON, audit_put, plain_line, reason_of
from shared.access.auth import require_role
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, InvalidRequest
from shared.evidence.review_store import claim_check, claim_deletion, claim_put, find_claim, note_put
from shared.records.review import ReviewClaim, ReviewNote
from shared.records.submissions import PARKED_STATES
from shared.storage.kv import Write
from shared.storage.secret_store import AdminToken
from shared.submissions.submission_store import get_submission
from shared.timing import REVIEW_CLAIM_TIME


async def claim_review(submission_id: str, by: AdminToken, why: str, take_over: bool = False) -> ReviewClaim:
    """Again by its holder: from now on. `take_over`: also if another reviewer holds it."""
    require_role(by, "reviewer")
    reason = reason_of(why)
    submission = await get_submission(submission_id)
    if submission.state not in PARKED_STATES:
        raise Conflict("It is not waiting for a decision, so it cannot be claimed.", code="illegal_move")
    before, at = await find_claim(submission.id), now()
    is_taken = before is not None and before.is_of_another(by.name, at)
    if before and is_taken and not take_over:
        raise _claimed(before)
    claim = ReviewClaim(submission_id=submission.id, by=by.name, since=at, until=at + REVIEW_CLAIM_TIME)
    action = "take over claim" if is_taken else "claim"
    await _write(claim_put(claim, before), audit_put(by, action, submission.id, reason))
    return claim


async def release_review(submission_id: str, by: AdminToken, why: str) -> None:
    require_role(by, "reviewer")
    reason = reason_of(why)
    submission = await get_submission(submission_id)
    claim = await find_claim(submission.id)
    if claim is None or not claim.is_live(now()):
        raise Conflict("It is not claimed.", code="nothing_to_change")
    if claim.by != by.name:
        raise _claimed(claim)
    await _write(claim_deletion(claim), audit_put(by, "release claim", submission.id, reason))


async def add_note(submission_id: str, by: AdminToken, text: str) -> ReviewNote:
    """The audit log has it too."""
    require_role(by, "reviewer")
    line = plain_line(text)
    if not 1 <= len(line) <= MAX_REASON:
        raise InvalidRequest(f"A note has 1 to {MAX_REASON} characters.", code="invalid_note")
    submission = await get_submission(submission_id)
    note = ReviewNote(at=now(), by=by.name, text=line)
    await _write(note_put(submission.id, note), audit_put(by, "note", submission.id, line))
    return note


async def claim_guard(submission_id: str, by: AdminToken, ends: bool = True) -> Write:
    """For the transaction of a decision. `ends`: the claim is over with it."""
    claim = await find_claim(submission_id)
    if claim and claim.is_of_another(by.name, now()):
        raise _claimed(claim)
    return claim_deletion(claim) if claim and ends else claim_check(submission_id, claim)


def _claimed(claim: ReviewClaim) -> Conflict:
    message = f"{claim.by} has claimed this submission until {claim.until:%H:%M} UTC. Take over the claim to decide."
    return Conflict(message, code="claimed", details={"by": claim.by, "until": claim.until.isoformat()})


async def _write(*writes: Write) -> None:
    try:
        await get_kv().transact(lambda: writes)
    except ConditionFailed as error:
        raise Conflict("Another reviewer has just changed the claim. Reload the page.", "changed_meanwhile") from error
