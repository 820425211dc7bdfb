"""Public views of records: only the fields listed here."""

import base64
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec

from functions.api.submission_schemas import (
    BlockInfo,
    BundleFile,
    CheckResult,
    JudgementBody,
    Position,
    QueuePlace,
    Report,
    ScanResult,
    StageTiming,
    Staleness,
    SubmissionDetail,
    Submitted,
)
from functions.http.answer import Answer
from shared.db import now
from shared.errors import InvalidRequest
from shared.evidence.blocklist import BlockEntry
from shared.evidence.receipt_store import MAX_FINDINGS, Receipt
from shared.records.judgement import Judgement
from shared.records.submissions import CATEGORIES, CATEGORY_OF, HistoryEntry, State, Submission, staleness
from shared.scanner.report import ScanReport
from shared.submissions.intake import Accepted
from shared.submissions.queue_position import QueueSnapshot

_FLAG_FIELDS = {"alreadyVerified": "already_verified"}


def accepted_answer(accepted: Accepted) -> Answer:
    more: dict[str, Any] = {"upload_token": accepted.upload_token} if accepted.upload_token else {}
    more |= {"warnings": accepted.warnings} if accepted.warnings else {}
    if accepted.flag is None:
        return Answer(Submitted(**_created_fields(accepted.submission), **more), 201)
    flag = {_FLAG_FIELDS.get(accepted.flag, accepted.flag): True}
    return Answer(known_submission(accepted.submission, **more, **flag))


def known_submission(submission: Submission, **more: Any) -> Submitted:
    return Submitted(**_created_fields(submission), reason=submission.reason, **more)


def _created_fields(submission: Submission) -> dict[str, Any]:
    return {
        "id": submission.id,
        "submission_id": submission.id,
        "skill_name": submission.skill_name,
        "state": submission.state,
        "created_at": submission.created_at,
    }


def detail_of(
    submission: Submission,
    history: Sequence[HistoryEntry],
    receipt: Receipt | None,
    entry: BlockEntry | None,
    snapshot: QueueSnapshot | None,
) -> SubmissionDetail:
    is_published = submission.state in CATEGORIES["published"]
    return SubmissionDetail(
        id=submission.id,
        submission_id=submission.id,
        skill_name=submission.skill_name,
        skill_path=submission.skill_path,
        repo_url=submission.repo_url,
        state=submission.state,
        category=CATEGORY_OF[submission.state],
        reason=submission.reason,
        error=submission.error,
        score=submission.score,
        attempts=submission.attempts,
        created_at=submission.created_at,
        updated_at=submission.updated_at,
        version=submission.version,
        content_hash=submission.content_hash,
        published_version=submission.published_version,
        published_skill_name=submission.skill_name if is_published else None,
        copy_of=submission.copy_of,
        state_history=list(history),
        stage_timings=_stage_timings(history),
        staleness=_staleness(submission),
        scan_result=None if receipt is None else scan_result_of(receipt),
        block_info=_block_info(submission, entry) if submission.state == State.BLOCKED else None,
        queue=None if snapshot is None else _queue_place(snapshot, submission.id),
    )


def report_of(submission: Submission, receipt: Receipt) -> Report:
    return Report(
        submission_id=submission.id,
        skill_name=submission.skill_name,
        repo_url=submission.repo_url,
        commit=submission.commit,
        state=submission.state,
        reason=submission.reason,
        scan_result=scan_result_of(receipt),
    )


def check_result_of(report: ScanReport) -> CheckResult:
    shown = msgspec.structs.replace(report, findings=report.findings[:MAX_FINDINGS])
    is_cut = len(report.findings) > MAX_FINDINGS
    return CheckResult(**_scan_fields(shown, is_cut), errors=report.front_matter.errors)


def _scan_fields(report: ScanReport, truncated: bool) -> dict[str, Any]:
    return {
        "verdict": report.verdict,
        "action": report.action,
        "certain": report.certain,
        "score": report.score,
        "incomplete": report.incomplete,
        "findings": report.findings,
        "truncated": truncated,
        "capabilities": report.capabilities,
        "warnings": report.front_matter.warnings,
        "scanner_version": report.receipt.scanner_version,
        "rule_set": report.receipt.rule_set_version,
        "content_hash": report.receipt.content_hash,
        "files": report.receipt.files,
    }


def scan_result_of(receipt: Receipt) -> ScanResult:
    fields = _scan_fields(receipt.report, receipt.truncated) | {
        "rule_set": receipt.rule_set,
        "content_hash": receipt.content_hash,
    }
    return ScanResult(
        **fields,
        started_at=receipt.started_at,
        ended_at=receipt.ended_at,
        judgement=_judgement(receipt.judgement) if receipt.judgement else "not_judged",
    )


def position_of(submission_id: str, submission: Submission | None, snapshot: QueueSnapshot) -> Position:
    state = None if submission is None else submission.state
    if state != State.RECEIVED:
        return Position(id=submission_id, state=state, position=None, ahead=None, expected_wait_ms=None)
    return Position(id=submission_id, state=state, **msgspec.structs.asdict(_queue_place(snapshot, submission_id)))


def _queue_place(snapshot: QueueSnapshot, submission_id: str) -> QueuePlace:
    place = snapshot.place_of(submission_id)
    wait = None if place.expected_wait is None else _ms(place.expected_wait)
    return QueuePlace(position=place.position, ahead=place.ahead, expected_wait_ms=wait)


def _block_info(submission: Submission, entry: BlockEntry | None) -> BlockInfo:
    return BlockInfo(
        blocked_by=submission.parked_by,
        reason=submission.reason,
        blocked_at=submission.updated_at,
        threat_type=entry.threat_type if entry else None,
        severity=entry.severity if entry else None,
        evidence_urls=list(entry.evidence_urls) if entry else [],
    )


def _judgement(judgement: Judgement) -> JudgementBody:
    return JudgementBody(
        verdict=judgement.judged,
        score=judgement.score,
        intent=judgement.intent,
        scope=judgement.scope,
        concerns=judgement.concerns,
        model_id=judgement.model_id,
    )


def _stage_timings(history: Sequence[HistoryEntry]) -> list[StageTiming]:
    return [StageTiming(stage.to_state, _ms(after.timestamp - stage.timestamp)) for stage, after in pairwise(history)]


def _staleness(submission: Submission) -> Staleness | None:
    stale_for = staleness(submission, now())
    return None if stale_for is None else Staleness(bool(stale_for), _ms(stale_for))


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def content_of(file: BundleFile) -> str | bytes:
    if file.encoding == "utf-8":
        return file.content
    try:
        return base64.b64decode(file.content, validate=True)
    except ValueError as error:
        raise InvalidRequest(f"{file.path[:80]!r} is not valid base64.", code="invalid_bundle") from error
