"""The home, queue and submission pages: server-rendered, complete without JavaScript, on the store code of the API."""

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import Any

from functions.api.list_query import filter_of, not_served, read_list_query
from functions.html import paging
from functions.html.evidence import get_public_evidence
from functions.html.responses import THEMES, cookie, page, reject_cross_site_form, see_other, url_with
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.access.limits import take_from_limit
from shared.db import now
from shared.errors import Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unavailable
from shared.evidence.appeal_store import get_appeals
from shared.marketplace.skill_search import get_published_skills_list
from shared.records.submissions import State, Submission, is_id
from shared.storage.documents import stamp
from shared.storage.kv import Read
from shared.submissions.counters import get_hours, get_stats, read_counters
from shared.submissions.pause import find_pause
from shared.submissions.queue_position import QueueSnapshot, Waiting, get_queue_snapshot, get_waiting, snapshot_of
from shared.submissions.submission_list import Listing, ListQuery, list_some, list_submissions
from shared.submissions.submission_search import search_submissions
from shared.submissions.submission_store import get_history, get_submission
from shared.submissions.upload_tokens import cancel_upload
from shared.web import charts, labels, views
from shared.web.assets import find_asset
from shared.web.form_words import in_form_words

ROWS = 50
MOST_CHANGED = 2 * ROWS  # what changed, and the active rows that are shown
LONGEST_SEARCH = 200
CANCEL_HINT = "Enter the upload token that you got when you submitted it."
A_YEAR = 365 * 24 * 3600


async def home(request: Request) -> Answer:
    request.allow_query()
    stats, newest = await asyncio.gather(get_stats(), get_published_skills_list(6))
    degraded = stats.degraded or bool(newest.failed)
    at = now()
    return page(request, "home.html", at, since=stamp(at), stats=stats, skills=newest.skills, degraded=degraded)


async def queue(request: Request) -> Answer:
    """Two storage round trips, however many submissions there are: independent reads go first, together. With
    `changed`, ids that an open page asks for, only these are read."""
    request.allow_query("state", "sort", "sortDir", "q", "changed", *paging.PARAMETERS)
    query, q, changed = _list_query(request), _search_text(request), _changed_ids(request)
    bound_to = f"submissions with {q} {query.states}" if q else filter_of(query)
    after = await read_cursor(request.query.get("cursor"), bound_to)
    at = now()
    counters = read_counters()
    listing, hours, waiting, pause = await asyncio.gather(
        _listing(query._replace(after=after), q, changed, counters),
        get_hours(at, counters=counters),
        _waiting(query),
        find_pause(),
    )
    cursor = await make_cursor(listing.next_position, bound_to)
    selected = request.query.get("state") or "total"
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
        q=q,
        summary=_summary(request, listing, None if q else listing.total, is_update=bool(changed)),
        filters=views.filters(listing.stats, selected),
        rows=listing.rows,
        stale=set(listing.stale),
        places=views.places(listing.rows, waiting and snapshot_of(waiting, hours, pause, at)),
        by_update=query.by_update,
        newest_first=query.descending,
        sort_url=None if q else url_with(request, sortDir="asc" if query.descending else "desc", cursor=None),
        age_title="Time since the last change" if query.by_update else "Time since submission",
        previous_url=paging.previous_url(request, ROWS),
        next_url=paging.next_url(request, cursor, len(listing.rows)),
    )


def _summary(request: Request, listing: Listing, total: int | None, *, is_update: bool) -> str:
    """An update has only the rows that changed, and is about the whole first page."""
    shown = min(ROWS, total or 0) if is_update else len(listing.rows)
    is_last = (total or 0) <= ROWS if is_update else listing.next_position is None
    return views.summary(paging.first_row(request), shown, total, is_last)


def _list_query(request: Request) -> ListQuery:
    """The form sends a blank state for all of them."""
    query = {name: value for name, value in request.query.items() if value or name != "state"}
    return read_list_query(request._replace(query=query), ROWS)


async def submission(request: Request) -> Answer:
    request.allow_query("sent")
    return await _submission_page(request)


