"""The admin panel: sign in with a token, decide with a reason. Every action is one of shared.admin's verbs."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from functions.evidence import get_evidence
from functions.http import STATUS, Answer, Request, http_handler
from functions.page_answers import cookie, explain, page, see_other
from shared import admin
from shared.audit import get_audit
from shared.db import now
from shared.dead_letter_store import get_dead_letters
from shared.errors import InvalidRequest, NotFound, RequestError, TooManyRequests, Unauthorized
from shared.pause import find_pause
from shared.sessions import SESSION_TTL, Session, check_form_word, find_session, form_word_of, open_session
from shared.stats import get_hours
from shared.submission_list import ListQuery, list_submissions
from shared.submission_store import get_history, get_stuck_submissions, get_submission
from shared.submissions import PARKED_STATES, State
from shared.waiting import get_oldest
from shared.web import charts, views

SESSION = "session"
SIGN_IN = "sign-in"  # a cookie for the time of signing in: the form's word is bound to it
SIGN_IN_TTL = timedelta(minutes=30)
REVIEWED = tuple(state for state in State if state in PARKED_STATES)
VERBS = {
    "approve": admin.approve,
    "reject": admin.reject,
    "block": admin.block,
    "requeue": admin.requeue,
    "dequeue": admin.dequeue,
}
DONE = {
    "approve": "Approved and published from the stored files.",
    "reject": "Rejected. Its author sees your reason.",
    "block": "Blocked.",
    "requeue": "Queued again.",
    "dequeue": "Taken out of the queue.",
    "stuck": "Sent again.",
    "retry": "Its submission starts again.",
    "discard": "Discarded.",
    "pause": "The queue is paused.",
    "resume": "The queue goes on.",
}

Action = Callable[[Session, dict[str, str]], Awaitable[str]]


async def panel(request: Request) -> Answer:
    request.allow_query("review", "done")
    session = await find_session(request.cookies.get(SESSION))
    if session is None:
        return await _sign_in_page(request)
    return await _panel_page(request, session, review=request.query.get("review"), done=request.query.get("done"))


async def sign_in(request: Request) -> Answer:
    form = request.form()
    await check_form_word(request.cookies.get(SIGN_IN), form.get("word"))
    try:
        session = await open_session(form.get("token", ""), request.source_ip)
    except (Unauthorized, TooManyRequests) as error:
        return await _sign_in_page(request, str(error), STATUS[type(error)])
    seconds = int(SESSION_TTL.total_seconds())
    return see_other("/admin", cookie(request, SESSION, session, seconds, "/admin"), _forget(request, SIGN_IN))


async def sign_out(request: Request) -> Answer:
    await _signed_in(request)
    return see_other("/admin", _forget(request, SESSION))


async def review(request: Request) -> Answer:
    submission_id = request.path["id"]

    async def decide(session: Session, form: dict[str, str]) -> str:
        verb = form.get("action", "")
        if verb not in VERBS:
            raise InvalidRequest(f"`action` must be one of {', '.join(VERBS)}.", code="invalid_action")
        await VERBS[verb](submission_id, session.token, form.get("why", ""), _version(form.get("version")))
        return verb

    return await _act(request, decide, submission_id)


async def stuck(request: Request) -> Answer:
    async def requeue(session: Session, form: dict[str, str]) -> str:
        if form.get("id"):
            await admin.rescue_stuck(form["id"], session.token, form.get("why", ""))
        else:
            await admin.rescue_all_stuck(session.token, form.get("why", ""))
        return "stuck"

    return await _act(request, requeue)


async def dead_letters(request: Request) -> Answer:
    async def settle(session: Session, form: dict[str, str]) -> str:
        letter_id, why = form.get("id", ""), form.get("why", "")
        if form.get("action") == "discard":
            await admin.discard_dead_letter(letter_id, session.token, why)
            return "discard"
        if letter_id:
            await admin.retry_dead_letter(letter_id, session.token, why)
        else:
            await admin.retry_dead_letters(form.get("reason", ""), session.token, why)
        return "retry"

    return await _act(request, settle)


async def pause(request: Request) -> Answer:
    async def switch(session: Session, form: dict[str, str]) -> str:
        if form.get("action") == "resume":
            await admin.resume(session.token, form.get("why", ""))
            return "resume"
        await admin.pause(session.token, form.get("why", ""), _hours(form.get("hours", "1")))
        return "pause"

    return await _act(request, switch)


async def recount(request: Request) -> Answer:
    session = await _signed_in(request)
    counted = await admin.recount(session.token)
    return await _panel_page(request, session, recount=counted)


ROUTES = {
    "GET /admin": panel,
    "POST /admin/sign-in": sign_in,
    "POST /admin/sign-out": sign_out,
    "POST /admin/review/{id}": review,
    "POST /admin/stuck": stuck,
    "POST /admin/dead-letters": dead_letters,
    "POST /admin/pause": pause,
    "POST /admin/recount": recount,
}
handler = http_handler(ROUTES, explain)


async def _signed_in(request: Request) -> Session:
    """Who sent this form: a live session, and the word that only a page of this session carries."""
    session = await find_session(request.cookies.get(SESSION))
    if session is None:
        raise Unauthorized("Your session is over. Sign in again.")
    await check_form_word(request.cookies.get(SESSION), request.form().get("word"))
    return session


async def _act(request: Request, action: Action, review: str | None = None) -> Answer:
    """What was refused shows above the panel, with what was typed still in its field."""
    session = await _signed_in(request)
    form = request.form()
    try:
        done = await action(session, form)
    except RequestError as error:
        status = STATUS[type(error)]
        return await _panel_page(request, session, review, problem=str(error), typed=form, status=status)
    return see_other(f"/admin?done={done}")


async def _sign_in_page(request: Request, problem: str | None = None, status: int = 200) -> Answer:
    nonce = secrets.token_urlsafe(24)
    answer = page(request, "sign_in.html", now(), status, problem=problem, word=await form_word_of(nonce))
    return answer._replace(
        cookies=(cookie(request, SIGN_IN, nonce, int(SIGN_IN_TTL.total_seconds()), "/admin"), _forget(request, SESSION))
    )


async def _panel_page(
    request: Request,
    session: Session,
    review: str | None = None,
    done: str | None = None,
    problem: str | None = None,
    typed: dict[str, str] | None = None,
    recount: admin.Recount | None = None,
    status: int = 200,
) -> Answer:
    at = now()
    held = ListQuery(REVIEWED, by_update=True, descending=False, limit=50)
    pause_ = await find_pause()
    listing, stuck_, letters, hours, oldest, audit = await asyncio.gather(
        list_submissions(held),
        get_stuck_submissions(at, paused=pause_ is not None, limit=50),
        get_dead_letters(),
        get_hours(at),
        get_oldest(),
        get_audit(),
    )
    chosen = review or (listing.rows[0].id if listing.rows else None)
    return page(
        request,
        "admin.html",
        at,
        status,
        session=session,
        is_admin=session.token.role == "admin",
        listing=listing,
        chosen=await _evidence(chosen, at),
        stuck=stuck_,
        letters=letters,
        pause=pause_,
        throughput=None if hours is None else charts.throughput(hours),
        oldest=charts.oldest(oldest, at),
        audit=audit,
        recount=recount,
        done=DONE.get(done or ""),
        problem=problem,
        typed=typed or {},
    )


async def _evidence(submission_id: str | None, at: Any) -> Any:
    if submission_id is None:
        return None
    try:
        record, history = await asyncio.gather(get_submission(submission_id), get_history(submission_id))
    except NotFound:
        return None
    receipt, files = await get_evidence(record)
    shown = views.submission_view(record, history, at, None, receipt, files)
    return {"submission": record, "role": admin.role_for(record), **shown}


def _version(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _hours(text: str) -> timedelta:
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise InvalidRequest("Say for how many hours, as a whole number.", code="invalid_hours")
    return timedelta(hours=int(text))


def _forget(request: Request, name: str) -> str:
    return cookie(request, name, "", 0, "/admin")
