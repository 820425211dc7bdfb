"""Appeals: an owner says per finding why it is wrong, a reviewer answers beside the evidence.

The answer is one transaction with the decision that follows from it: when every finding that decided was overturned,
the submission is approved in it. Overturned findings are exported for rule authors (`make false-alarms`).
"""

import secrets
from collections.abc import Collection, Sequence
from typing import NamedTuple

from shared.access.audit import audit_put, reason_of
from shared.access.auth import require_role
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, InvalidRequest
from shared.evidence.appeal_store import answering_writes, get_appeal, opening_writes
from shared.evidence.receipt_store import Receipt, deciding_findings, find_receipt
from shared.marketplace.skill_admin import changed_meanwhile
from shared.moderation.owner_decisions import get_owned_submission
from shared.moderation.review_claims import claim_guard
from shared.moderation.submission_decisions import approve, requeue, unblock
from shared.notifications.events import EventType, RepoEvent, event_puts, submission_event
from shared.records.appeals import APPEALABLE, Appeal, AppealPoint, AppealState, answered
from shared.records.owners import Owner
from shared.records.submissions import State, Submission
from shared.scanner import Finding
from shared.storage.kv import Write
from shared.storage.secret_store import AdminToken
from shared.submissions.submission_store import get_submission, mention_writes

MAX_POINTS = 100
MAX_WHY = 2000  # characters of one point
MAX_TEXT = 40_000  # of all points together: with the excerpts they fit one item
PointPlace = tuple[str, str, int]  # rule, path, line


class Objection(NamedTuple):
    """As the owner writes it. Without a rule: against the decision itself; without a line: about all findings of the
    rule in this file."""

    why: str
    rule: str = ""
    path: str = ""
    line: int = 0


async def open_appeal(submission_id: str, owner: Owner, objections: Sequence[Objection]) -> Appeal:
    submission = await get_owned_submission(submission_id, owner)
    if submission.state not in APPEALABLE:
        raise Conflict(
            "Only a submission that was rejected, blocked or held can be appealed against.", code="not_appealable"
        )
    receipt = await find_receipt(submission)
    at = now()
    appeal = Appeal(
        id=f"{int(at.timestamp() * 1000):013d}-{secrets.token_hex(4)}",
        submission_id=submission.id,
        skill_name=submission.skill_name,
        content_hash=submission.content_hash,
        rule_set=submission.rule_set,
        opened_by=owner.name,
        opened_at=at,
        points=_points_of(objections, receipt),
        run=submission.run,
    )
    n = len(appeal.points)
    audit = audit_put(owner, "appeal", submission.id, f"{n} point{'s' * (n > 1)}")
    events = event_puts(_event_of(appeal, submission))
    try:
        await get_kv().transact(lambda: [*mention_writes(submission, at), *opening_writes(appeal), *events, audit])
    except ConditionFailed as error:
        if 0 in error.failed:
            raise changed_meanwhile() from error
        raise Conflict(
            "There is an open appeal about this content. Wait for its answer.", code="appeal_open"
        ) from error
    return appeal


async def answer_appeal(
    submission_id: str, appeal_id: str, by: AdminToken, overturned: Collection[int], answer: str
) -> Appeal:
    """The one place where an answer is stored, in one transaction with what follows from it."""
    require_role(by, "reviewer")
    text = reason_of(answer)
    submission, appeal = await get_submission(submission_id), await get_appeal(submission_id, appeal_id)
    if appeal.state is not AppealState.OPEN:
        raise Conflict("This appeal is answered already.", code="already_settled")
    if not set(overturned) <= set(range(len(appeal.points))):
        raise InvalidRequest("`overturned` has the places of points of this appeal, from 0.", code="invalid_points")
    after = answered(appeal, overturned, text, by.name, now())
    audit = audit_put(by, f"answer appeal: {after.state}", submission.id, text)
    writes = [*answering_writes(appeal, after), *event_puts(_event_of(after, submission)), audit]
    receipt = await find_receipt(submission)
    try:
        if _is_cleared(submission, receipt, after):
            await _overturn(submission, receipt, by, text, writes)
        else:
            # Not while a worker holds it: its new content is no matter of this appeal.
            mentions = mention_writes(submission, now()) if submission.state in APPEALABLE else []
            guard = await claim_guard(submission.id, by, ends=False)
            await get_kv().transact(lambda: [*mentions, *writes, guard])
    except ConditionFailed as error:
        raise changed_meanwhile() from error
    return after


