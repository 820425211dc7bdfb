"""Appeals: opened by owners, public with their submission, answered by reviewers; and what was overturned."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from functions.api.admin_schemas import PageQuery, Reason
from functions.api.submission_schemas import SubmissionId
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.evidence.appeal_store import get_appeals, list_open_appeals, list_overturned_appeals
from shared.moderation import appeals
from shared.records.appeals import Appeal, AppealPoint
from shared.records.owners import Owner
from shared.storage.secret_store import AdminToken
from shared.submissions.submission_store import get_submission

PointReason = Annotated[str, Meta(min_length=1, max_length=appeals.MAX_WHY, extra_json_schema={"pattern": r"\S"})]
_ID = {"id": SubmissionId}


class SentPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a finding is wrong. Without `rule` it is about the decision itself."""

    why: PointReason
    rule: Annotated[str, Meta(max_length=100)] = ""
    path: Annotated[str, Meta(max_length=1000)] = ""
    line: Annotated[int, Meta(ge=0, le=10_000_000)] = 0


class AppealRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    points: Annotated[list[SentPoint], Meta(min_length=1, max_length=appeals.MAX_POINTS)]


class AppealAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reason` is the answer, which is public. Points that are not `overturned` are upheld."""

    reason: Reason
    overturned: Annotated[list[Annotated[int, Meta(ge=0, lt=appeals.MAX_POINTS)]], Meta(max_length=appeals.MAX_POINTS)]


class AppealList(msgspec.Struct, frozen=True, kw_only=True):
    appeals: list[Appeal]
    cursor: str | None = None
    unreadable: list[str] = []


class FalseAlarm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A finding that a reviewer overturned, for the authors of rules."""

    rule: str
    path: str
    line: Annotated[int, Meta(description="0: all findings of the rule in this file.")]
    excerpt: str
    why: str
    answer: str
    rule_set: str | None
    skill_name: str
    submission_id: str
    content_hash: str | None
    answered_at: datetime | None


class FalseAlarms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    false_alarms: list[FalseAlarm]
    cursor: str | None
    unreadable: list[str]


@operation("Appeal against a decision", gives={201: Appeal}, owned=True, refuses=(404, 409), path=_ID)
async def open_appeal(request: Request, owner: Owner, body: AppealRequest) -> Answer:
    """For a submission that is REJECTED, TIER1_FAILED, BLOCKED or on hold. A point without `line` is about all findings
    of its rule in that file. At most 40,000 characters in all. One open appeal per skill and content (409
    `appeal_open`). It is public, like the findings."""
    objections = [appeals.Objection(point.why, point.rule, point.path, point.line) for point in body.points]
    return Answer(await appeals.open_appeal(request.path["id"], owner, objections), 201)


@operation("The appeals of a submission and their answers", gives=AppealList, path=_ID)
async def list_appeals(request: Request) -> Answer:
    """Oldest first."""
    submission = await get_submission(request.path["id"])
    return Answer(AppealList(appeals=await get_appeals(submission.id)))


@operation("Open appeals, oldest first", gives=AppealList, role="reviewer")
async def list_open(request: Request, query: PageQuery) -> Answer:
    page = await list_open_appeals(query.limit, await read_cursor(query.cursor, "open appeals"))
    cursor = await make_cursor(page.next_position, "open appeals")
    return Answer(AppealList(appeals=page.appeals, cursor=cursor, unreadable=page.failed))


@operation("Answer an appeal", gives=Appeal, role="reviewer", refuses=(404, 409))
async def answer(request: Request, body: AppealAnswer, by: AdminToken) -> Answer:
    """If every finding that decided was overturned, the submission is approved and published in the same
    step, which takes the role for that approval."""
    path = request.path
    return Answer(await appeals.answer_appeal(path["id"], path["appeal"], by, body.overturned, body.reason))


@operation("Overturned findings, for the authors of rules", gives=FalseAlarms, role="reviewer")
async def list_false_alarms(request: Request, query: PageQuery) -> Answer:
    """Oldest first; `make false-alarms` writes them as lines of JSON."""
    page = await list_overturned_appeals(query.limit, await read_cursor(query.cursor, "false alarms"))
    alarms = [_false_alarm(appeal, point) for appeal in page.appeals for point in appeal.overturned if point.rule]
    cursor = await make_cursor(page.next_position, "false alarms")
    return Answer(FalseAlarms(false_alarms=alarms, cursor=cursor, unreadable=page.failed))


OF_OWNERS = {
    "POST /api/v1/owner/submissions/{id}/appeals": open_appeal,
    "GET /api/v1/submissions/{id}/appeals": list_appeals,
}
OF_REVIEWERS = {
    "GET /api/v1/admin/appeals": list_open,
    "POST /api/v1/admin/submissions/{id}/appeals/{appeal}/answer": answer,
    "GET /api/v1/admin/false-alarms": list_false_alarms,
}


def _false_alarm(appeal: Appeal, point: AppealPoint) -> FalseAlarm:
    return FalseAlarm(
        rule=point.rule,
        path=point.path,
        line=point.line,
        excerpt=point.excerpt,
        why=point.why,
        answer=appeal.answer or "",
        rule_set=appeal.rule_set,
        skill_name=appeal.skill_name,
        submission_id=appeal.submission_id,
        content_hash=appeal.content_hash,
        answered_at=appeal.answered_at,
    )
