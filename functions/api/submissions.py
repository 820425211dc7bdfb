"""Submit skills and track them: lists, events, places in the queue, reports, statistics, health."""

import asyncio
import hashlib
from typing import Any

from functions.api.list_query import filter_of, list_query, not_served, states_of
from functions.api.submission_schemas import (
    MAX_POSITIONS,
    Batch,
    CheckBundle,
    CheckResult,
    Created,
    DiscoverBody,
    Discovered,
    DiscoveredSkill,
    EventParameters,
    Events,
    Health,
    ListParameters,
    PlatformStats,
    Positions,
    PositionsParameters,
    Report,
    ReportParameters,
    Skipped,
    SubmissionDetail,
    SubmissionId,
    SubmissionList,
    SubmitBody,
    SubmitBundle,
    SubmitSkills,
    Submitted,
    Totals,
    UploadToken,
)
from functions.api.submission_views import (
    accepted_answer,
    check_result_of,
    content_of,
    detail_of,
    known_submission,
    position_of,
    report_of,
)
from functions.http.answer import AT_EDGE, Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.access.idempotency import Idempotency, caller_of
from shared.db import get_content, get_queue, get_secrets, get_settings, now
from shared.errors import InvalidRequest, NotFound
from shared.evidence.blocklist import BlockEntry, find_block
from shared.evidence.receipt_store import find_receipt
from shared.records.submissions import State, Submission, SubmissionRow, is_id
from shared.storage.documents import encode
from shared.submissions import counters, data_version, discovery, feed, intake
from shared.submissions.check import check_bundle
from shared.submissions.queue_health import QueueHealth, get_recent_queue_health, github_warnings
from shared.submissions.queue_position import QueueSnapshot, get_queue_snapshot
from shared.submissions.skill_source import parse_repo_url, parse_slug, require_usable
from shared.submissions.submission_list import list_of_repo, list_submissions
from shared.submissions.submission_search import search_submissions
from shared.submissions.submission_store import get_history, get_submission, get_submissions_fresh
from shared.submissions.upload_tokens import cancel_upload, rotate_upload_token

BUSY_RETRY = 2000  # milliseconds until an open page reconnects while there is work
IDLE_RETRY = 5000
KEY_HELP = "16 to 128 characters. For a day, the same key, body and caller (token or address) get the same response."
SARIF = "application/sarif+json"
_ID = {"id": SubmissionId}


@operation(
    "Submit a skill, or several of one repository",
    gives={201: Created | Batch, 200: Submitted | Batch},
    refuses=(403, 409, 422),
    limit="submit",
    headers={"Idempotency-Key": KEY_HELP},
)
async def submit(request: Request, body: SubmitBody) -> Answer:
    """201 if anything is new. Otherwise 200 with one flag: `duplicate`, `alreadyVerified`, `requeued` or `blocked`.
    Where limits are on, requests are limited per IP address, skills too (a batch of n counts n), and so are the
    submissions that one address may have in progress at once (429 `share_used_up`)."""
    idempotency = await _idempotency(request)
    if isinstance(body, SubmitBundle):
        files = [(file.path, content_of(file)) for file in body.bundle.files]
        warnings = require_usable(body.bundle.name, files)
        accepted = await intake.submit_bundle(
            body.bundle.name, files, body.upload_token, body.source, idempotency, request.source_ip
        )
        return accepted_answer(accepted._replace(warnings=warnings))
    if isinstance(body, SubmitSkills):
        return await _submit_several(body, idempotency, request.source_ip)
    named = (body.skill_name, body.skill_path)
    return accepted_answer(await intake.submit_repo(body.repo_url, *named, body.source, idempotency, request.source_ip))


@operation("Check a skill before it is submitted", gives=CheckResult, refuses=(403, 422), limit="check")
async def check(request: Request, body: CheckBundle) -> Answer:
    """What `python -m shared.scanner` says of the same files: tier 1 alone, and nothing is stored or queued. Off where
    uploads are (403 `uploads_off`). 422 `check_too_slow` if it takes longer than a request may."""
    parse_slug(body.bundle.name)  # it decides nothing here, but the same name would be refused when it is submitted
    files = [(file.path, content_of(file)) for file in body.bundle.files]
    return Answer(check_result_of((await check_bundle(files)).report))