async def cancel(request: Request) -> Answer:
    """Of an upload, by who has its token. Submissions of a repository are cancelled under /owner."""
    reject_cross_site_form(request)
    token = request.form().get("uploadToken", "").strip()
    try:
        await take_from_limit("submit", request.source_ip)
        await cancel_upload(request.path["id"], token)
    except (Forbidden, Conflict, TooManyRequests) as error:
        return await _submission_page(request, CANCEL_HINT if not token else in_form_words(error), STATUS[type(error)])
    return see_other(f"/submissions/{request.path['id']}")


async def _submission_page(request: Request, cancel_problem: str = "", status: int = 200) -> Answer:
    submission_id = request.path["id"]
    at = now()
    record, history = await asyncio.gather(get_submission(submission_id), get_history(submission_id))
    snapshot, pause, appeals, (receipt, files) = await asyncio.gather(
        _snapshot_for(record, at), find_pause(), get_appeals(record.id), get_public_evidence(record)
    )
    place = views.places([record], snapshot).get(record.id)
    shown = views.submission_view(record, history, at, place, receipt, files)
    sent_again = labels.SENT_AGAIN.get(request.query.get("sent", ""))
    about: dict[str, Any] = {"submission": record, "pause": pause, "appeals": appeals, "sent_again": sent_again}
    about |= {"cancel_problem": cancel_problem, "may_cancel": record.state is State.RECEIVED}
    return page(request, "submission.html", at, status, since=stamp(at), **about, **shown)


async def set_theme(request: Request) -> Answer:
    """For browsers without JavaScript. Harmless from any origin, so it needs no CSRF token."""
    form = request.form()
    theme, back = form.get("theme"), form.get("back", "/")
    if theme not in THEMES:
        raise InvalidRequest(f"`theme` must be one of {', '.join(THEMES)}.", code="invalid_theme")
    return see_other(_safe_redirect_path(back), cookie(request, "theme", theme, A_YEAR, http_only=False))


async def asset(request: Request) -> Answer:
    found = find_asset(request.path["name"])
    if found is None:
        raise NotFound("No such file.")
    file, is_exact = found
    caching = f"public, max-age={A_YEAR}, immutable" if is_exact else "no-cache"
    return Answer(file.content, headers={"content-type": file.media_type, "cache-control": caching})


def _search_text(request: Request) -> str | None:
    """A search form that is submitted empty lists everything."""
    q = request.query.get("q", "").strip()
    if len(q) > LONGEST_SEARCH:
        raise InvalidRequest(f"`q` must have at most {LONGEST_SEARCH} characters.", code="invalid_q")
    if q and {"sort", "sortDir"} & request.query.keys():
        raise not_served("A search cannot be sorted.")
    return q or None


def _changed_ids(request: Request) -> list[str]:
    ids = [each for each in request.query.get("changed", "").split(",") if each]
    if not all(map(is_id, ids)) or len(ids) > MOST_CHANGED:
        raise InvalidRequest(f"`changed` is at most {MOST_CHANGED} ids, separated by commas.", code="invalid_ids")
    return ids


async def _listing(
    query: ListQuery, q: str | None, changed: list[str], counters: Awaitable[Read[dict[str, int]]]
) -> Listing:
    if changed:
        some = await list_some(query, changed, counters)
        if some.degraded:  # the page keeps what it shows and asks again
            raise Unavailable("Not everything that changed could be read.")
        return some
    return await (_search(q, query.after, query.states, counters) if q else list_submissions(query, counters))


async def _search(
    q: str, after: str | None, states: tuple[State, ...], counters: Awaitable[Read[dict[str, int]]]
) -> Listing:
    search = search_submissions(q, ROWS, after, states or tuple(State))
    found, stats = await asyncio.gather(search, get_stats(counters))
    return Listing(found.rows, found.next_position, total=None, stats=stats, stale=found.failed)


async def _snapshot_for(record: Submission, at: datetime) -> QueueSnapshot | None:
    return await get_queue_snapshot(at) if record.state == State.RECEIVED else None


async def _waiting(query: ListQuery) -> Waiting | None:
    """Positions are read only for lists that can contain queued submissions."""
    if query.states and State.RECEIVED not in query.states:
        return None
    return await get_waiting()


def _safe_redirect_path(back: str) -> str:
    """A path on this site, never another site: no open redirect."""
    is_local = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable() and back.isascii()
    return back if is_local else "/"
