"""The runs of a submission with their evidence: the last one is the record itself, the others are stored as each ended.
Of those that an older release overwrote, the history and the version that a run published are left."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from shared.errors import NotFound
from shared.evidence.appeal_store import get_appeals
from shared.evidence.receipt_store import Receipt, find_receipt
from shared.marketplace.skill_store import get_versions
from shared.records.appeals import Appeal
from shared.records.runs import RunHistory, split_runs
from shared.records.skills import SkillVersion
from shared.records.submissions import CATEGORIES, Submission
from shared.submissions.run_store import get_ended_runs
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import get_history


class SubmissionRun(NamedTuple):
    history: RunHistory
    submission: Submission  # as this run left it, or has it now
    is_kept: bool = True  # False: an older release overwrote its record

    @property
    def number(self) -> int:
        return self.history.number


async def get_runs(submission: Submission) -> list[SubmissionRun]:
    """The oldest first. Two reads, however many there are; one more where an older release overwrote some."""
    history, ended = await asyncio.gather(get_history(submission.id), get_ended_runs(submission.id))
    *past, last = split_runs([entry for entry in history if entry.seq <= submission.seq])
    lost = [run for run in past if run.last_seq not in ended]
    versions = await get_versions(submission.skill_name) if lost else []
    restored = {run.last_seq: _restored(run, submission, versions) for run in lost}
    runs = [SubmissionRun(run, _own((ended | restored)[run.last_seq], run), run.last_seq in ended) for run in past]
    return [*runs, SubmissionRun(last, _own(submission, last))]


async def get_run(submission: Submission, number: int) -> SubmissionRun:
    runs = await get_runs(submission)
    if not 1 <= number <= len(runs):
        raise NotFound(f"This submission has no run {number}. Its last one is {len(runs)}.", code="run_not_found")
    return runs[number - 1]


async def find_run_receipt(run: SubmissionRun) -> Receipt | None:
    """A receipt is of content: a later run may have had the same content judged, which this one had not."""
    receipt = await find_receipt(run.submission)
    if receipt and run.submission.judged == "not_judged":
        return msgspec.structs.replace(receipt, judgement=None)
    return receipt


async def get_appeals_of_run(run: SubmissionRun) -> list[Appeal]:
    content = run.submission.content_hash
    return [
        appeal
        for appeal in await get_appeals(run.submission.id)
        if (appeal.run == run.number if appeal.run else appeal.content_hash == content)
    ]


def _own(record: Submission, run: RunHistory) -> Submission:
    """Without what a record keeps of the runs before: the last content that was scanned and the last version."""
    is_of_run = record.rule_set is not None or record.source == UPLOADS
    has_published = any(entry.to_state in CATEGORIES["published"] for entry in run.entries)
    return msgspec.structs.replace(
        record,
        content_hash=record.content_hash if is_of_run else None,
        published_version=record.published_version if has_published else None,
    )


def _restored(run: RunHistory, submission: Submission, versions: Iterable[SkillVersion]) -> Submission:
    """What is still known. A version has the time of the history entry that published it, to the microsecond."""
    last = run.entries[-1]
    published_at = {entry.timestamp for entry in run.entries if entry.to_state in CATEGORIES["published"]}
    mine = (one for one in versions if one.submission_id == submission.id and one.created_at in published_at)
    version = next(mine, None)
    metadata = version.metadata if version else None
    return Submission(
        id=submission.id,
        source=submission.source,
        skill_path=submission.skill_path,
        skill_name=submission.skill_name,
        repo_url=submission.repo_url,
        state=last.to_state,
        reason=last.reason,
        created_at=submission.created_at,
        updated_at=last.timestamp,
        seq=last.seq,
        attempts=run.attempts,
        content_hash=version.content_hash if version else None,
        commit=version.commit if version else None,
        score=version.score if version else None,
        published_version=version.version if version else None,
        rule_set=metadata.rule_set if metadata else None,
        unscanned=metadata.unscanned if metadata else "",
        verdict=metadata.verdict if metadata else None,
        judge_score=metadata.judge_score if metadata else None,
    )
