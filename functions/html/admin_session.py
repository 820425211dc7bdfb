"""The door of the admin pages: sign in with a token, a session no script can read, a word on every form.

Every section is a page of its own under /admin. What was refused is told above it, with what was typed in its field.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from functions.html.page_answers import cookie, page, see_other
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.audit import get_audit
from shared.access.sessions import SESSION_TTL, Session, check_csrf_token, csrf_token_of, find_session, open_session
from shared.db import now
from shared.errors import RequestError, TooManyRequests, Unauthorized
from shared.submissions.pause import find_pause

SESSION = "session"
SIGN_IN = "sign-in"  # a cookie for the time of signing in: the form's word is bound to it
SIGN_IN_TTL = timedelta(minutes=30)
SECTIONS = {
    "/admin": "Review",
    "/admin/queue": "Queue",
    "/admin/skills": "Skills",
    "/admin/blocklist": "Blocklist",
    "/admin/access": "Access",
    "/admin/audit": "Audit",
}
DONE = {
    "approve": "Approved and published from the stored files.",
    "reject": "Rejected. Its author sees your reason.",
    "block": "Blocked.",
    "unblock": "The block is lifted.",
    "requeue": "Queued again.",
    "dequeue": "Taken out of the queue.",
    "stuck": "Sent again.",
    "retry": "Its submission starts again.",
    "retry-all": "Their submissions start again.",
    "retry-more": "As many as go at once start again. Others are left: retry them too.",
    "discard": "Discarded.",
    "pause": "The queue is paused.",
    "resume": "The queue goes on.",
    "repair": "The counters are set right.",
    "repair-later": "Not every record is read yet, so nothing was changed. Count the records first.",
    "block-skill": "Blocked. It is out of the marketplace.",
    "unblock-skill": "The block is lifted.",
    "rescan-skill": "Scanned again under the rules of today.",
    "delete-skill": "Deleted. Its name is never used again.",
    "yank-skill": "This version is withdrawn.",
    "unyank-skill": "This version is back.",
    "settle": "Settled. The report no longer costs the skill any trust.",
    "list": "It is on the blocklist, and out of the marketplace.",
    "unlist": "It is off the blocklist. What was blocked stays blocked until somebody lifts that.",
    "revoke": "Revoked. Its sessions are over.",
}
AUDIT_BELOW = 8  # entries under every section; /admin/audit has more


class Flash(NamedTuple):
    """What a section says above its panels."""

    done: str | None = None
    problem: str | None = None
    typed: Mapping[str, str] = {}
    status: int = 200


Show = Callable[[Request, Session, Flash], Awaitable[Answer]]
Action = Callable[[Session, dict[str, str]], Awaitable[str]]  # returns a key of DONE


def section(show: Show, *query: str) -> Route:
    """A page for whoever is signed in; the door for everybody else."""

    async def open_(request: Request) -> Answer:
        request.allow_query("done", *query)
        session = await find_session(request.cookies.get(SESSION))
        if session is None:
            return await _sign_in_page(request)
        return await show(request, session, Flash(done=DONE.get(request.query.get("done", ""))))

    return open_


async def act(request: Request, path: str, show: Show, action: Action) -> Answer:
    """What is done shows on the section's page; what was refused on the same page, at once."""
    session = await signed_in(request)
    form = request.form()
    try:
        done = await action(session, form)
    except RequestError as error:
        flash = Flash(problem=str(error), typed=form, status=STATUS[type(error)])
        return await show(request, session, flash)
    return see_other(f"{path}{'&' if '?' in path else '?'}done={done}")


async def section_page(
    request: Request, session: Session, flash: Flash, path: str, template: str, audited: int = AUDIT_BELOW, **shown: Any
) -> Answer:
    pause, audit = await asyncio.gather(find_pause(), get_audit(audited))
    return page(
        request,
        template,
        now(),
        flash.status,
        session=session,
        is_admin=session.token.role == "admin",
        sections=SECTIONS,
        section=path,
        flash=flash,
        pause=pause,
        audit=audit,
        **shown,
    )


async def signed_in(request: Request) -> Session:
    """Who sent this form: a live session, and the word that only a page of this session carries."""
    session = await find_session(request.cookies.get(SESSION))
    if session is None:
        raise Unauthorized("Your session is over. Sign in again.")
    await check_csrf_token(request.cookies.get(SESSION), request.form().get("csrf_token"))
    return session


async def sign_in(request: Request) -> Answer:
    form = request.form()
    await check_csrf_token(request.cookies.get(SIGN_IN), form.get("csrf_token"))
    try:
        session = await open_session(form.get("token", ""), request.source_ip)
    except (Unauthorized, TooManyRequests) as error:
        return await _sign_in_page(request, str(error), STATUS[type(error)])
    seconds = int(SESSION_TTL.total_seconds())
    return see_other("/admin", cookie(request, SESSION, session, seconds, "/admin"), _forget(request, SIGN_IN))


async def sign_out(request: Request) -> Answer:
    await signed_in(request)
    return see_other("/admin", _forget(request, SESSION))


async def _sign_in_page(request: Request, problem: str | None = None, status: int = 200) -> Answer:
    nonce = secrets.token_urlsafe(24)
    answer = page(request, "sign_in.html", now(), status, problem=problem, csrf_token=await csrf_token_of(nonce))
    return answer._replace(
        cookies=(cookie(request, SIGN_IN, nonce, int(SIGN_IN_TTL.total_seconds()), "/admin"), _forget(request, SESSION))
    )


def _forget(request: Request, name: str) -> str:
    return cookie(request, name, "", 0, "/admin")
