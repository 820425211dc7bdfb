"""Submit skills, follow them, count them."""

import asyncio
import hashlib
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec

from functions.http import Answer, Request, http_handler
from shared import intake, stats
from shared.cursor import make_cursor, read_cursor
from shared.db import get_content, get_kv, get_queue, get_secrets, now
from shared.errors import InvalidRequest, NotFound
from shared.kv import Key
from shared.skill_source import parse_repo_url
from shared.submission_list import MAX_LIMIT, ListQuery, list_of_repo, list_submissions
from shared.submission_store import get_history, get_submission
from shared.submissions import CATEGORIES, CATEGORY_OF, HistoryEntry, State, Submission, staleness

SERVED = (
    "Served are: no filter, sort createdAt (default) or updatedAt; `state` (a state or category), sort updatedAt;"
    " `repoUrl` without sort."
)


class BundleFile(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    content: str


class Bundle(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    files: list[BundleFile]


class SubmitBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    repo_url: str | None = None
    skill_name: str | None = None
    skill_path: str | None = None
    source: str | None = None
    bundle: Bundle | None = None
    upload_token: str | None = None


async def submit(request: Request) -> Answer:
    body = request.json(SubmitBody)
    if (body.repo_url is None) == (body.bundle is None):
        raise InvalidRequest("Send either `repoUrl` or `bundle`.", code="invalid_body")
    idempotency = _idempotency(request)
    if body.bundle and (body.skill_name or body.skill_path):
        raise InvalidRequest("A bundle has its name inside: send `bundle.name` only.", code="invalid_body")
    if body.repo_url is not None and body.upload_token:
        raise InvalidRequest("`uploadToken` goes with `bundle` only.", code="invalid_body")
    if body.source and len(body.source) > 64:
        raise InvalidRequest("`source` says in at most 64 characters what sent this, like `cli`.", code="invalid_body")
    if body.bundle:
        files = [(file.path, file.content) for file in body.bundle.files]
        accepted = await intake.submit_bundle(body.bundle.name, files, body.upload_token, body.source, idempotency)
    else:
        named = (body.skill_name, body.skill_path)
        accepted = await intake.submit_repo(body.repo_url or "", *named, body.source, idempotency)
    return _accepted_answer(accepted)


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
    query = _list_query(request, limit)
    filter_ = f"submissions {query.states} {query.by_update} {query.descending}"
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


async def get_one(request: Request) -> Answer:
    request.allow_query()
    submission_id = request.path["id"]
    submission = await get_submission(submission_id)  # first: what is no id is never asked for
    return Answer(_detail(submission, await get_history(submission_id)))


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


async def no_such_route(request: Request) -> Answer:
    raise NotFound("There is nothing at this address. See /api/v1/health, /api/v1/submissions, /api/v1/skills.")


ROUTES = {
    "POST /api/v1/submissions": submit,
    "POST /api/v1/submissions/discover": discover,
    "GET /api/v1/submissions": list_,
    "GET /api/v1/submissions/stats": get_stats,
    "GET /api/v1/submissions/{id}": get_one,
    "GET /api/v1/health": health,
    "$default": no_such_route,
}
handler = http_handler(ROUTES)


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


def _list_query(request: Request, limit: int) -> ListQuery:
    states = _states(request.query.get("state"))
    sort = request.one_of("sort", ("createdAt", "updatedAt"), "updatedAt" if states else "createdAt")
    if states and sort == "createdAt":
        raise InvalidRequest(f"A list by state cannot be sorted by createdAt. {SERVED}", code="combination_not_served")
    direction = request.one_of("sortDir", ("asc", "desc"), "desc")
    return ListQuery(states, by_update=sort == "updatedAt", descending=direction == "desc", limit=limit)


def _states(text: str | None) -> tuple[State, ...]:
    if text is None:
        return ()
    if text in CATEGORIES:
        return CATEGORIES[text]
    if text in State.__members__:
        return (State(text),)
    known = ", ".join([*CATEGORIES, *State])
    raise InvalidRequest(f"`state` must be one of {known}.", code="invalid_state")


async def _list_repo(request: Request, limit: int) -> Answer:
    if {"state", "sort", "sortDir"} & request.query.keys():
        raise InvalidRequest(f"`repoUrl` goes with `limit` and `cursor` only. {SERVED}", code="combination_not_served")
    source = parse_repo_url(request.query["repoUrl"]).source
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


def _stage_timings(history: list[HistoryEntry]) -> list[dict[str, Any]]:
    stages = pairwise(history)
    return [{"state": stage.to_state, "ms": _ms(after.timestamp - stage.timestamp)} for stage, after in stages]


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