@operation(
    "List the skills of a repository and the status of each", gives=Discovered, refuses=(422, 502), limit="discover"
)
async def discover(request: Request, body: DiscoverBody) -> Answer:
    found, truncated = await discovery.discover(body.repo_url)
    skills = [_discovered(skill) for skill in found]
    return Answer(Discovered(skills=skills, count=len(skills), truncated=truncated))


@operation("List submissions", gives=SubmissionList)
async def list_(request: Request, query: ListParameters) -> Answer:
    """Newest first by default. Supported: no filter, sorted by `createdAt` (default) or `updatedAt`; `state`, sorted by
    `updatedAt`; `q`, alone or with `state`, and `repoUrl` alone, both without sort. Any other combination is an error.
    With `q` a page may be shorter than `limit`: continue until `cursor` is null."""
    if query.q is not None or query.repo_url is not None:
        return await _list_found(query)
    wanted = list_query(query.state, query.sort, query.sort_dir or "desc", query.limit)
    filter_ = filter_of(wanted)
    after = await read_cursor(query.cursor, filter_)
    listing = await list_submissions(wanted._replace(after=after))
    return Answer(
        SubmissionList(
            submissions=listing.rows,
            total=listing.total,
            cursor=await make_cursor(listing.next_position, filter_),
            stats=listing.stats,
            degraded=listing.degraded,
            stale=listing.stale,
        ),
        cache="" if listing.degraded else AT_EDGE,
    )


@operation("Number of submissions by category and state", gives=counters.Stats)
async def get_stats(request: Request) -> Answer:
    return Answer(await counters.get_stats(), cache=AT_EDGE)


@operation("Totals of the platform", gives=PlatformStats)
async def get_totals(request: Request) -> Answer:
    """Values that could not be read are null, never 0."""
    counted, market = await counters.get_totals()
    totals = {name: getattr(counted, name) for name in Totals.__struct_fields__}
    return Answer(
        PlatformStats(
            submissions=Totals(**totals),
            skills=market.skills,
            versions=market.versions,
            generated_at=counted.generated_at,
            degraded=counted.degraded or market.skills is None,
        ),
        cache=AT_EDGE,
    )


@operation("Changes since an event", gives=Events)
async def get_events(request: Request, query: EventParameters) -> Answer:
    """From now on without `since`. The last ten seconds are repeated: deduplicate by (`id`, `version`)."""
    events, counted = await _changes(query.since)
    return Answer(
        Events(
            events=[event.row for event in events.events],
            stats=counted,
            last_event_id=events.last_id,
            reset=events.is_reset,
            more=events.has_more,
        )
    )


@operation(
    "Changes as server-sent events",
    gives={200: "text/event-stream"},
    headers={"Last-Event-ID": "The last `id` received; EventSource sends it automatically."},
)
async def stream(request: Request, query: EventParameters) -> Answer:
    """Events `submission`, `stats` and `reset` in short responses: the gateway cannot stream, and EventSource
    reconnects automatically."""
    events, counted = await _changes(request.headers.get("last-event-id") or query.since)
    pause = 0 if events.has_more else BUSY_RETRY if counted.active or events.events else IDLE_RETRY
    lines = [f"retry: {pause}", ""]
    if events.is_reset:
        lines += ["event: reset", "data: {}", ""]
    for position, row in events.events:
        lines += [f"id: {position}", "event: submission", f"data: {encode(row)}", ""]
    lines += [f"id: {events.last_id}", "event: stats", f"data: {encode(counted)}", "", ""]
    return Answer("\n".join(lines).encode(), headers={"content-type": "text/event-stream; charset=utf-8"})


@operation("Queue health", gives=QueueHealth)
async def queue_health(request: Request) -> Answer:
    """At most five seconds old. Values that could not be read are null, never 0. `drainRate` is how many submissions
    per hour stopped being active."""
    return Answer(await get_recent_queue_health())


