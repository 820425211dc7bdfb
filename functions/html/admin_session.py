"""Admin sessions: sign-in with a token, an HttpOnly session cookie, a CSRF token on every form.

Every section is a page under /admin. A failed action shows its error above the panels and keeps the input.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

from functions.html.form_actions import Flash as Flash
from functions.html.form_actions import run_action
from functions.html.responses import cookie, page, see_other
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.audit import get_audit
from shared.access.sessions import (
    SESSION_TTL,
    Session,
    check_csrf_token,
    csrf_token_of,
    end_session,
    find_session,
    open_session,
)
from shared.db import now
from shared.errors import TooManyRequests, Unauthorized
from shared.records.submissions import is_id
from shared.submissions.pause import find_pause
from shared.submissions.submission_store import get_submissions_fresh
from shared.web.form_words import in_form_words

SESSION = "session"
SIGN_IN = "sign-in"  # a short-lived cookie that the CSRF token of the sign-in form is bound to
SIGN_IN_TTL = timedelta(minutes=30)
SECTIONS = {
    "/admin": "Review",
    "/admin/queue": "Queue",
    "/admin/skills": "Skills",
    "/admin/blocklist": "Blocklist",
    "/admin/access": "Access",
    "/admin/audit": "Audit log",
}
DONE = {
    "approve": "Approved. The stored files are being published.",
    "reject": "Rejected. The author can see your reason.",
    "block": "Blocked.",
    "unblock": "Unblocked.",
    "requeue": "Requeued.",
    "dequeue": "Removed from the queue.",
    "claim": "Claimed. No one else can decide on it until your claim ends.",
    "take-over": "You took over the claim.",
    "release": "Claim released.",
    "note": "Note added. Only reviewers see it.",
    "stuck": "Stuck submissions requeued.",
    "retry": "Submission requeued.",
    "retry-all": "Submissions requeued.",
    "retry-more": "The first batch was requeued. Retry again for the rest.",
    "discard": "Message discarded.",
    "pause": "Queue paused.",
    "resume": "Queue resumed.",
    "repair": "Counters repaired.",
    "repair-later": "Nothing changed: the recount has not read every record yet. Finish it first.",
    "block-skill": "Blocked and removed from the marketplace.",
    "unblock-skill": "Unblocked.",
    "rescan-skill": "Rescanned with the current rules.",
    "delete-skill": "Deleted. Its name cannot be reused.",
    "yank-skill": "Version yanked.",
    "unyank-skill": "Version unyanked.",
    "confirm-report": "Report confirmed. It lowers the trust score until it is resolved.",
    "appeal": "Appeal answered. The owner sees your answer.",
    "settle": "Report resolved. It no longer lowers the trust score.",
    "list": "Added to the blocklist and removed from the marketplace.",
    "unlist": "Removed from the blocklist. Skills it blocked stay blocked until an admin unblocks them.",
    "revoke": "Token revoked. Its sessions have ended.",
}
AUDIT_PREVIEW = 8  # entries below every section; /admin/audit has more


Show = Callable[[Request, Session, Flash], Awaitable[Answer]]
FormAction = Callable[[Session, dict[str, str]], Awaitable[str]]  # returns a key of DONE


def section(show: Show, *query: str) -> Route:
    """The section for a signed-in user, the sign-in page for everyone else."""

    async def open_(request: Request) -> Answer:
        request.allow_query("done", *query)
        session = await find_session(request.cookies.get(SESSION))
        if session is None:
            return await _sign_in_page(request)
        return await show(request, session, Flash(done=DONE.get(request.query.get("done", ""))))

    return open_


async def act(request: Request, path: str, show: Show, action: FormAction) -> Answer:
    """Redirects to the section when done; renders the section with the error otherwise."""
    return await run_action(request, await signed_in(request), path, show, action)


async def section_page(
    request: Request,
    session: Session,
    flash: Flash,
    path: str,
    template: str,
    audited: int = AUDIT_PREVIEW,
    **shown: Any,
) -> Answer:
    pause, audit = await asyncio.gather(find_pause(), get_audit(audited))
    audit_names = await skill_names(entry.subject for entry in audit)
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
        audit_names=audit_names,
        **shown,
    )


async def skill_names(ids: Iterable[str]) -> dict[str, str]:
    """Of the submissions among these ids. One that cannot be read is shown by its id."""
    fresh = await get_submissions_fresh({one for one in ids if is_id(one)})
    return {submission.id: submission.skill_name for submission in fresh.submissions}


async def signed_in(request: Request) -> Session:
    """The session of a form. Requires a live session and the CSRF token of that session."""
    session = await find_session(request.cookies.get(SESSION))
    if session is None:
        raise Unauthorized("Your session has expired. Sign in again.")
    await check_csrf_token(request.cookies.get(SESSION), request.form().get("csrf_token"))
    return session


def files_in(form: dict[str, str]) -> list[str]:
    """The files a block rests on: one path on each line."""
    return [line.strip() for line in form.get("files", "").splitlines() if line.strip()]


async def sign_in(request: Request) -> Answer:
    form = request.form()
    await check_csrf_token(request.cookies.get(SIGN_IN), form.get("csrf_token"))
    try:
        session = await open_session(form.get("token", ""), request.source_ip)
    except (Unauthorized, TooManyRequests) as error:
        return await _sign_in_page(request, in_form_words(error), STATUS[type(error)])
    seconds = int(SESSION_TTL.total_seconds())
    return see_other("/admin", cookie(request, SESSION, session, seconds, "/admin"), _expired_cookie(request, SIGN_IN))


async def sign_out(request: Request) -> Answer:
    session = await signed_in(request)
    await end_session(request.cookies[SESSION], session.expires_at)
    return see_other("/admin", _expired_cookie(request, SESSION))


async def _sign_in_page(request: Request, problem: str | None = None, status: int = 200) -> Answer:
    nonce = secrets.token_urlsafe(24)
    answer = page(request, "sign_in.html", now(), status, problem=problem, csrf_token=await csrf_token_of(nonce))
    return answer._replace(
        cookies=(
            cookie(request, SIGN_IN, nonce, int(SIGN_IN_TTL.total_seconds()), "/admin"),
            _expired_cookie(request, SESSION),
        )
    )


def _expired_cookie(request: Request, name: str) -> str:
    return cookie(request, name, "", 0, "/admin")
