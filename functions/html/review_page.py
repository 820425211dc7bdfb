"""/admin: the reviewers' workbench. What awaits a decision beside its evidence: findings, files, the author's history,
appeals, and what other reviewers left on it."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from functions.html.admin_session import Flash, act, files_in, section_page, signed_in, skill_names
from functions.html.evidence import get_evidence
from functions.html.file_pages import file_view
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.sessions import Session
from shared.db import get_settings, now
from shared.errors import InvalidRequest, NotFound, RequestError
from shared.evidence.appeal_store import AppealPage, get_appeals, list_open_appeals
from shared.evidence.review_store import find_claims, get_review
from shared.marketplace.community import ReportPage, list_reports
from shared.moderation import appeals, review_claims, submission_decisions
from shared.moderation.bulk_review import BulkOutcome, requeue_chosen
from shared.records.review import ReviewClaim
from shared.records.submissions import CATEGORY_OF, PARKED_STATES, State, Submission, SubmissionRow, is_id
from shared.settings import find_whole_number
from shared.storage.documents import stamp
from shared.submissions import data_version
from shared.submissions.counters import get_hours
from shared.submissions.dead_letter_store import get_dead_letters
from shared.submissions.pause import find_pause
from shared.submissions.queue_health import github_warnings
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.submissions.submission_search import search_submissions
from shared.submissions.submission_store import (
    Stuck,
    get_history,
    get_oldest_active,
    get_stuck_submissions,
    get_submission,
)
from shared.web import charts, views
from shared.web.form_words import in_form_words

PATH = "/admin"
REVIEWED = tuple(state for state in State if state in PARKED_STATES)
VERBS = {
    "approve": submission_decisions.approve,
    "reject": submission_decisions.reject,
    "block": submission_decisions.block,
    "unblock": submission_decisions.unblock,
    "requeue": submission_decisions.requeue,
    "dequeue": submission_decisions.dequeue,
}
BEFORE_DECIDING = ("claim", "take-over", "release", "note")  # after these the same submission stays open
SHOWN = 50
AUTHORED_READ = 50
AUTHORED_SHOWN = 6


class AuthorHistory(NamedTuple):
    """What else came from an account on GitHub, newest first."""

    name: str
    rows: Sequence[SubmissionRow]
    by_category: dict[str, int]
    more: bool


async def show_review(request: Request, session: Session, flash: Flash, outcomes: Sequence[BulkOutcome] = ()) -> Answer:
    """Submissions awaiting review with their evidence, and the health of the platform."""
    at = now()
    held = ListQuery(REVIEWED, by_update=True, descending=False, limit=SHOWN)
    listing, stuck, letters, hours, oldest, (reports, opened) = await asyncio.gather(
        list_submissions(held), stuck_now(at), get_dead_letters(), get_hours(at), get_oldest_active(), _reported()
    )
    rows = listing.rows
    wanted = request.path.get("id") or request.query.get("review") or (rows[0].id if rows else None)
    claims, chosen, names = await asyncio.gather(
        _claims(rows, at), _evidence(request, wanted, at), skill_names(one.submission_id for one in outcomes)
    )
    return await section_page(
        request,
        session,
        flash,
        PATH,
        "admin_review.html",
        since=stamp(at),
        listing=listing,
        claims=claims,
        chosen=chosen,
        next_id=_next_id(rows, wanted, claims, session.token.name),
        outcomes=[(one, names.get(one.submission_id, one.submission_id)) for one in outcomes],
        stuck=stuck,
        letters=letters,
        reports=reports,
        appeals=opened,
        throughput=None if hours is None else charts.throughput(hours),
        oldest=charts.oldest({one.state: one.updated_at for one in reversed(oldest.submissions)}, at),
        warnings=[*await github_warnings(), *await data_version.get_warnings()],
    )


async def review(request: Request) -> Answer:
    """A decision leads to the next submission, what comes before it back to this one."""
    submission_id, action = request.path["id"], request.form().get("action", "")

    async def decide(session: Session, form: dict[str, str]) -> str:
        if action in BEFORE_DECIDING:
            await _before_deciding(submission_id, session, form)
            return action
        if action not in VERBS:
            raise InvalidRequest(f"`action` must be one of {', '.join(VERBS)}.", code="invalid_action")
        files = {"files": files_in(form)} if action == "block" else {}
        seen = find_whole_number(form.get("version"))
        await VERBS[action](submission_id, session.token, form.get("why", ""), seen, **files)
        return action

    opened = submission_id if action in BEFORE_DECIDING else request.form().get("next", "")
    return await act(request, f"{PATH}?review={opened}" if is_id(opened) else PATH, show_review, decide)


async def _before_deciding(submission_id: str, session: Session, form: dict[str, str]) -> None:
    by, action, why = session.token, form["action"], form.get("why", "")
    if action == "note":
        await review_claims.add_note(submission_id, by, form.get("note", ""))
    elif action == "release":
        await review_claims.release_review(submission_id, by, why)
    else:
        await review_claims.claim_review(submission_id, by, why, take_over=action == "take-over")


async def answer_appeal(request: Request) -> Answer:
    async def decide(session: Session, form: dict[str, str]) -> str:
        ticked = (name.removeprefix("overturned-") for name in form if name.startswith("overturned-"))
        overturned = [place for place in map(find_whole_number, ticked) if place is not None]
        await appeals.answer_appeal(
            request.path["id"], form.get("appeal", ""), session.token, overturned, form.get("why", "")
        )
        return "appeal"

    return await act(request, f"{PATH}?review={request.path['id']}", show_review, decide)


async def requeue_several(request: Request) -> Answer:
    """Shows at once what became of each, so there is no redirect; sent twice, it is refused for what was requeued."""
    session, form = await signed_in(request), request.form()
    seen = {name[5:]: find_whole_number(version) for name, version in form.items() if name.startswith("pick-")}
    try:
        outcomes = await requeue_chosen(seen, session.token, form.get("why", ""))
    except RequestError as error:
        return await show_review(
            request, session, Flash(problem=in_form_words(error), typed=form, status=STATUS[type(error)])
        )
    return await show_review(request, session, Flash(), outcomes)


async def stuck_now(at: datetime) -> Stuck:
    pause = await find_pause()
    return await get_stuck_submissions(at, paused=pause is not None, limit=SHOWN)


async def _reported() -> tuple[ReportPage, AppealPage]:
    """What readers and owners wrote."""
    return await asyncio.gather(list_reports(SHOWN), list_open_appeals(SHOWN))


async def _claims(rows: Sequence[SubmissionRow], at: datetime) -> dict[str, ReviewClaim]:
    claims = await find_claims(row.id for row in rows)
    return {claim.submission_id: claim for claim in claims if claim.is_live(at)}


def _next_id(rows: Sequence[SubmissionRow], chosen: str | None, claims: dict[str, ReviewClaim], name: str) -> str:
    """The one behind the chosen one in the list, otherwise its first, that no other reviewer has claimed."""
    free = [row.id for row in rows if row.id == chosen or row.id not in claims or claims[row.id].by == name]
    place = free.index(chosen) if chosen in free else -1
    return next((one for one in [*free[place + 1 :], *free] if one != chosen), "")


async def _evidence(request: Request, submission_id: str | None, at: datetime) -> Any:
    if submission_id is None:
        return None
    try:
        record, history, appealed, review_ = await asyncio.gather(
            get_submission(submission_id),
            get_history(submission_id),
            get_appeals(submission_id),
            get_review(submission_id),
        )
    except NotFound:
        return None
    (receipt, files), author = await asyncio.gather(get_evidence(record), _find_author(record))
    shown = views.submission_view(record, history, at, None, receipt, files)
    opened = request.query.get("file", "")
    here = f"{PATH}?review={record.id}&file="
    raw = f"/admin/files/{record.id}/{quote(opened)}?as=raw"
    return {
        "submission": record,
        "awaits": record.state in PARKED_STATES,
        "role": submission_decisions.role_for(record),
        "appeals": appealed,
        "claim": review_.claim if review_.claim and review_.claim.is_live(at) else None,
        "notes": review_.notes,
        "more_notes": review_.more_notes,
        "author": author,
        "files_url": here,
        "view": file_view(request, opened, files, receipt, here, raw, {}) if opened and files else None,
        **shown,
    }


async def _find_author(submission: Submission) -> AuthorHistory | None:
    """None for an upload: nothing says who sent it."""
    host = f"https://{get_settings().github_host}/"
    if not (submission.repo_url or "").startswith(host):
        return None
    name = (submission.repo_url or "").removeprefix(host).partition("/")[0]
    found = await search_submissions(name, AUTHORED_READ)
    own = f"{host}{name}/".lower()
    rows = [row for row in found.rows if row.id != submission.id and (row.repo_url or "").lower().startswith(own)]
    counts: dict[str, int] = {}
    for row in rows:
        counts[CATEGORY_OF[row.state]] = counts.get(CATEGORY_OF[row.state], 0) + 1
    return AuthorHistory(name, rows[:AUTHORED_SHOWN], counts, found.next_position is not None)