@operation("Places in the queue", gives=Positions)
async def get_positions(request: Request, query: PositionsParameters) -> Answer:
    """Known for the first 500. Beyond them the position is null and `ahead` is "500+"."""
    ids = _read_ids(query.ids)
    snapshot, fresh = await asyncio.gather(get_queue_snapshot(now()), get_submissions_fresh(ids))
    by_id = {submission.id: submission for submission in fresh.submissions}
    positions = [position_of(submission_id, by_id.get(submission_id), snapshot) for submission_id in ids]
    return Answer(Positions(positions=positions, degraded=bool(fresh.failed), stale=sorted(fresh.failed)))


@operation("Get a submission with its history and scan result", gives=SubmissionDetail, path=_ID)
async def get_one(request: Request) -> Answer:
    submission = await get_submission(request.path["id"])  # first: an invalid id must cost no other read
    history, receipt, entry, snapshot = await asyncio.gather(
        get_history(submission.id), find_receipt(submission), _entry_of(submission), _snapshot_for(submission)
    )
    return Answer(detail_of(submission, history, receipt, entry, snapshot))


@operation("Replace the token of an upload", gives=UploadToken, refuses=(403, 409), limit="submit", path=_ID)
async def rotate_token(request: Request, body: UploadToken) -> Answer:
    """Send the current token; the response has the new one, and the old one is invalid from then on. 403
    `wrong_upload_token` if it is not the current one."""
    return Answer(UploadToken(await rotate_upload_token(request.path["id"], body.upload_token)))


@operation("Cancel an upload that waits", gives=Submitted, refuses=(403, 409), limit="submit", path=_ID)
async def cancel(request: Request, body: UploadToken) -> Answer:
    """With its token, while no worker has claimed it; 409 `illegal_move` after that. Submitting it again with its token
    takes it back. Submissions of a repository are cancelled by its owner."""
    return Answer(known_submission(await cancel_upload(request.path["id"], body.upload_token)))


@operation("Scan report, as JSON or SARIF", gives={200: (Report, SARIF)}, path=_ID)
async def get_report(request: Request, query: ReportParameters) -> Answer:
    """404 `no_report` if it has not been scanned yet or was decided without a scan."""
    submission = await get_submission(request.path["id"])
    receipt = await find_receipt(submission)
    if receipt is None:
        because = f" {submission.reason}" if submission.reason else ""
        raise NotFound(f"There is no report of this submission: it is {submission.state}.{because}", code="no_report")
    if query.format == "json":
        return Answer(report_of(submission, receipt))
    from shared.scanner.sarif import sarif_log  # here: nothing else in this Lambda function loads the rules

    log = sarif_log([(_folder(submission), receipt.report)])
    return Answer(log, headers={"content-type": f"{SARIF}; charset=utf-8"})


@operation("Health of the platform", gives={200: Health, 503: Health})
async def health(request: Request) -> Answer:
    """503 if a part is not reachable; `parts` says which."""
    parts = {
        "store": data_version.get_warnings(),
        "content": get_content().check(),
        "queue": get_queue().check(),
        "secrets": get_secrets().get(),
    }
    results = await asyncio.gather(*parts.values(), return_exceptions=True)
    states = {part: "down" if isinstance(r, BaseException) else "ok" for part, r in zip(parts, results, strict=True)}
    is_up = set(states.values()) == {"ok"}
    warnings = [] if states["secrets"] == "down" else await github_warnings()
    if isinstance(results[0], list):
        warnings += results[0]
    return Answer(Health("ok" if is_up else "degraded", states, warnings), 200 if is_up else 503)


ROUTES = {
    "POST /api/v1/submissions": submit,
    "POST /api/v1/submissions/check": check,
    "POST /api/v1/submissions/discover": discover,
    "GET /api/v1/submissions": list_,
    "GET /api/v1/submissions/stats": get_stats,
    "GET /api/v1/submissions/events": get_events,
    "GET /api/v1/submissions/stream": stream,
    "GET /api/v1/submissions/positions": get_positions,
    "GET /api/v1/submissions/{id}": get_one,
    "GET /api/v1/submissions/{id}/report": get_report,
    "POST /api/v1/submissions/{id}/cancel": cancel,
    "POST /api/v1/submissions/{id}/upload-token": rotate_token,
    "GET /api/v1/queue/health": queue_health,
    "GET /api/v1/stats": get_totals,
    "GET /api/v1/health": health,
}


