"""Sessions of owners: a proof or a token signs them in, with an HttpOnly cookie and a CSRF token on every form."""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from functions.html.form_actions import Flash, run_action
from functions.html.responses import cookie, page, reject_cross_site_form, see_other
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access import device_proofs, owners
from shared.access.limits import take_from_limit
from shared.access.owner_sessions import OwnerSession, find_owner_session, open_owner_session
from shared.access.owners import OwnerToken
from shared.access.sessions import OWNER, SESSION_TTL, check_csrf_token, end_session
from shared.db import get_settings, now
from shared.errors import RequestError, Unauthorized
from shared.submissions.skill_source import parse_repo_url
from shared.web.form_words import in_form_words

COOKIE = "owner-session"
HOME = "/owner"
LABEL = "Browser session"
_OWN_PAGE = re.compile(r"/owner/submissions/sub_[a-z0-9]{26}")
DONE = {
    "cancel": "Cancelled. You can reopen it.",
    "reopen": "Reopened. It is waiting for a worker again.",
    "appeal": "Appeal sent. A reviewer will answer it here.",
    "rescan": "Rescanned under the current rules.",
    "withdraw": "Withdrawn. It can no longer be installed.",
    "restore": "Restored.",
    "deprecate": "Deprecated. Clients show your sentence.",
    "undeprecate": "No longer deprecated.",
    "transfer": "Transferred. Submit the other repository to publish new versions.",
    "revoke": "Token revoked. Its sessions have ended.",
    "webhook-removed": "Webhook removed. Nothing more is sent to it.",
}
T = TypeVar("T")
ShowOwned = Callable[[Request, OwnerSession, Flash], Awaitable[Answer]]
OwnerAction = Callable[[OwnerSession, dict[str, str]], Awaitable[str]]


def owned_page(show: ShowOwned, *query: str) -> Route:
    """The page for a signed-in owner, the sign-in page for everyone else."""

    async def open_(request: Request) -> Answer:
        request.allow_query("done", *query)
        session = await find_owner_session(request.cookies.get(COOKIE))
        if session is None:
            return sign_in_page(request)
        return await show(request, session, Flash(done=DONE.get(request.query.get("done", ""))))

    return open_


async def act_as_owner(request: Request, path: str, show: ShowOwned, action: OwnerAction) -> Answer:
    async def counted(session: OwnerSession, form: dict[str, str]) -> str:
        await owners.count_owner_action(session.owner)
        return await action(session, form)

    return await run_action(request, await signed_in_owner(request), path, show, counted)


async def signed_in_owner(request: Request) -> OwnerSession:
    session = await find_owner_session(request.cookies.get(COOKIE))
    if session is None:
        raise Unauthorized("Your session has expired. Prove the repository again, or sign in with an owner token.")
    await check_csrf_token(request.cookies.get(COOKIE), request.form().get("csrf_token"), OWNER)
    return session


async def open_challenge(request: Request) -> Answer:
    return await _opened(request, owners.open_challenge, _challenge_page)


async def open_device(request: Request) -> Answer:
    """The other button of the same form: sign in with GitHub."""
    return await _opened(request, device_proofs.open_device, _device_page)


async def prove(request: Request) -> Answer:
    reject_cross_site_form(request)
    challenge_id = request.form().get("challengeId", "")
    challenge = await owners.find_challenge(challenge_id)
    try:
        await take_from_limit("proofs", request.source_ip)
        issued = await owners.prove(challenge_id, LABEL, is_session=True)
    except RequestError as error:
        status = STATUS[type(error)]
        if challenge is None:
            return sign_in_page(request, {"repoUrl": in_form_words(error)}, status=status)
        return _challenge_page(request, owners.OpenedChallenge(challenge_id, challenge), in_form_words(error), status)
    return await _signed_in(request, issued.token)


async def prove_by_device(request: Request) -> Answer:
    reject_cross_site_form(request)
    device_id = request.form().get("deviceId", "")
    try:
        proven = await device_proofs.prove_by_device(device_id, LABEL, is_session=True)
    except RequestError as error:
        device, status = await device_proofs.find_device(device_id), STATUS[type(error)]
        if device is None:  # used up: only a new start helps
            return sign_in_page(request, {"repoUrl": in_form_words(error)}, status=status)
        return _device_page(request, device_proofs.OpenedDevice(device_id, device), in_form_words(error), status)
    if isinstance(proven, device_proofs.Device):
        opened = device_proofs.OpenedDevice(device_id, proven)
        return _device_page(request, opened, "The code has not been entered on GitHub yet.")
    return await _signed_in(request, proven.token)


async def sign_in(request: Request) -> Answer:
    """With a token from an earlier proof."""
    reject_cross_site_form(request)
    try:
        token = await owners.identify_owner(request.form().get("token", ""), request.source_ip)
    except RequestError as error:
        return sign_in_page(request, {"token": in_form_words(error)}, status=STATUS[type(error)])
    return await _signed_in(request, token)


async def sign_out(request: Request) -> Answer:
    session = await signed_in_owner(request)
    await end_session(request.cookies[COOKIE], session.expires_at)
    return see_other(HOME, cookie(request, COOKIE, "", 0, HOME))


def sign_in_page(
    request: Request, problems: dict[str, str] | None = None, typed: dict[str, str] | None = None, status: int = 200
) -> Answer:
    shown = {"problems": problems or {}, "typed": typed or {}, "by_github": bool(get_settings().github_client_id)}
    shown["then"] = _then(request)
    return page(request, "owner_sign_in.html", now(), status, **shown)


async def _opened(
    request: Request, open_: Callable[[str, str], Awaitable[T]], show: Callable[[Request, T], Answer]
) -> Answer:
    reject_cross_site_form(request)
    typed = request.form()
    try:
        await take_from_limit("proofs", request.source_ip)
        repo = parse_repo_url(typed.get("repoUrl", ""), get_settings().github_host)
        opened = await open_(repo.owner, repo.name)
    except RequestError as error:
        return sign_in_page(request, {"repoUrl": in_form_words(error)}, typed, STATUS[type(error)])
    return show(request, opened)


def _challenge_page(
    request: Request, opened: owners.OpenedChallenge, problem: str | None = None, status: int = 200
) -> Answer:
    shown = {"challenge": opened.challenge, "challenge_id": opened.id, "proof_path": owners.PROOF_PATH}
    return page(request, "owner_challenge.html", now(), status, problem=problem, then=_then(request), **shown)


def _device_page(
    request: Request, opened: device_proofs.OpenedDevice, problem: str | None = None, status: int = 200
) -> Answer:
    shown = {"device": opened.device, "device_id": opened.id}
    return page(request, "owner_device.html", now(), status, problem=problem, then=_then(request), **shown)


async def _signed_in(request: Request, token: OwnerToken) -> Answer:
    session = await open_owner_session(token)
    return see_other(_then(request), cookie(request, COOKIE, session, int(SESSION_TTL.total_seconds()), HOME))


def _then(request: Request) -> str:
    """The page that asked to sign in: a submission of the owner, or all of them."""
    wanted = request.form().get("then", "") if request.method == "POST" else request.url_path
    return wanted if _OWN_PAGE.fullmatch(wanted) else HOME
