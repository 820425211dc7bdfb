"""Moderation of submissions and the queue. Each route declares the minimum role; overriding earlier decisions may
require a higher one, which shared/moderation checks. Every action requires a reason and leaves an audit entry."""

from collections.abc import Awaitable, Callable

from functions.api.admin_schemas import (
    BlockDecision,
    Decision,
    Discarded,
    LetterList,
    PageQuery,
    PauseRequest,
    PauseState,
    Rescued,
    RetriedPage,
    RetryAll,
    RetryDeadLetters,
    StuckList,
    StuckRow,
    WithReason,
    letter_of,
)
from functions.http.answer import Answer
from functions.http.operations import Operation, operation
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.db import now
from shared.moderation import submission_decisions
from shared.records.submissions import Submission, SubmissionRow, rescue_of, row_of
from shared.storage.secret_store import AdminToken
from shared.submissions.dead_letter_store import get_dead_letters
from shared.submissions.pause import find_pause
from shared.submissions.queue_health import QueueStatus, get_queue_status
from shared.submissions.submission_store import get_stuck_submissions
from shared.timing import scaled
from shared.verification.recovery import RecoveryReport

# --- stuck submissions ----------------------------------------------------------------------------------------------


@operation("Stuck submissions, and what the stuck scan would do with each", gives=StuckList, role="reviewer")
async def list_stuck(request: Request) -> Answer:
    at = now()
    pause = await find_pause()
    stuck = await get_stuck_submissions(at, paused=pause is not None)
    rows = [StuckRow(row_of(s), s.attempts, rescue_of(s, at)) for s in stuck.submissions]
    return Answer(StuckList(rows, len(rows), stuck.failed, stuck.more, pause))


