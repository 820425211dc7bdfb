"""What the templates show of submissions, made from records: words and shapes, no HTML."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from shared.access.auth import Revocation
from shared.evidence.receipt_store import Receipt
from shared.records.submissions import CATEGORY_OF, HistoryEntry, State, Submission, SubmissionRow, staleness
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
    """A token as operators may see it: never the token, never its whole hash."""

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
    """`selected`: which card or state; None: what a search found."""
    if selected is None:
        is_all = listing.next_position is None and not is_later_page
        found = labels.counted(len(listing.rows), "submission fits", "submissions fit")
        return found if is_all else f"{len(listing.rows)} shown"
    what = labels.CATEGORY_LABELS.get(selected) or labels.look_of(State(selected)).label
    of_them = "of them" if selected == "total" else what.lower()
    if listing.total is None:
        return f"{len(listing.rows)} shown"
    if is_later_page:
        return f"{len(listing.rows)} more of {labels.number(listing.total)} {of_them}".removesuffix(" of them")
    if len(listing.rows) < listing.total:
        return f"The first {len(listing.rows)} of {labels.number(listing.total)} {of_them}".removesuffix(" of them")
    return labels.counted(listing.total, "submission") if selected == "total" else f"{listing.total} {of_them}"


def places(rows: Iterable[SubmissionRow | Submission], line: QueueSnapshot | None) -> dict[str, QueueRank]:
    """Only for those that wait, and whose place is known or known to be far behind."""
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
        "stuck_for": _overdue(submission, at),
        "is_settled": category != "active",
        "is_published": category == "published",
        "may_resubmit": submission.state in (State.REJECTED, State.TIER1_FAILED, State.ON_HOLD),
        "groups": by_file(receipt.report.findings, files) if receipt else [],
        "truncated": receipt is not None and receipt.truncated,
        "scanned": receipt is not None,
        "judgement": receipt and receipt.judgement,
        "incomplete": receipt.report.incomplete if receipt else (),
        "facts": _facts(submission, receipt),
    }


def verdict_of(submission: Submission) -> str:
    category = CATEGORY_OF[submission.state]
    if category == "active":
        detail = f": {submission.reason}" if submission.reason else ""
        return f"{labels.look_of(submission.state).label}{detail}."
    if category == "published":
        return f"Published as version {submission.published_version or labels.UNKNOWN}."
    reason = (submission.reason or "no reason is recorded").rstrip(".")
    verdict = labels.VERDICTS[category]
    return f"{reason}." if reason.startswith(verdict) else f"{verdict}: {reason}."


def stages_of(history: Sequence[HistoryEntry]) -> list[Stage]:
    ends = [after.timestamp - before.timestamp for before, after in pairwise(history)]
    return [
        Stage(entry.to_state, entry.timestamp, entry.actor, entry.reason, took)
        for entry, took in zip(history, [*ends, None], strict=True)
    ]


def _place_sentence(place: QueueRank) -> str:
    if place.position is None:
        return f"More than {RANKED} are before it."
    if place.position == 1:
        return "It is next."
    wait = f", about {labels.age(place.expected_wait)} from its turn" if place.expected_wait else ""
    return f"It is number {place.position} in line{wait}."


def _overdue(submission: Submission, at: datetime) -> timedelta | None:
    return staleness(submission, at) or None


def _facts(submission: Submission, receipt: Receipt | None) -> list[tuple[str, str]]:
    """What the scan rests on."""
    if receipt is None:
        return []
    files = receipt.report.receipt.files
    skipped = sum(bool(file.skipped) for file in files)
    judge = receipt.judgement
    return [
        ("Tier 1", f"{receipt.report.verdict}, {labels.counted(len(receipt.report.findings), 'finding')}"),
        ("Judge", f"{judge.judged}, {judge.score} of 100" if judge else "not asked"),
        ("Files", f"{len(files)}" + (f", {skipped} not read as text" if skipped else "")),
        ("Scanner", f"{receipt.report.receipt.scanner_version}, rules {receipt.rule_set}"),
        ("Scanned", f"{labels.exact(receipt.started_at)}, {labels.duration(receipt.ended_at - receipt.started_at)}"),
        *([("Commit", submission.commit[:12])] if submission.commit else []),
    ]
