"""The admin pages: the queue, access, the routes of all sections. Every action is a function of shared.moderation."""

import asyncio
from datetime import timedelta

from functions.html import admin_skill_sections, audit_page, review_page
from functions.html.admin_session import Flash, act, section, section_page, sign_in, sign_out, signed_in, skill_names
from functions.html.file_pages import show_submission_files
from functions.html.review_page import stuck_now
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.auth import get_tokens, token_id
from shared.access.cursor import make_cursor, read_cursor
from shared.access.sessions import Session
from shared.db import now
from shared.errors import InvalidRequest, RequestError, Unavailable
from shared.moderation import maintenance, submission_decisions
from shared.moderation.recount import Progress
from shared.settings import find_whole_number
from shared.submissions.dead_letter_store import get_dead_letters
from shared.submissions.repo_watch import SweepStatus, get_sweep_status
from shared.web import views
from shared.web.form_words import in_form_words


async def _find_sweep_status() -> SweepStatus | None:
    try:
        return await get_sweep_status()
    except Unavailable:
        return None


async def show_queue(request: Request, session: Session, flash: Flash, counting: Progress | None = None) -> Answer:
    stuck_, letters, sweep = await asyncio.gather(stuck_now(now()), get_dead_letters(), _find_sweep_status())
    return await section_page(
        request,
        session,
        flash,
        "/admin/queue",
        "admin_queue.html",
        sweep=sweep,
        stuck=stuck_,
        letters=letters,
        names=await skill_names(letter.submission_id or "" for letter in letters.letters),
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
        return await show_queue(request, session, Flash(problem=in_form_words(error), status=STATUS[type(error)]))
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
    "GET /admin": section(review_page.show_review, "review", "file", "page"),
    "GET /admin/files/{proxy+}": section(show_submission_files, "page", "as"),
    "GET /admin/queue": section(show_queue),
    "GET /admin/skills": section(admin_skill_sections.show_skills, "name"),
    "GET /admin/blocklist": section(admin_skill_sections.show_blocklist),
    "GET /admin/access": section(show_access),
    "GET /admin/audit": section(audit_page.show_audit, *audit_page.PARAMETERS),
    "POST /admin/sign-in": sign_in,
    "POST /admin/sign-out": sign_out,
    "POST /admin/review/{id}": review_page.review,
    "POST /admin/requeue": review_page.requeue_several,
    "POST /admin/appeals/{id}": review_page.answer_appeal,
    "POST /admin/stuck": stuck,
    "POST /admin/dead-letters": dead_letters,
    "POST /admin/pause": pause,
    "POST /admin/recount": recount,
    "POST /admin/skills": admin_skill_sections.change_skill,
    "POST /admin/reports": admin_skill_sections.resolve_report,
    "POST /admin/blocklist": admin_skill_sections.change_blocklist,
    "POST /admin/tokens": revoke,
}


def _hours(text: str) -> timedelta:
    hours = find_whole_number(text, highest=999)
    if hours is None:
        raise InvalidRequest("Enter the number of hours as a whole number.", code="invalid_hours")
    return timedelta(hours=hours)
