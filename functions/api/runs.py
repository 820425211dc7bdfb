"""The runs of a submission: each keeps its state, reason, findings and files, whatever was submitted later."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from functions.api.submission_schemas import ScanResult, SubmissionId
from functions.api.submission_views import scan_result_of
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.errors import NotFound
from shared.evidence.receipt_store import Receipt
from shared.marketplace.runs import SubmissionRun, find_run_receipt, get_appeals_of_run, get_run, get_runs
from shared.records.appeals import Appeal
from shared.records.submissions import HistoryEntry, State
from shared.settings import find_whole_number
from shared.submissions.submission_store import get_submission

RunNumber = Annotated[str, Meta(pattern="^[1-9][0-9]{0,5}$", description="1 is the first run.")]


class RunItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pass from RECEIVED to its end, and what was decided about it until the next one began."""

    run: int
    state: State
    reason: str | None
    started_at: datetime
    ended_at: Annotated[datetime | None, Meta(description="Its last move; null while it is in progress.")]
    attempts: int
    commit: str | None
    content_hash: str | None
    score: int | None
    published_version: str | None
    evidence_kept: Annotated[
        bool, Meta(description="False: an older release overwrote its record, and only what is left is shown.")
    ]
    url: Annotated[str, Meta(description="Its page: a permanent link.")]


class RunList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    submission_id: SubmissionId
    runs: list[RunItem]


class RunDetail(RunItem, frozen=True, kw_only=True):
    submission_id: SubmissionId
    skill_name: str
    skill_path: str
    repo_url: str | None
    state_history: list[HistoryEntry]
    scan_result: Annotated[ScanResult | None, Meta(description="Null if it was not scanned, or not kept.")]
    appeals: Annotated[list[Appeal], Meta(description="Against the decision of this run, the oldest first.")]


@operation("List the runs of a submission, the first one first", gives=RunList, path={"id": SubmissionId})
async def list_runs(request: Request) -> Answer:
    """A resubmission, a retry and a reopening are new runs; attempts are claims within one."""
    submission = await get_submission(request.path["id"])
    runs = await get_runs(submission)
    return Answer(RunList(submission_id=submission.id, runs=[RunItem(**_fields(run)) for run in runs]))


@operation("Get a run with its history and scan result", gives=RunDetail, path={"id": SubmissionId, "run": RunNumber})
async def show_run(request: Request) -> Answer:
    run = await read_run(request)
    receipt, appeals = await asyncio.gather(find_run_receipt(run), get_appeals_of_run(run))
    return Answer(_detail(run, receipt, appeals))


async def read_run(request: Request) -> SubmissionRun:
    """The one that the path of a request names."""
    number = find_whole_number(request.path["run"])
    if number is None:
        raise NotFound("The number of a run is a whole number, like 1.", code="run_not_found")
    return await get_run(await get_submission(request.path["id"]), number)


ROUTES = {
    "GET /api/v1/submissions/{id}/runs": list_runs,
    "GET /api/v1/submissions/{id}/runs/{run}": show_run,
}


def _detail(run: SubmissionRun, receipt: Receipt | None, appeals: list[Appeal]) -> RunDetail:
    submission = run.submission
    return RunDetail(
        **_fields(run),
        submission_id=submission.id,
        skill_name=submission.skill_name,
        skill_path=submission.skill_path,
        repo_url=submission.repo_url,
        state_history=list(run.history.entries),
        scan_result=None if receipt is None else scan_result_of(receipt),
        appeals=appeals,
    )


def _fields(run: SubmissionRun) -> dict[str, Any]:
    submission, history = run.submission, run.history
    return {
        "run": run.number,
        "state": submission.state,
        "reason": submission.reason,
        "started_at": history.started_at,
        "ended_at": history.ended_at,
        "attempts": history.attempts,
        "commit": submission.commit,
        "content_hash": submission.content_hash,
        "score": submission.score,
        "published_version": submission.published_version,
        "evidence_kept": run.is_kept,
        "url": f"/submissions/{submission.id}/runs/{run.number}",
    }
