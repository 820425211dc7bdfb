"""What operators do, behind a bearer token. Each route declares the role it needs."""

from datetime import datetime

import msgspec

from functions.http import Answer, Request, http_handler
from functions.operations import operation
from shared.db import now
from shared.pause import Pause, find_pause
from shared.recovery import RecoveryReport, recover_stuck
from shared.submission_store import SubmissionRow, get_stuck_submissions, row_of
from shared.submissions import rescue_of


class StuckRow(msgspec.Struct, rename="camel"):
    submission: SubmissionRow
    attempts: int
    next: str


class StuckList(msgspec.Struct, rename="camel"):
    stuck: list[StuckRow]
    count: int
    unreadable: list[str]
    more: bool
    paused: Pause | None


@operation("Stuck submissions, and what the scan would do with each", gives=StuckList, role="reviewer")
async def list_stuck(request: Request) -> Answer:
    at: datetime = now()
    pause = await find_pause()
    stuck = await get_stuck_submissions(at, paused=pause is not None)
    rows = [StuckRow(row_of(s), s.attempts, rescue_of(s, at)) for s in stuck.submissions]
    return Answer(StuckList(rows, len(rows), stuck.failed, stuck.more, pause))


@operation("Recover everything that is stuck, now", gives=RecoveryReport, role="admin")
async def requeue_stuck(request: Request) -> Answer:
    return Answer(await recover_stuck())


ROUTES = {
    "GET /api/v1/admin/stuck": list_stuck,
    "POST /api/v1/admin/stuck/requeue": requeue_stuck,
}
handler = http_handler(ROUTES)
