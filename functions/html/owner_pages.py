"""The page "My submissions": what belongs to the owner, and all that can be done about it, without JavaScript too."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from functions.html import owner_session
from functions.html.evidence import get_evidence
from functions.html.form_actions import Flash
from functions.html.owner_session import HOME, act_as_owner, owned_page, signed_in_owner
from functions.html.responses import page, url_with
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.cursor import make_cursor, read_cursor
from shared.access.owner_sessions import OwnerSession
from shared.access.owners import (
    count_owner_action,
    create_owner_token,
    get_owner_tokens,
    identify_owner,
    revoke_owner_token,
)
from shared.db import now
from shared.errors import InvalidRequest, RequestError
from shared.evidence.appeal_store import get_appeals
from shared.marketplace.owned import list_owned
from shared.marketplace.skill_store import get_versions
from shared.moderation import owner_decisions
from shared.moderation.appeals import MAX_POINTS, Objection, open_appeal
from shared.notifications.events import StoredEvent
from shared.notifications.targets import find_target, get_events_of_owner, remove_target, set_target
from shared.records.appeals import APPEALABLE, AppealState
from shared.records.submissions import State
from shared.settings import find_whole_number
from shared.storage.documents import stamp
from shared.submissions.submission_store import get_history
from shared.web import views
from shared.web.form_words import in_form_words

SHOWN = 50
DELIVERIES_SHOWN = 10  # and every dead end among the last 50
VERSION_VERBS = {"withdraw": owner_decisions.withdraw, "restore": owner_decisions.restore}
SKILL_VERBS: dict[str, Callable[..., Awaitable[Any]]] = {
    "rescan": owner_decisions.rescan_now,
    "undeprecate": owner_decisions.undeprecate,
}


async def show_mine(request: Request, session: OwnerSession, flash: Flash) -> Answer:
    bound_to = f"owned by {session.owner.repo}"
    after = await read_cursor(request.query.get("cursor"), bound_to)
    mine, tokens, target, events = await asyncio.gather(
        list_owned(session.owner, SHOWN, after),
        get_owner_tokens(session.owner),
        find_target(session.owner.repo_id),
        get_events_of_owner(session.owner, SHOWN),
    )
    skills = [each.skill for each in mine.owned if each.skill]
    versions = await asyncio.gather(*(get_versions(skill.name) for skill in skills))
    cursor = await make_cursor(mine.next_position, bound_to)
    return page(
        request,
        "owner.html",
        now(),
        flash.status,
        session=session,
        flash=flash,
        mine=mine,
        versions={skill.name: found for skill, found in zip(skills, versions, strict=True)},
        tokens=tokens,
        target=target,
        deliveries=_shown_deliveries(events),
        next_url=url_with(request, cursor=cursor) if cursor else None,
    )


async def show_submission(request: Request, session: OwnerSession, flash: Flash) -> Answer:
    """With the evidence, and the form of an appeal beside it."""
    record = await owner_decisions.get_owned_submission(request.path["id"], session.owner)
    at = now()
    history, appeals, (receipt, files) = await asyncio.gather(
        get_history(record.id), get_appeals(record.id), get_evidence(record)
    )
    shown = views.submission_view(record, history, at, None, receipt, files)
    is_open = any(appeal.state is AppealState.OPEN for appeal in appeals)
    findings = _distinct(receipt.report.findings) if receipt else []
    may_appeal = record.state in APPEALABLE and not is_open
    return page(
        request,
        "owner_submission.html",
        at,
        flash.status,
        session=session,
        flash=flash,
        submission=record,
        appeals=appeals,
        appealed=findings,
        may_appeal=may_appeal,
        is_live=shown["is_followed"] and not may_appeal,  # replacing the page would lose what is typed
        since=stamp(at),
        may_cancel=record.state is State.RECEIVED,
        may_reopen=record.state is State.DEQUEUED and history[-1].actor.startswith("owner:"),
        **shown,
    )


async def change_submission(request: Request) -> Answer:
    async def change(session: OwnerSession, form: dict[str, str]) -> str:
        verb, submission_id, why = form.get("action", ""), request.path["id"], form.get("why", "")
        if verb == "appeal":
            await open_appeal(submission_id, session.owner, _objections(form))
        elif verb == "cancel":
            await owner_decisions.cancel(submission_id, session.owner, why)
        elif verb == "reopen":
            await owner_decisions.reopen_cancelled(submission_id, session.owner, why, request.source_ip)
        else:
            raise _unknown(["appeal", "cancel", "reopen"])
        return verb

    return await act_as_owner(request, f"{HOME}/submissions/{request.path['id']}", show_submission, change)


async def change_skill(request: Request) -> Answer:
    async def change(session: OwnerSession, form: dict[str, str]) -> str:
        verb, name, why = form.get("action", ""), form.get("name", ""), form.get("why", "")
        if verb in VERSION_VERBS:
            await VERSION_VERBS[verb](name, session.owner, why, form.get("version") or None)
        elif verb == "deprecate":
            await owner_decisions.deprecate(name, session.owner, why, form.get("successor", "").strip() or None)
        elif verb == "transfer":
            to = (await identify_owner(form.get("targetToken", ""), request.source_ip)).owner
            await owner_decisions.transfer(name, session.owner, to, why)
        elif verb in SKILL_VERBS:
            await SKILL_VERBS[verb](name, session.owner, why)
        else:
            raise _unknown([*VERSION_VERBS, *SKILL_VERBS, "deprecate", "transfer"])
        return verb

    return await act_as_owner(request, HOME, show_mine, change)


async def change_tokens(request: Request) -> Answer:
    """A new token is shown on the page that answers, and never again."""

    async def revoke(session: OwnerSession, form: dict[str, str]) -> str:
        await revoke_owner_token(session.owner, form.get("id", ""))
        return "revoke"

    if request.form().get("action") == "revoke":
        return await act_as_owner(request, HOME, show_mine, revoke)
    session = await signed_in_owner(request)
    try:
        await count_owner_action(session.owner)
        issued = await create_owner_token(session.owner, request.form().get("label", ""))
    except RequestError as error:
        flash = Flash(problem=in_form_words(error), typed=request.form(), status=STATUS[type(error)])
        return await show_mine(request, session, flash)
    return await show_mine(request, session, Flash(done="Token created.", secret=issued.secret))


async def change_webhook(request: Request) -> Answer:
    """The secret of a new one is shown on the page that answers, and never again."""

    async def remove(session: OwnerSession, form: dict[str, str]) -> str:
        await remove_target(session.owner)
        return "webhook-removed"

    form = request.form()
    if form.get("action") == "remove":
        return await act_as_owner(request, HOME, show_mine, remove)
    session = await signed_in_owner(request)
    try:
        await count_owner_action(session.owner)
        _, secret = await set_target(session.owner, form.get("url", ""))
    except RequestError as error:
        flash = Flash(problems={"url": in_form_words(error)}, typed=form, status=STATUS[type(error)])
        return await show_mine(request, session, flash)
    return await show_mine(request, session, Flash(done="Webhook set.", webhook_secret=secret))


ROUTES: dict[str, Route] = {
    "GET /owner": owned_page(show_mine, "cursor"),
    "GET /owner/submissions/{id}": owned_page(show_submission),
    "POST /owner/challenge": owner_session.open_challenge,
    "POST /owner/prove": owner_session.prove,
    "POST /owner/device": owner_session.open_device,
    "POST /owner/device/prove": owner_session.prove_by_device,
    "POST /owner/sign-in": owner_session.sign_in,
    "POST /owner/sign-out": owner_session.sign_out,
    "POST /owner/submissions/{id}": change_submission,
    "POST /owner/skills": change_skill,
    "POST /owner/tokens": change_tokens,
    "POST /owner/webhook": change_webhook,
}


def _objections(form: dict[str, str]) -> list[Objection]:
    """`why-{rule}@{line}@{path}` for each finding, and `why` against the decision itself."""
    typed = [(name.split("@", 2), text) for name, text in form.items() if name.count("@") > 1 and text.strip()]
    found = [
        Objection(text, rule.removeprefix("why-"), path, find_whole_number(line) or 0)
        for (rule, line, path), text in typed
    ]
    return [*found, *([Objection(form["why"])] if form.get("why", "").strip() else [])]


def _shown_deliveries(events: list[StoredEvent]) -> list[StoredEvent]:
    return [event for place, event in enumerate(events) if place < DELIVERIES_SHOWN or event.failed_at]


def _distinct(findings: Any) -> list[Any]:
    """Each rule once per line."""
    places = {(finding.rule, finding.path, finding.line): finding for finding in reversed(findings)}
    return list(places.values())[::-1][: MAX_POINTS - 1]


def _unknown(known: list[str]) -> InvalidRequest:
    return InvalidRequest(f"`action` must be one of {', '.join(known)}.", code="invalid_action")
