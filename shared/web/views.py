"""View models of submissions for the templates: text and structure, no HTML."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from shared.access.auth import Revocation
from shared.evidence.receipt_store import Receipt
from shared.records.runs import split_runs
from shared.records.submissions import CATEGORY_OF, HistoryEntry, State, Submission, SubmissionRow, staleness
from shared.scanner.report import FrontMatter
from shared.submissions.counters import Stats
from shared.submissions.queue_position import RANKED, QueueRank, QueueSnapshot
from shared.submissions.submission_list import Listing
from shared.web import labels
from shared.web.findings import by_file


class Stage(NamedTuple):
    state: State
    at: datetime
    actor: str
    reason: str | None
    took: timedelta | None


class TokenView(NamedTuple):
    """A token as operators see it: neither the token nor its full hash."""

    id: str
    name: str
    role: str
    is_own: bool
    revoked: Revocation | None


def figures(stats: Stats) -> dict[str, int | None]:
    return {
        "total": stats.total,
        "active": stats.active,
        "published": stats.published,
        "rejected": stats.rejected,
        "blocked": stats.blocked,
        "onHold": stats.on_hold,
    }


def summary(listing: Listing, selected: str | None, *, is_later_page: bool) -> str:
    """`selected`: the category or state that is listed; None: the results of a search."""
    shown = len(listing.rows)
    if selected is None:
        is_all = listing.next_position is None and not is_later_page
        return labels.counted(shown, "result") if is_all else f"Showing {labels.counted(shown, 'result')}"
    if listing.total is None:
        return f"Showing {labels.counted(shown, 'submission')}"
    label = labels.CATEGORY_LABELS.get(selected) or labels.look_of(State(selected)).label
    what = "submission" if selected == "total" else label.lower()
    counted = labels.counted(listing.total, what, None if selected == "total" else what)
    return f"Showing {shown} of {counted}" if shown < listing.total else counted


def places(rows: Iterable[SubmissionRow | Submission], line: QueueSnapshot | None) -> dict[str, QueueRank]:
    """Positions of the queued ones, where known or known to be beyond the ranked ones."""
    if line is None:
        return {}
    found = {row.id: line.place_of(row.id) for row in rows if row.state == State.RECEIVED}
    return {row_id: place for row_id, place in found.items() if place.ahead is not None}


def submission_view(
    submission: Submission,
    history: Sequence[HistoryEntry],
    at: datetime,
    place: QueueRank | None,
    receipt: Receipt | None,
    files: Mapping[str, bytes],
) -> dict[str, Any]:
    category = CATEGORY_OF[submission.state]
    return {
        "verdict": verdict_of(submission),
        "next": labels.NEXT[submission.state],
        "place": place and _place_sentence(place),
        "stages": stages_of(history),
        "overdue": staleness(submission, at) or None,
        "is_settled": category != "active",
        "is_published": category == "published",
        "may_resubmit": submission.state in (State.REJECTED, State.TIER1_FAILED, State.ON_HOLD),
        "groups": by_file(receipt.report.findings, files) if receipt else [],
        "truncated": receipt is not None and receipt.truncated,
        "scanned": receipt is not None,
        "has_files": bool(files),
        "findings_base": _findings_base(submission),
        "judgement": receipt and receipt.judgement,
        "front_matter_problems": (*front.errors, *front.warnings) if (front := _front_matter(receipt)) else (),
        "incomplete": receipt.report.incomplete if receipt else (),
        "facts": _facts(submission, receipt),
        "runs": split_runs(history),
    }


def _front_matter(receipt: Receipt | None) -> FrontMatter | None:
    return receipt.report.front_matter if receipt else None


def _findings_base(submission: Submission) -> str | None:
    """Where the lines of findings are: this version's files here, else the scanned commit on GitHub."""
    if CATEGORY_OF[submission.state] == "published" and submission.published_version:
        return f"/skills/{quote(submission.skill_name)}/versions/{submission.published_version}/files/"
    if not (submission.repo_url and submission.commit):
        return None
    is_folder = submission.skill_path not in (".", "") and not submission.skill_path.startswith("name:")
    folder = f"{quote(submission.skill_path)}/" if is_folder else ""
    return f"{submission.repo_url}/blob/{submission.commit}/{folder}"


def verdict_of(submission: Submission) -> str:
    """The label of the state and the reason, unless the reason starts with that label itself."""
    if CATEGORY_OF[submission.state] == "published":
        return f"Published as version {submission.published_version or labels.UNKNOWN}."
    label, reason = labels.look_of(submission.state).label, (submission.reason or "").rstrip(".")
    return f"{reason or label}." if not reason or reason.startswith(label) else f"{label}: {reason}."


def stages_of(history: Sequence[HistoryEntry]) -> list[Stage]:
    ends = [after.timestamp - before.timestamp for before, after in pairwise(history)]
    return [
        Stage(entry.to_state, entry.timestamp, entry.actor, entry.reason, took)
        for entry, took in zip(history, [*ends, None], strict=True)
    ]


def _place_sentence(place: QueueRank) -> str:
    if place.position is None:
        return f"More than {RANKED} submissions are ahead of it."
    if place.position == 1:
        return "It is next in the queue."
    wait = f", estimated wait {labels.age(place.expected_wait)}" if place.expected_wait else ""
    return f"Position {place.position} in the queue{wait}."


def _facts(submission: Submission, receipt: Receipt | None) -> list[tuple[str, str]]:
    if receipt is None:
        return []
    files = receipt.report.receipt.files
    skipped = sum(bool(file.skipped) for file in files)
    judge = receipt.judgement
    return [
        (
            "Tier 1 scan",
            f"{labels.scan_label(receipt.report.verdict)}, {labels.counted(len(receipt.report.findings), 'finding')}",
        ),
        ("LLM judge", f"{labels.scan_label(judge.judged)}, {judge.score} of 100" if judge else "Not run"),
        ("Files", f"{len(files)}" + (f", {skipped} not read as text" if skipped else "")),
        ("Scanner", f"{receipt.report.receipt.scanner_version}, rules {receipt.rule_set}"),
        ("Scanned", f"{labels.exact(receipt.started_at)}, {labels.duration(receipt.ended_at - receipt.started_at)}"),
        *([("Commit", submission.commit[:12])] if submission.commit else []),
    ]
