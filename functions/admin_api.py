"""What operators do, behind a bearer token."""

from functions.http import Answer, Request, http_handler
from shared.auth import authorize
from shared.db import now
from shared.pause import find_pause
from shared.recovery import recover_stuck
from shared.submission_store import get_stuck_submissions, row_of
from shared.submissions import rescue_of


async def list_stuck(request: Request) -> Answer:
    await authorize(request.headers.get("authorization"), "reviewer")
    request.allow_query()
    pause = await find_pause()
    stuck = await get_stuck_submissions(now(), paused=pause is not None)
    rows = [{"submission": row_of(s), "attempts": s.attempts, "next": rescue_of(s, now())} for s in stuck.submissions]
    return Answer({"stuck": rows, "count": len(rows), "unreadable": stuck.failed, "more": stuck.more, "paused": pause})


async def requeue_stuck(request: Request) -> Answer:
    await authorize(request.headers.get("authorization"), "admin")
    request.allow_query()
    return Answer(await recover_stuck())


ROUTES = {
    "GET /api/v1/admin/stuck": list_stuck,
    "POST /api/v1/admin/stuck/requeue": requeue_stuck,
}
handler = http_handler(ROUTES)
