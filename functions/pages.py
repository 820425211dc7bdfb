"""What people see: server-rendered, complete without JavaScript, from the same store code as the API."""

import asyncio
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from functions import submit_page
from functions.evidence import get_evidence
from functions.http import Answer, Request, Route, http_handler, wrong_method
from functions.list_query import filter_of, read_list_query
from functions.operations import operation
from functions.page_answers import THEMES, cookie, explain, page, see_other
from shared.cursor import make_cursor, read_cursor
from shared.db import get_content, now
from shared.diffs import diff_files, summary_of
from shared.documents import stamp
from shared.errors import InvalidRequest, NotFound, Unavailable
from shared.external_scan_store import get_security
from shared.pause import find_pause
from shared.repo_health_store import find_repo_health
from shared.skill_search import get_published_skills_list
from shared.skill_store import get_skill, get_versions
from shared.stats import Hour, get_hours, get_stats
from shared.submission_list import ListQuery, list_submissions
from shared.submission_store import get_history, get_submission
from shared.submissions import State, Submission
from shared.waiting import Waiting, get_waiting
from shared.web import charts, views
from shared.web.assets import find_asset
from shared.web.skill_text import render_skill_md

ROWS = 50
SKILLS = 30
A_YEAR = 365 * 24 * 3600


async def home(request: Request) -> Answer:
    request.allow_query()
    stats, newest = await asyncio.gather(get_stats(), get_published_skills_list(6))
    held = None if stats.blocked is None or stats.on_hold is None else stats.blocked + stats.on_hold
    degraded = stats.degraded or bool(newest.failed)
    return page(request, "home.html", now(), stats=stats, held=held, skills=newest.skills, degraded=degraded)


async def queue(request: Request) -> Answer:
    """Two storage round trips, however many submissions there are: all that needs no other answer goes first."""
    request.allow_query("state", "sort", "sortDir", "cursor")
    query = read_list_query(request, ROWS)
    after = await read_cursor(request.query.get("cursor"), filter_of(query))
    at = now()
    listing, hours, waiting, pause = await asyncio.gather(
        list_submissions(query._replace(after=after)), get_hours(at), _waiting(query), find_pause()
    )
    cursor = await make_cursor(listing.next_position, filter_of(query))
    selected = request.query.get("state", "total")
    return page(
        request,
        "queue.html",
        at,
        since=stamp(at),
        degraded=listing.degraded or hours is None,
        pause=pause,
        selected=selected,
        figures=views.figures(listing.stats),
        sparks=charts.sparks(hours),
        searchable=False,
        q=None,
        summary=views.summary(listing, selected, is_later_page=after is not None),
        rows=listing.rows,
        stale=set(listing.stale),
        unreadable=False,
        places=views.places(listing.rows, waiting, hours, None if pause is None else pause.until, at),
        by_update=query.by_update,
        newest_first=query.descending,
        sort_url=_url("/queue", request, sortDir="asc" if query.descending else "desc", cursor=None),
        age_title="Since its last change" if query.by_update else "Since it was submitted",
        is_later_page=after is not None,
        first_url=_url("/queue", request, cursor=None),
        next_url=_url("/queue", request, cursor=cursor) if cursor else None,
        limit=ROWS,
    )


async def submission(request: Request) -> Answer:
    request.allow_query()
    submission_id = request.path["id"]
    at = now()
    record, history = await asyncio.gather(get_submission(submission_id), get_history(submission_id))
    (waiting, hours), pause, (receipt, files) = await asyncio.gather(
        _line_of(record, at), find_pause(), get_evidence(record)
    )
    places = views.places([record], waiting, hours, None if pause is None else pause.until, at)
    shown = views.submission_view(record, history, at, places.get(record.id), receipt, files)
    return page(request, "submission.html", at, since=stamp(at), submission=record, pause=pause, **shown)


async def skills(request: Request) -> Answer:
    request.allow_query("cursor")
    after = await read_cursor(request.query.get("cursor"), "skills")
    found = await get_published_skills_list(SKILLS, after)
    cursor = await make_cursor(found.next_position, "skills")
    return page(
        request,
        "skills.html",
        now(),
        skills=[views.skill_view(skill, now()) for skill in found.skills],
        degraded=bool(found.failed),
        searchable=False,
        q=None,
        summary=views.skills_summary(len(found.skills), has_more=cursor is not None, is_later_page=after is not None),
        is_later_page=after is not None,
        next_url=_url("/skills", request, cursor=cursor) if cursor else None,
        limit=SKILLS,
    )


