"""Submit skills, follow them, count them."""

import asyncio
import hashlib
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from functions.http import Answer, Request, http_handler
from functions.list_query import SERVED, filter_of, read_list_query
from shared import feed, intake, stats
from shared.cursor import make_cursor, read_cursor
from shared.db import get_content, get_kv, get_queue, get_secrets, get_settings, now
from shared.documents import encode
from shared.errors import InvalidRequest, RequestError
from shared.kv import Key
from shared.receipt_store import Receipt, find_receipt
from shared.skill_source import parse_repo_url
from shared.submission_list import MAX_LIMIT, list_of_repo, list_submissions
from shared.submission_store import get_history, get_submission
from shared.submissions import CATEGORIES, CATEGORY_OF, HistoryEntry, Submission, staleness

QUICK_RETRY = 2000  # milliseconds until an open page asks again while there is work; and while there is none
IDLE_RETRY = 5000
SUBMITS_IN_FLIGHT = 5


class BundleFile(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    content: str


class Bundle(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    files: list[BundleFile]


class NamedSkill(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    path: str | None = None


class SubmitBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    repo_url: str | None = None
    skills: Annotated[list[NamedSkill], msgspec.Meta(min_length=1, max_length=50)] | None = None
    skill_name: str | None = None
    skill_path: str | None = None
    source: str | None = None
    bundle: Bundle | None = None
    upload_token: str | None = None


async def submit(request: Request) -> Answer:
    body = request.json(SubmitBody)
    _check(body)
    idempotency = _idempotency(request)
    if body.bundle:
        files = [(file.path, file.content) for file in body.bundle.files]
        accepted = await intake.submit_bundle(body.bundle.name, files, body.upload_token, body.source, idempotency)
        return _accepted_answer(accepted)
    if body.skills:
        return await _submit_several(body.repo_url or "", body.skills, body.source, idempotency)
    named = (body.skill_name, body.skill_path)
    return _accepted_answer(await intake.submit_repo(body.repo_url or "", *named, body.source, idempotency))


class DiscoverBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    repo_url: str


async def discover(request: Request) -> Answer:
    request.allow_query()
    skills, truncated = await intake.discover(request.json(DiscoverBody).repo_url)
    return Answer({"skills": skills, "count": len(skills), "truncated": truncated})


async def list_(request: Request) -> Answer:
    request.allow_query("limit", "cursor", "state", "sort", "sortDir", "repoUrl")
    limit = request.whole_number("limit", default=50, lowest=1, highest=MAX_LIMIT)
    if "repoUrl" in request.query:
        return await _list_repo(request, limit)
    query = read_list_query(request, limit)
    filter_ = filter_of(query)
    after = await read_cursor(request.query.get("cursor"), filter_)
    listing = await list_submissions(query._replace(after=after))
    return Answer(
        {
            "submissions": listing.rows,
            "total": listing.total,
            "cursor": await make_cursor(listing.next_position, filter_),
            "stats": listing.stats,
            "degraded": listing.degraded,
            "stale": listing.stale,
        }
    )


async def get_stats(request: Request) -> Answer:
    request.allow_query()
    return Answer(await stats.get_stats())


async def get_events(request: Request) -> Answer:
    request.allow_query("since")
    events, counted = await _news(request.query.get("since"))
    return Answer(
        {
            "events": [event.row for event in events.events],
            "stats": counted,
            "lastEventId": events.last_id,
            "reset": events.is_reset,
            "more": events.has_more,
        }
    )


async def stream(request: Request) -> Answer:
    """Server-sent events in short answers: the gateway cannot stream, and EventSource comes back by itself."""
    request.allow_query("since")
    events, counted = await _news(request.headers.get("last-event-id") or request.query.get("since"))
    pause = 0 if events.has_more else QUICK_RETRY if counted.active or events.events else IDLE_RETRY
    lines = [f"retry: {pause}", ""]
    if events.is_reset:
        lines += ["event: reset", "data: {}", ""]
    for position, row in events.events:
        lines += [f"id: {position}", "event: submission", f"data: {encode(row)}", ""]
    lines += [f"id: {events.last_id}", "event: stats", f"data: {encode(counted)}", "", ""]
    return Answer("\n".join(lines).encode(), headers={"content-type": "text/event-stream; charset=utf-8"})


async def get_one(request: Request) -> Answer:
    request.allow_query()
    submission_id = request.path["id"]
    submission = await get_submission(submission_id)  # first: what is no id is never asked for
    history, receipt = await asyncio.gather(get_history(submission_id), find_receipt(submission))
    return Answer(_detail(submission, history) | {"scanResult": receipt and _scan_result(receipt)})


async def health(request: Request) -> Answer:
    """200 once every part answers; else 503 that names those that do not."""
    request.allow_query()
    parts = {
        "store": get_kv().get(Key("health")),
        "content": get_content().check(),
        "queue": get_queue().check(),
        "secrets": get_secrets().get(),
    }
    results = await asyncio.gather(*parts.values(), return_exceptions=True)
    states = {part: "down" if isinstance(r, BaseException) else "ok" for part, r in zip(parts, results, strict=True)}
    is_up = set(states.values()) == {"ok"}
    return Answer({"status": "ok" if is_up else "degraded", "parts": states}, 200 if is_up else 503)


ROUTES = {
    "POST /api/v1/submissions": submit,
    "POST /api/v1/submissions/discover": discover,
    "GET /api/v1/submissions": list_,
    "GET /api/v1/submissions/stats": get_stats,
    "GET /api/v1/submissions/events": get_events,
    "GET /api/v1/submissions/stream": stream,
    "GET /api/v1/submissions/{id}": get_one,
    "GET /api/v1/health": health,
}
handler = http_handler(ROUTES)


async def _news(since: str | None) -> tuple[feed.Events, stats.Stats]:
    return await asyncio.gather(feed.get_events(since, now()), stats.get_stats())


def _check(body: SubmitBody) -> None:
    """Nothing that was sent is ignored."""
    problem = None
    if (body.repo_url is None) == (body.bundle is None):
        problem = "Send either `repoUrl` or `bundle`."
    elif body.bundle and (body.skill_name or body.skill_path or body.skills):
        problem = "A bundle has its name inside: send `bundle.name` only."
    elif body.skills and (body.skill_name or body.skill_path):
        problem = "Send `skills`, or one skill by `skillName` or `skillPath`."
    elif body.repo_url is not None and body.upload_token:
        problem = "`uploadToken` goes with `bundle` only."
    elif body.source and len(body.source) > 64:
        problem = "`source` says in at most 64 characters what sent this, like `cli`."
    if problem:
        raise InvalidRequest(problem, code="invalid_body")


async def _submit_several(
    repo_url: str, skills: list[NamedSkill], source: str | None, idempotency: intake.Idempotency | None
) -> Answer:
    """Each stands for itself: one that cannot be accepted is told among the others."""
    parse_repo_url(repo_url, get_settings().github_host)
    in_flight = asyncio.Semaphore(SUBMITS_IN_FLIGHT)

    async def one(n: int, skill: NamedSkill) -> intake.Accepted:
        own = idempotency._replace(key=f"{idempotency.key}#{n}") if idempotency else None
        async with in_flight:
            return await intake.submit_repo(repo_url, skill.name, skill.path, source, own)

    outcomes = await asyncio.gather(*map(one, range(len(skills)), skills), return_exceptions=True)
    accepted, skipped = [], []
    for skill, outcome in zip(skills, outcomes, strict=True):
        if isinstance(outcome, intake.Accepted):
            accepted.append(_accepted_answer(outcome))
        elif isinstance(outcome, RequestError):
            skipped.append({"name": skill.name, "path": skill.path, "code": outcome.code, "message": str(outcome)})
        else:
            raise outcome
    body = {
        "submissions": [answer.body for answer in accepted],
        "count": len(accepted),
        "skipped": skipped,
        "repoUrl": repo_url,
    }
    return Answer(body, 201 if any(answer.status == 201 for answer in accepted) else 200)


def _idempotency(request: Request) -> intake.Idempotency | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (16 <= len(key) <= 128 and key.isascii() and key.isprintable()):
        raise InvalidRequest("An Idempotency-Key has 16 to 128 printable characters.", code="invalid_idempotency_key")
    return intake.Idempotency(key, hashlib.sha256(request.body).hexdigest())


def _accepted_answer(accepted: intake.Accepted) -> Answer:
    submission = accepted.submission
    body: dict[str, Any] = {
        "id": submission.id,
        "submissionId": submission.id,
        "skillName": submission.skill_name,
        "state": submission.state,
        "createdAt": submission.created_at,
    }
    if accepted.upload_token:
        body["uploadToken"] = accepted.upload_token
    if accepted.flag is None:
        return Answer(body, 201)
    return Answer(body | {accepted.flag: True, "reason": submission.reason})


async def _list_repo(request: Request, limit: int) -> Answer:
    if {"state", "sort", "sortDir"} & request.query.keys():
        raise InvalidRequest(f"`repoUrl` goes with `limit` and `cursor` only. {SERVED}", code="combination_not_served")
    source = parse_repo_url(request.query["repoUrl"], get_settings().github_host).source
    filter_ = f"submissions of {source}"
    after = await read_cursor(request.query.get("cursor"), filter_)
    (rows, next_position, failed), counted = await asyncio.gather(list_of_repo(source, limit, after), stats.get_stats())
    return Answer(
        {
            "submissions": rows,
            "total": None,
            "cursor": await make_cursor(next_position, filter_),
            "stats": counted,
            "degraded": counted.degraded or bool(failed),
            "stale": failed,
        }
    )


def _detail(submission: Submission, history: list[HistoryEntry]) -> dict[str, Any]:
    """The fields a stranger may see, named one by one."""
    stale_for = staleness(submission, now())
    is_published = submission.state in CATEGORIES["published"]
    return {
        "id": submission.id,
        "submissionId": submission.id,
        "skillName": submission.skill_name,
        "skillPath": submission.skill_path,
        "repoUrl": submission.repo_url,
        "state": submission.state,
        "category": CATEGORY_OF[submission.state],
        "reason": submission.reason,
        "error": submission.error,
        "score": submission.score,
        "attempts": submission.attempts,
        "createdAt": submission.created_at,
        "updatedAt": submission.updated_at,
        "version": submission.version,
        "contentHash": submission.content_hash,
        "publishedVersion": submission.published_version,
        "publishedSkillName": submission.skill_name if is_published else None,
        "stateHistory": history,
        "stageTimings": _stage_timings(history),
        "staleness": None if stale_for is None else {"isStuck": bool(stale_for), "overdueMs": _ms(stale_for)},
    }


def _scan_result(receipt: Receipt) -> dict[str, Any]:
    report = receipt.report
    return {
        "verdict": report.verdict,
        "action": report.action,
        "certain": report.certain,
        "score": report.score,
        "incomplete": report.incomplete,
        "findings": report.findings,
        "truncated": receipt.truncated,
        "capabilities": report.capabilities,
        "warnings": report.front_matter.warnings,
        "scannerVersion": report.receipt.scanner_version,
        "ruleSet": receipt.rule_set,
        "contentHash": receipt.content_hash,
        "files": report.receipt.files,
        "startedAt": receipt.started_at,
        "endedAt": receipt.ended_at,
        "judgement": receipt.judgement or "not_judged",
    }


def _stage_timings(history: list[HistoryEntry]) -> list[dict[str, Any]]:
    stages = pairwise(history)
    return [{"state": stage.to_state, "ms": _ms(after.timestamp - stage.timestamp)} for stage, after in stages]


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
