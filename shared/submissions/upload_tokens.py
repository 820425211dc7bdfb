"""The token of an upload: who has it may submit new content under its name. It is derived, never stored: only its hash
is, and a number that rises when it is replaced."""

from datetime import datetime, timedelta

from shared.access.signing import is_same, sign
from shared.errors import Conflict, Forbidden, LostLease, NotFound
from shared.records.submissions import ACTIVE_STATES, State, Submission, move, token_hash
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import commit, get_last_entry, get_submission, touch_submission

ABANDONED_AFTER = timedelta(days=7)
UPLOADER = "uploader"
CANCELLED = "Cancelled by its uploader."


async def upload_token_of(submission_id: str, number: int = 0) -> str:
    return await sign("upload", f"{submission_id} {number}" if number else submission_id)


async def next_upload_token(submission: Submission) -> tuple[str, dict[str, str | int]]:
    """Another token, and what the record must say for it. The one before is invalid then."""
    number = submission.upload_token_number + 1
    token = await upload_token_of(submission.id, number)
    return token, {"upload_token_number": number, "upload_token_hash": token_hash(token)}


async def rotate_upload_token(submission_id: str, token: str) -> str:
    submission = await _get_upload(submission_id, token)
    rotated, set_ = await next_upload_token(submission)
    try:
        await touch_submission(submission, **set_)
    except LostLease as error:
        raise Conflict("It has just changed. Try again.", code="changed_meanwhile") from error
    return rotated


async def cancel_upload(submission_id: str, token: str) -> Submission:
    """Only while it waits: what a worker has claimed is decided. Uploading it again with its token takes it back."""
    submission = await _get_upload(submission_id, token)
    if submission.state != State.RECEIVED:
        raise Conflict("Only a submission that waits for a worker can be cancelled.", code="illegal_move")
    return await commit(lambda at: move(submission, State.DEQUEUED, UPLOADER, at, CANCELLED))


async def was_cancelled_by_uploader(submission: Submission) -> bool:
    return submission.state == State.DEQUEUED and (await get_last_entry(submission)).actor == UPLOADER


async def _get_upload(submission_id: str, token: str) -> Submission:
    submission = await get_submission(submission_id)
    if submission.source != UPLOADS:
        raise NotFound("This submission is not an upload: it has no upload token.")
    require_upload_token(submission, token)
    return submission


def require_upload_token(submission: Submission, token: str | None) -> None:
    """A missing token and a wrong one are different errors: the first may be a new author who chose a taken name."""
    if not token:
        raise Conflict(
            f"The name {submission.skill_name!r}, or one that looks like it, is taken by another upload."
            " Choose another name, or send the `uploadToken` from the response to its first submission.",
            code="name_taken",
        )
    if not is_current_token(submission, token):
        raise Forbidden(
            f"This is not the upload token of {submission.skill_name!r}. It may have been replaced by a newer one.",
            code="wrong_upload_token",
        )


def is_current_token(submission: Submission, token: str) -> bool:
    return is_same(submission.upload_token_hash or "", token_hash(token))


def is_abandoned(submission: Submission, at: datetime) -> bool:
    """A name that was never published is not kept for ever for one who does nothing with it."""
    is_idle = submission.state not in ACTIVE_STATES and at - submission.updated_at >= ABANDONED_AFTER
    return is_idle and submission.published_version is None