async def skill(request: Request) -> Answer:
    request.allow_query("from", "to")
    name = request.path["proxy"]
    found = await get_skill(name)
    if name != found.name:
        return see_other(f"/skills/{found.name}")  # a short name leads to the full one
    versions, security, health, document, diff = await asyncio.gather(
        get_versions(found.name),
        get_security(found.name),
        find_repo_health((found.repo_url or "").lower()),
        _document(found.content_hash),
        _diff(found.name, request.query.get("from"), request.query.get("to")),
    )
    return page(
        request,
        "skill.html",
        now(),
        skill=views.skill_view(found, now()),
        versions=views.version_views(versions, found.current_version),
        security=security,
        health=health,
        document=document,
        diff=diff,
        has_badge=False,
        badge="",
    )


async def set_theme(request: Request) -> Answer:
    """For browsers without JavaScript; harmless from anywhere, so it needs no form word."""
    form = request.form()
    theme, back = form.get("theme"), form.get("back", "/")
    if theme not in THEMES:
        raise InvalidRequest(f"`theme` must be one of {', '.join(THEMES)}.", code="invalid_theme")
    return see_other(_local_path(back), cookie(request, "theme", theme, A_YEAR, hidden=False))


async def asset(request: Request) -> Answer:
    found = find_asset(request.path["name"])
    if found is None:
        raise NotFound("There is no such file.")
    file, is_exact = found
    caching = f"public, max-age={A_YEAR}, immutable" if is_exact else "no-cache"
    return Answer(file.content, headers={"content-type": file.media_type, "cache-control": caching})


@operation("This contract, as OpenAPI 3.1", gives=dict, cached=True)
async def openapi(request: Request) -> Answer:
    from functions.openapi import contract_text  # here: it loads every function that answers under /api/

    headers = {"content-type": "application/json; charset=utf-8"}
    return Answer(contract_text(), headers=headers, cache="public, max-age=300")


async def docs(request: Request) -> Answer:
    from functions.docs_page import show  # here: it loads every function that answers under /api/

    return await show(request)


async def no_such_route(request: Request) -> Answer:
    from functions.addresses import methods_at  # here: it loads every function that has addresses

    allowed = methods_at(request.url_path)
    if allowed:
        raise wrong_method(request.method, allowed)
    raise NotFound("There is nothing at this address.")


ROUTES: dict[str, Route] = {
    "GET /": home,
    "GET /queue": queue,
    "GET /submit": submit_page.show,
    "POST /submit": submit_page.submit,
    "GET /submissions/{id}": submission,
    "GET /skills": skills,
    "GET /skills/{proxy+}": skill,
    "POST /theme": set_theme,
    "GET /assets/{name}": asset,
    "GET /docs": docs,
    "GET /api/v1/openapi.json": openapi,
    "$default": no_such_route,
}
handler = http_handler(ROUTES, explain)


async def _line_of(record: Submission, at: datetime) -> tuple[Waiting | None, list[Hour] | None]:
    """Who waits and the pace of the last hour, for one that waits."""
    if record.state != State.RECEIVED:
        return None, None
    return await asyncio.gather(get_waiting(), get_hours(at, hours=2))


async def _waiting(query: ListQuery) -> Waiting | None:
    """Places are read only for lists that can show somebody who waits."""
    if query.states and State.RECEIVED not in query.states:
        return None
    return await get_waiting()


async def _document(content_hash: str) -> Any:
    """Without the bucket there is still a page that says so."""
    try:
        files = await get_content().get_files(content_hash)
    except Unavailable:
        return None
    return render_skill_md(files.get("SKILL.md", b""))


async def _diff(name: str, from_version: str | None, to_version: str | None) -> Any:
    if from_version is None or to_version is None:
        return None
    hashes = {version.version: version.content_hash for version in await get_versions(name)}
    if from_version not in hashes or to_version not in hashes:
        raise NotFound("One of these versions does not exist.")
    before, after = await asyncio.gather(
        get_content().get_files(hashes[from_version]), get_content().get_files(hashes[to_version])
    )
    files = diff_files(before, after)
    return views.diff_view(from_version, to_version, summary_of(files), files)


def _url(path: str, request: Request, **changed: str | None) -> str:
    query = {name: value for name, value in {**request.query, **changed}.items() if value is not None}
    return f"{path}?{urlencode(query)}" if query else path


def _local_path(back: str) -> str:
    """A path on this site, never another site."""
    is_local = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable() and back.isascii()
    return back if is_local else "/"