async def _overturn(
    submission: Submission, receipt: Receipt | None, by: AdminToken, answer: str, writes: Sequence[Write]
) -> None:
    """Exactly what was compared with the appeal, not what was submitted a moment later."""
    verb = approve if receipt else unblock if submission.state is State.BLOCKED else requeue
    await verb(submission.id, by, answer, submission.version, also=writes)


def _event_of(appeal: Appeal, submission: Submission) -> RepoEvent | None:
    return submission_event(
        submission,
        f"{submission.id}-appeal-{appeal.id}-{appeal.record_version}",
        EventType.APPEAL_OPENED if appeal.state is AppealState.OPEN else EventType.APPEAL_ANSWERED,
        at=appeal.answered_at or appeal.opened_at,
        state=appeal.state,
        reason=appeal.answer,
    )


def _is_cleared(submission: Submission, receipt: Receipt | None, appeal: Appeal) -> bool:
    """Nothing that decided is left. New content since is another question. A rule that is wrong about one place may be
    right about the next one, so each counts; and no one answered about findings that were not stored."""
    if submission.state not in APPEALABLE or submission.content_hash != appeal.content_hash:
        return False
    right = {_place(point) for point in appeal.overturned}
    if ("", "", 0) in right:
        return appeal.state is AppealState.OVERTURNED
    if receipt is None or receipt.truncated or not right:
        return False
    wrong = {_place(point) for point in appeal.points if point.state is AppealState.UPHELD}
    return all(_places(one) & right and not _places(one) & wrong for one in deciding_findings(receipt.report))


def _place(point: AppealPoint) -> PointPlace:
    return point.rule, point.path, point.line


def _places(finding: Finding) -> set[PointPlace]:
    """Where a point may be about it: by its line, or with all of its rule in its file."""
    return {(finding.rule, finding.path, finding.line), (finding.rule, finding.path, 0)}


def _points_of(objections: Sequence[Objection], receipt: Receipt | None) -> tuple[AppealPoint, ...]:
    if not 1 <= len(objections) <= MAX_POINTS:
        raise InvalidRequest(f"An appeal has 1 to {MAX_POINTS} points.", code="invalid_points")
    if sum(len(objection.why) for objection in objections) > MAX_TEXT:
        raise InvalidRequest(f"The points of an appeal have {MAX_TEXT} characters in all.", code="invalid_points")
    findings = receipt.report.findings if receipt else ()
    return tuple(_point_of(objection, findings) for objection in objections)


def _point_of(objection: Objection, findings: Sequence[Finding]) -> AppealPoint:
    why = objection.why.strip()
    if not why or len(why) > MAX_WHY:
        raise InvalidRequest(f"Say in 1 to {MAX_WHY} characters why it is wrong.", code="invalid_points")
    if not objection.rule:
        return AppealPoint(why=why)
    found = next((one for one in findings if _is_about(objection, one)), None)
    if found is None:
        raise InvalidRequest(f"There is no finding of the rule {objection.rule[:60]!r} there.", code="invalid_points")
    return AppealPoint(why=why, rule=found.rule, path=found.path, line=objection.line, excerpt=found.excerpt)


def _is_about(objection: Objection, finding: Finding) -> bool:
    is_there = objection.path in ("", finding.path) and objection.line in (0, finding.line)
    return objection.rule == finding.rule and is_there
