"""Admin sections of the marketplace: skills, reports about them, the blocklist."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from functions.html.admin_session import Flash, act, files_in, section_page
from functions.html.skill_pages import get_version_views
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.sessions import Session
from shared.db import now
from shared.errors import Conflict, InvalidRequest, NotFound
from shared.evidence.blocklist import SEVERITIES, BlockEntry, list_blocks
from shared.marketplace.community import list_reports
from shared.marketplace.skill_store import get_skill_with_counts
from shared.moderation import skill_decisions, submission_decisions
from shared.web import skill_views
from shared.web.version_views import VersionView

REPORTS = 50
SKILL_VERBS: dict[str, Callable[..., Awaitable[Any]]] = {
    "block": skill_decisions.block_skill,
    "unblock": skill_decisions.unblock_skill,
    "rescan": submission_decisions.rescan_skill,
    "delete": skill_decisions.delete_skill,
}
VERSION_VERBS = {"yank": skill_decisions.yank, "unyank": skill_decisions.unyank}


async def show_skills(request: Request, session: Session, flash: Flash) -> Answer:
    """One skill by name with its actions, and the open reports."""
    name = (request.query.get("name") or flash.typed.get("name", "")).strip()
    chosen, reports = await asyncio.gather(_find(name), list_reports(REPORTS))
    return await section_page(
        request, session, flash, "/admin/skills", "admin_skills.html", name=name, chosen=chosen, reports=reports
    )


async def change_skill(request: Request) -> Answer:
    async def change(session: Session, form: dict[str, str]) -> str:
        verb, name, why = form.get("action", ""), form.get("name", ""), form.get("why", "")
        if verb in VERSION_VERBS:
            await VERSION_VERBS[verb](name, form.get("version", ""), session.token, why)
        elif verb in SKILL_VERBS:
            files = {"files": files_in(form)} if verb == "block" else {}
            await SKILL_VERBS[verb](name, session.token, why, **files)
        else:
            known = ", ".join([*SKILL_VERBS, *VERSION_VERBS])
            raise InvalidRequest(f"`action` must be one of {known}.", code="invalid_action")
        return f"{verb}-skill"

    back = f"/admin/skills?{urlencode({'name': request.form().get('name', '')})}"
    return await act(request, back, show_skills, change)


async def resolve_report(request: Request) -> Answer:
    async def resolve(session: Session, form: dict[str, str]) -> str:
        if form.get("action") == "confirm":
            await skill_decisions.confirm_report(form.get("id", ""), session.token, form.get("why", ""))
            return "confirm-report"
        await skill_decisions.resolve_report(form.get("id", ""), session.token, form.get("why", ""))
        return "settle"

    return await act(request, "/admin/skills", show_skills, resolve)


async def show_blocklist(request: Request, session: Session, flash: Flash) -> Answer:
    entries, failed = await list_blocks()
    newest_first = sorted(entries, key=lambda entry: entry.discovered_at, reverse=True)
    return await section_page(
        request,
        session,
        flash,
        "/admin/blocklist",
        "admin_blocklist.html",
        entries=newest_first,
        failed=failed,
        severities=SEVERITIES,
    )


async def change_blocklist(request: Request) -> Answer:
    async def change(session: Session, form: dict[str, str]) -> str:
        if form.get("action") == "remove":
            await skill_decisions.remove_from_blocklist(form.get("id", ""), session.token, form.get("why", ""))
            return "unlist"
        added = await skill_decisions.add_to_blocklist(_entry(form), session.token, form.get("why", ""))
        if added.failed:
            left = ", ".join(added.failed)
            raise Conflict(
                f"The entry was added, but some skills could not be removed from the marketplace: {left}."
                " Add the entry again to retry them."
            )
        return "list"

    return await act(request, "/admin/blocklist", show_blocklist, change)


class Chosen(NamedTuple):
    """The selected skill, or the problem: no skill or several with this name."""

    problem: str | None = None
    candidates: Sequence[str] = ()
    skill: skill_views.SkillView | None = None
    versions: Sequence[VersionView] = ()
    open_reports: int | None = None


async def _find(name: str) -> Chosen | None:
    if not name:
        return None
    try:
        skill, counts = await get_skill_with_counts(name)
    except (NotFound, Conflict) as error:
        return Chosen(str(error), (error.details or {}).get("candidates", ()))
    versions = await get_version_views(skill)
    shown = skill_views.skill_view(skill, counts, now())
    return Chosen(skill=shown, versions=versions, open_reports=counts.open_reports if counts else None)


def _entry(form: dict[str, str]) -> BlockEntry:
    given = {name: form.get(name, "").strip() or None for name in ("skillName", "sourceUrl", "contentHash")}
    severity = form.get("severity", "high")
    if given["skillName"] is None:
        raise InvalidRequest("Enter the name of the skill.", code="invalid_skill_name")
    if severity not in SEVERITIES:
        raise InvalidRequest(f"`severity` must be one of {', '.join(SEVERITIES)}.", code="invalid_severity")
    name, source, content_hash = skill_decisions.scoped(
        given["skillName"], given["sourceUrl"], given["contentHash"], form.get("global") == "yes"
    )
    return BlockEntry(
        skill_name=name,
        source_url=source,
        content_hash=content_hash,
        severity=severity,
        reason=" ".join(form.get("why", "").split()),
        discovered_at=now(),
    )