async def _changes(since: str | None) -> tuple[feed.FeedPage, counters.Stats]:
    return await asyncio.gather(feed.get_events(since, now()), counters.get_stats())


async def _submit_several(body: SubmitSkills, idempotency: Idempotency | None, ip: str) -> Answer:
    named = [intake.RequestedSkill(skill.name, skill.path) for skill in body.skills]
    outcomes = await intake.submit_several(body.repo_url, named, body.source, idempotency, ip)
    accepted = [accepted_answer(outcome) for outcome in outcomes if isinstance(outcome, intake.Accepted)]
    skipped = [
        Skipped(name=skill.name, path=skill.path, code=outcome.code, message=outcome.message)
        for skill, outcome in zip(body.skills, outcomes, strict=True)
        if isinstance(outcome, intake.NotAccepted)
    ]
    submissions = [answer.body for answer in accepted]
    batch = Batch(submissions=submissions, count=len(accepted), skipped=skipped, repo_url=body.repo_url)
    return Answer(batch, 201 if any(answer.status == 201 for answer in accepted) else 200)


async def _idempotency(request: Request) -> Idempotency | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (16 <= len(key) <= 128 and key.isascii() and key.isprintable()):
        raise InvalidRequest(
            "An Idempotency-Key must have 16 to 128 printable characters.", code="invalid_idempotency_key"
        )
    caller = await caller_of(request.headers.get("authorization"), request.source_ip)
    return Idempotency(key, hashlib.sha256(request.body).hexdigest(), caller=caller)


def _discovered(skill: dict[str, str | None]) -> DiscoveredSkill:
    here: dict[str, Any] = {"submission_id": skill["submissionId"]} if "submissionId" in skill else {}
    return DiscoveredSkill(name=skill["name"] or "", path=skill["path"] or "", status=skill["status"] or "", **here)


async def _list_found(query: ListParameters) -> Answer:
    """By search words, or all of one repository."""
    if (query.sort, query.sort_dir) != (None, None) or None not in (query.q, query.repo_url):
        raise not_served(f"`{'q' if query.q else 'repoUrl'}` cannot be sorted or combined with the other.")
    if query.repo_url is not None and query.state is not None:
        raise not_served("`repoUrl` can be combined with `limit` and `cursor` only.")
    source = None if query.q else parse_repo_url(query.repo_url or "", get_settings().github_host).source
    filter_ = (
        f"submissions by {query.q}{f' in {query.state}' if query.state else ''}"
        if source is None
        else f"submissions of {source}"
    )
    after = await read_cursor(query.cursor, filter_)
    found, counted = await asyncio.gather(_find(query, source, after), counters.get_stats())
    rows, next_position, failed = found
    return Answer(
        SubmissionList(
            submissions=rows,
            total=None,
            cursor=await make_cursor(next_position, filter_),
            stats=counted,
            degraded=counted.degraded or bool(failed),
            stale=failed,
        )
    )


async def _find(
    query: ListParameters, source: str | None, after: str | None
) -> tuple[list[SubmissionRow], str | None, list[str]]:
    if source is None:
        return await search_submissions(query.q or "", query.limit, after, states_of(query.state) or tuple(State))
    return await list_of_repo(source, query.limit, after)


def _read_ids(text: str) -> list[str]:
    ids = list(dict.fromkeys(text.split(",")))
    if not all(map(is_id, ids)) or len(ids) > MAX_POSITIONS:
        raise InvalidRequest(f"`ids` must be 1 to {MAX_POSITIONS} ids, separated by commas.", code="invalid_ids")
    return ids


async def _entry_of(submission: Submission) -> BlockEntry | None:
    if submission.state != State.BLOCKED:
        return None
    return await find_block(submission.skill_name, submission.source, submission.content_hash)


async def _snapshot_for(submission: Submission) -> QueueSnapshot | None:
    return await get_queue_snapshot(now()) if submission.state == State.RECEIVED else None


def _folder(submission: Submission) -> str:
    """The path of its files in the repository; an upload has none."""
    path = submission.skill_path.removesuffix(f"@{submission.ref}") if submission.repo_url else "."
    return "" if path == "." else path
