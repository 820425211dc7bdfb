"""The admin pages: review, queue, access, audit log. Every action is a function of shared.moderation."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from functions.html import admin_skill_sections, audit_page
from functions.html.admin_session import Flash, act, files_in, section, section_page, sign_in, sign_out, signed_in
from functions.html.evidence import get_evidence
from functions.html.file_pages import show_submission_files
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.auth import get_tokens, token_id
from shared.access.cursor import make_cursor, read_cursor
from shared.access.sessions import Session
from shared.db import now
from shared.errors import InvalidRequest, NotFound, RequestError, Unavailable
from shared.evidence.appeal_store import AppealPage, get_appeals, list_open_appeals
from shared.marketplace.community import ReportPage, list_reports
from shared.moderation import appeals, maintenance, submission_decisions
from shared.moderation.recount import Progress
from shared.records.submissions import PARKED_STATES, State
from shared.settings import find_whole_number
from shared.submissions import data_version
from shared.submissions.counters import get_hours
from shared.submissions.dead_letter_store import get_dead_letters
from shared.submissions.pause import find_pause
from shared.submissions.queue_health import github_warnings
from shared.submissions.repo_watch import SweepStatus, get_sweep_status
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.submissions.submission_store import (
    Stuck,
    get_history,
    get_oldest_active,
    get_stuck_submissions,
    get_submission,
)
from shared.web import charts, views

REVIEWED = tuple(state for state in State if state in PARKED_STATES)
VERBS = {
    "approve": submission_decisions.approve,
    "reject": submission_decisions.reject,
    "block": submission_decisions.block,
    "unblock": submission_decisions.unblock,
    "requeue": submission_decisions.requeue,
    "dequeue": submission_decisions.dequeue,
}
SHOWN = 50


async def show_review(request: Request, session: Session, flash: Flash) -> Answer:
    """Submissions awaiting review with their evidence, and the health of the platform."""
    at = now()
    held = ListQuery(REVIEWED, by_update=True, descending=False, limit=SHOWN)
    listing, stuck_, letters, hours, oldest, (reports, opened) = await asyncio.gather(
        list_submissions(held), _stuck(at), get_dead_letters(), get_hours(at), get_oldest_active(), _reported()
    )
    chosen = request.path.get("id") or request.query.get("review") or (listing.rows[0].id if listing.rows else None)
    return await section_page(
        request,
        session,
        flash,
        "/admin",
        "admin_review.html",
        listing=listing,
        chosen=await _evidence(chosen, at),
        stuck=stuck_,
        letters=letters,
        reports=reports,
        appeals=opened,
        throughput=None if hours is None else charts.throughput(hours),
        oldest=charts.oldest({one.state: one.updated_at for one in reversed(oldest.submissions)}, at),
        warnings=[*await github_warnings(), *await data_version.get_warnings()],
    )


async def review(request: Request) -> Answer:
    async def decide(session: Session, form: dict[str, str]) -> str:
        verb = form.get("action", "")
        if verb not in VERBS:
            raise InvalidRequest(f"`action` must be one of {', '.join(VERBS)}.", code="invalid_action")
        files = {"files": files_in(form)} if verb == "block" else {}
        await VERBS[verb](
            request.path["id"], session.token, form.get("why", ""), find_whole_number(form.get("version")), **files
        )
        return verb

    return await act(request, "/admin", show_review, decide)


async def _find_sweep_status() -> SweepStatus | None:
    try:
        return await get_sweep_status()
    except Unavailable:
        return None


async def answer_appeal(request: Request) -> Answer:
    async def decide(session: Session, form: dict[str, str]) -> str:
        ticked = (name.removeprefix("overturned-") for name in form if name.startswith("overturned-"))
        overturned = [place for place in map(find_whole_number, ticked) if place is not None]
        await appeals.answer_appeal(
            request.path["id"], form.get("appeal", ""), session.token, overturned, form.get("why", "")
        )
        return "appeal"

    return await act(request, f"/admin?review={request.path['id']}", show_review, decide)


async def show_queue(request: Request, session: Session, flash: Flash, counting: Progress | None = None) -> Answer:
    stuck_, letters, sweep = await asyncio.gather(_stuck(now()), get_dead_letters(), _find_sweep_status())
    return await section_page(
        request,
        session,
        flash,
        "/admin/queue",
        "admin_queue.html",
        sweep=sweep,
        stuck=stuck_,
        letters=letters,
        counting=counting,
        cursor=await make_cursor(counting and counting.run_id, "recount"),
    )


async def stuck(request: Request) -> Answer:
    async def requeue(session: Session, form: dict[str, str]) -> str:
        if form.get("id"):
            await submission_decisions.rescue_stuck(form["id"], session.token, form.get("why", ""))
        else:
            await submission_decisions.rescue_all_stuck(session.token, form.get("why", ""))
        return "stuck"

    return await act(request, "/admin/queue", show_queue, requeue)


async def dead_letters(request: Request) -> Answer:
    async def resolve(session: Session, form: dict[str, str]) -> str:
        letter_id, why = form.get("id", ""), form.get("why", "")
        if form.get("action") == "discard":
            await submission_decisions.discard_dead_letter(letter_id, session.token, why)
            return "discard"
        if letter_id:
            await submission_decisions.retry_dead_letter(letter_id, session.token, why)
        else:
            portion = await submission_decisions.retry_dead_letters(form.get("reason", ""), session.token, why)
            return "retry-more" if portion.next_position else "retry-all"
        return "retry"

    return await act(request, "/admin/queue", show_queue, resolve)


async def pause(request: Request) -> Answer:
    async def switch(session: Session, form: dict[str, str]) -> str:
        if form.get("action") == "resume":
            await submission_decisions.resume(session.token, form.get("why", ""))
            return "resume"
        await submission_decisions.pause(session.token, form.get("why", ""), _hours(form.get("hours", "1")))
        return "pause"

    return await act(request, "/admin/queue", show_queue, switch)


async def recount(request: Request) -> Answer:
    """Each request counts a batch and shows the progress, then the drift. Repairing is a separate action."""

    async def repair(session: Session, form: dict[str, str]) -> str:
        run_id = await read_cursor(form.get("cursor") or None, "recount")
        progress = await maintenance.repair_counters(session.token, form.get("why", ""), run_id)
        return "repair" if progress.recount else "repair-later"

    if request.form().get("action") == "repair":
        return await act(request, "/admin/queue", show_queue, repair)
    session = await signed_in(request)
    try:
        run_id = await read_cursor(request.form().get("cursor") or None, "recount")
        progress = await maintenance.recount(session.token, run_id)
    except RequestError as error:
        return await show_queue(request, session, Flash(problem=str(error), status=STATUS[type(error)]))
    return await show_queue(request, session, Flash(), progress)


async def show_access(request: Request, session: Session, flash: Flash) -> Answer:
    """Only admins see the tokens."""
    is_admin = session.token.role == "admin"
    tokens = [
        views.TokenView(token_id(token), token.name, token.role, token.sha256 == session.token.sha256, revoked)
        for token, revoked in (await get_tokens() if is_admin else [])
    ]
    return await section_page(request, session, flash, "/admin/access", "admin_access.html", tokens=tokens)


async def revoke(request: Request) -> Answer:
    async def end(session: Session, form: dict[str, str]) -> str:
        await maintenance.revoke_token(form.get("id", ""), session.token, form.get("why", ""))
        return "revoke"

    return await act(request, "/admin/access", show_access, end)


ROUTES = {
    "GET /admin": section(show_review, "review"),
    "GET /admin/files/{proxy+}": section(show_submission_files, "page", "as"),
    "GET /admin/queue": section(show_queue),
    "GET /admin/skills": section(admin_skill_sections.show_skills, "name"),
    "GET /admin/blocklist": section(admin_skill_sections.show_blocklist),
    "GET /admin/access": section(show_access),
    "GET /admin/audit": section(audit_page.show_audit, *audit_page.PARAMETERS),
    "POST /admin/sign-in": sign_in,
    "POST /admin/sign-out": sign_out,
    "POST /admin/review/{id}": review,
    "POST /admin/appeals/{id}": answer_appeal,
    "POST /admin/stuck": stuck,
    "POST /admin/dead-letters": dead_letters,
    "POST /admin/pause": pause,
    "POST /admin/recount": recount,
    "POST /admin/skills": admin_skill_sections.change_skill,
    "POST /admin/reports": admin_skill_sections.resolve_report,
    "POST /admin/blocklist": admin_skill_sections.change_blocklist,
    "POST /admin/tokens": revoke,
}


async def _stuck(at: datetime) -> Stuck:
    pause_ = await find_pause()
    return await get_stuck_submissions(at, paused=pause_ is not None, limit=SHOWN)


async def _reported() -> tuple[ReportPage, AppealPage]:
    """What readers and owners wrote."""
    return await asyncio.gather(list_reports(SHOWN), list_open_appeals(SHOWN))


async def _evidence(submission_id: str | None, at: datetime) -> Any:
    if submission_id is None:
        return None
    try:
        record, history, appealed = await asyncio.gather(
            get_submission(submission_id), get_history(submission_id), get_appeals(submission_id)
        )
    except NotFound:
        return None
    receipt, files = await get_evidence(record)
    shown = views.submission_view(record, history, at, None, receipt, files)
    return {"submission": record, "role": submission_decisions.role_for(record), "appeals": appealed, **shown}


def _hours(text: str) -> timedelta:
    hours = find_whole_number(text, highest=999)
    if hours is None:
        raise InvalidRequest("Enter the number of hours as a whole number.", code="invalid_hours")
    return timedelta(hours=hours)
