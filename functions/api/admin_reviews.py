"""Claims and notes of reviewers. Nothing here is shown to authors: claims keep reviewers out of each other's way, and
notes are theirs."""

from typing import Annotated

import msgspec

from functions.api.admin_schemas import WithReason
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.audit import MAX_REASON, VISIBLE
from shared.db import now
from shared.evidence.review_store import get_review
from shared.moderation import review_claims
from shared.records.review import ReviewClaim, ReviewNote
from shared.storage.secret_store import AdminToken
from shared.submissions.submission_store import get_submission


class ClaimRequest(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    take_over: bool = False


class NoteRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON, pattern=VISIBLE)]


class ReviewState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    claim: ReviewClaim | None  # null: not claimed
    notes: list[ReviewNote]
    more_notes: bool


class Released(msgspec.Struct, rename="camel"):
    id: str
    released: bool


@operation("Claim and notes of a submission", gives=ReviewState, role="reviewer", refuses=(404,))
async def show(request: Request) -> Answer:
    """For reviewers only: neither is shown to the author. The newest 50 notes; the audit log has all."""
    submission = await get_submission(request.path["id"])
    review = await get_review(submission.id)
    claim = review.claim if review.claim and review.claim.is_live(now()) else None
    return Answer(ReviewState(claim=claim, notes=list(review.notes), more_notes=review.more_notes))


@operation("Claim a submission for review", gives=ReviewClaim, role="reviewer", refuses=(404, 409))
async def claim(request: Request, body: ClaimRequest, by: AdminToken) -> Answer:
    """For 15 minutes; claim it again to extend that. Until then a decision by another reviewer is refused (409
    `claimed`, with the holder and the end of the claim). A decision ends the claim. `takeOver` takes it from another
    reviewer."""
    return Answer(await review_claims.claim_review(request.path["id"], by, body.reason, body.take_over))


@operation("Release a claim", gives=Released, role="reviewer", refuses=(404, 409))
async def release(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """409 `nothing_to_change` if it is not claimed, `claimed` if another reviewer holds it."""
    await review_claims.release_review(request.path["id"], by, body.reason)
    return Answer(Released(request.path["id"], True))


@operation("Add a note for reviewers", gives=ReviewNote, role="reviewer", refuses=(404,))
async def add_note(request: Request, body: NoteRequest, by: AdminToken) -> Answer:
    """Kept with the submission and in the audit log; never changed and never shown to the author."""
    return Answer(await review_claims.add_note(request.path["id"], by, body.text))


ROUTES = {
    "GET /api/v1/admin/submissions/{id}/review": show,
    "POST /api/v1/admin/submissions/{id}/claim": claim,
    "POST /api/v1/admin/submissions/{id}/release": release,
    "POST /api/v1/admin/submissions/{id}/notes": add_note,
}