@operation("Recover all stuck submissions now", gives=RecoveryReport, role="admin")
async def requeue_all_stuck(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """Runs the scheduled stuck scan at once."""
    return Answer(await submission_decisions.rescue_all_stuck(by, body.reason))


@operation("Recover one stuck submission now", gives=Rescued, role="admin", refuses=(404,))
async def requeue_stuck(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """`done` is the action taken, the same as the stuck scan's; `leave` if it is not stuck."""
    return Answer(
        Rescued(request.path["id"], await submission_decisions.rescue_stuck(request.path["id"], by, body.reason))
    )


# --- submissions ----------------------------------------------------------------------------------------------------


def _decision(summary: str, decide: Callable[..., Awaitable[Submission]], role: str, details: str) -> Operation:
    async def run(request: Request, body: Decision, by: AdminToken) -> Answer:
        return Answer(row_of(await decide(request.path["id"], by, body.reason, body.seen)))

    run.__doc__ = details
    return operation(summary, gives=SubmissionRow, role=role, refuses=(403, 404, 409))(run)


OF_REVIEWERS = (
    "Reviewers decide what is ON_HOLD, RESCAN_REQUIRED or BLOCKED by a rule; the rest requires an admin (403)."
    " 409 `illegal_move` if its state does not allow the action."
)
approve = _decision(
    "Approve and publish from the stored files, as CERTIFIED",
    submission_decisions.approve,
    "reviewer",
    f"{OF_REVIEWERS} 409 `blocklisted` while a blocklist entry matches it.",
)
reject = _decision("Reject, with a reason shown to the author", submission_decisions.reject, "reviewer", OF_REVIEWERS)
retry = _decision(
    "Restart verification with a full set of attempts", submission_decisions.requeue, "reviewer", OF_REVIEWERS
)


@operation(
    "Block: remove from the marketplace and add to the blocklist",
    gives=SubmissionRow,
    role="admin",
    refuses=(403, 404, 409),
)
async def block(request: Request, body: BlockDecision, by: AdminToken) -> Answer:
    """Adds entries for its name in its source and for its content, which catches copies. Content that another skill
    published here first stays allowed: block that skill too if the content itself is harmful. `files` are the paths of
    the files that the block rests on: a near copy with one of them is refused, and one without it gets a review."""
    blocked = submission_decisions.block(request.path["id"], by, body.reason, body.seen, body.files)
    return Answer(row_of(await blocked))


unblock = _decision(
    "Unblock and verify again",
    submission_decisions.unblock,
    "admin",
    "Removes the entries that its block added. 409 `blocklisted` while another entry matches it.",
)
dequeue = _decision("Remove from the queue", submission_decisions.dequeue, "admin", "Only an admin can reopen it.")


@operation("Retry all submissions in a state by the beginning of their reason", gives=RetriedPage, role="admin")
async def retry_all(request: Request, body: RetryAll, by: AdminToken) -> Answer:
    """One page: checks 500 and retries at most 100 of them, oldest first. Continue with `cursor` until it is null."""
    return await _retried(
        f"retry {body.state} {body.reason_prefix}",
        body.cursor,
        lambda after: submission_decisions.requeue_all(body.state, body.reason_prefix, by, body.reason, after),
    )


async def _retried(
    filter_: str, cursor: str | None, retry_page: Callable[[str | None], Awaitable[submission_decisions.Retried]]
) -> Answer:
    page = await retry_page(await read_cursor(cursor, filter_))
    next_ = await make_cursor(page.next_position, filter_)
    return Answer(RetriedPage(page.retried, page.failed, page.left, page.more, next_))


# --- dead letters and the queue -------------------------------------------------------------------------------------


@operation("Messages that could not be processed, newest first", gives=LetterList, role="reviewer")
async def list_dead_letters(request: Request, query: PageQuery) -> Answer:
    before = await read_cursor(query.cursor, "dead letters")
    page = await get_dead_letters(query.limit, before)
    cursor = await make_cursor(page.next_position, "dead letters")
    return Answer(LetterList([letter_of(letter) for letter in page.letters], cursor, page.failed))


@operation("Retry the submission of a dead letter", gives=SubmissionRow, role="reviewer", refuses=(403, 404, 409))
async def retry_dead_letter(request: Request, body: WithReason, by: AdminToken) -> Answer:
    return Answer(row_of(await submission_decisions.retry_dead_letter(request.path["id"], by, body.reason)))


@operation("Retry all dead letters with the same reason", gives=RetriedPage, role="admin")
async def retry_dead_letters(request: Request, body: RetryDeadLetters, by: AdminToken) -> Answer:
    """One page: checks 500 and retries at most 100 of them, newest first. Continue with `cursor` until it is null."""
    return await _retried(
        f"retry dead letters {body.letter_reason}",
        body.cursor,
        lambda after: submission_decisions.retry_dead_letters(body.letter_reason, by, body.reason, after),
    )


@operation("Discard a dead letter", gives=Discarded, role="admin", refuses=(404,))
async def discard_dead_letter(request: Request, body: WithReason, by: AdminToken) -> Answer:
    await submission_decisions.discard_dead_letter(request.path["id"], by, body.reason)
    return Answer(Discarded(request.path["id"], True))


@operation("Queue status", gives=QueueStatus, role="reviewer")
async def queue_status(request: Request) -> Answer:
    return Answer(await get_queue_status())


@operation("Pause the queue", gives=PauseState, role="admin")
async def pause(request: Request, body: PauseRequest, by: AdminToken) -> Answer:
    """Nothing new is started; waiting submissions keep their place. Every pause ends on its own."""
    return Answer(PauseState(await submission_decisions.pause(by, body.reason, scaled(minutes=body.minutes))))


@operation("Resume the queue", gives=PauseState, role="admin")
async def resume(request: Request, body: WithReason, by: AdminToken) -> Answer:
    await submission_decisions.resume(by, body.reason)
    return Answer(PauseState(None))


ROUTES = {
    "GET /api/v1/admin/stuck": list_stuck,
    "POST /api/v1/admin/stuck/requeue": requeue_all_stuck,
    "POST /api/v1/admin/stuck/{id}/requeue": requeue_stuck,
    "POST /api/v1/admin/submissions/retry-all": retry_all,
    "POST /api/v1/admin/submissions/{id}/approve": approve,
    "POST /api/v1/admin/submissions/{id}/reject": reject,
    "POST /api/v1/admin/submissions/{id}/retry": retry,
    "POST /api/v1/admin/submissions/{id}/block": block,
    "POST /api/v1/admin/submissions/{id}/unblock": unblock,
    "POST /api/v1/admin/submissions/{id}/dequeue": dequeue,
    "GET /api/v1/admin/dead-letters": list_dead_letters,
    "POST /api/v1/admin/dead-letters/retry-all": retry_dead_letters,
    "POST /api/v1/admin/dead-letters/{id}/retry": retry_dead_letter,
    "POST /api/v1/admin/dead-letters/{id}/discard": discard_dead_letter,
    "GET /api/v1/admin/queue": queue_status,
    "POST /api/v1/admin/queue/pause": pause,
    "POST /api/v1/admin/queue/resume": resume,
}
