"""View models of submissions for the templates: text and structure, no HTML."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from shared.access.auth import Revocation
from shared.evidence.receipt_store import Receipt
from shared.marketplace.client_listing import sentences_of
from shared.marketplace.conformance import check_conformance, installed_folder
from shared.records.appeals import APPEALABLE
from shared.records.runs import split_runs
from shared.records.submissions import (
    CATEGORY_OF,
    LEASED_STATES,
    HistoryEntry,
    State,
    Submission,
    SubmissionRow,
    staleness,
)
from shared.scanner.report import FrontMatter
from shared.submissions.counters import Stats
from shared.submissions.queue_position import RANKED, QueueRank, QueueSnapshot
from shared.submissions.upload_tokens import CANCELLED
from shared.web import labels
from shared.web.findings import by_file
from shared.web.source_files import TreeRow, file_tree


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


def summary(first: int, shown: int, total: int | None, is_last: bool) -> str:
    """`total` is None where it is not known: the results of a search."""
    if not shown:
        return "No submissions" if first == 1 and is_last else "No more on this page"
    if first == 1 and is_last:
        return labels.counted(shown, "submission" if total is not None else "result")
    rows = f"{labels.number(first)}–{labels.number(first + shown - 1)}"
    return rows if total is None else f"{rows} of {labels.number(total)}"


def filters(stats: Stats, selected: str) -> dict[str, list[tuple[str, str]]]:
    """What a list can be limited to, with the number of submissions in it: categories, then the single states that
    have any, and the selected one."""
    known = {name: n for name, n in figures(stats).items() if name != "total"}
    by_state = stats.by_state or dict.fromkeys(State)
    wanted = [state for state in State if by_state.get(state) or state == selected]
    return {
        "": [("", f"All states ({labels.number(stats.total)})")],
        "Categories": [(name, f"{labels.CATEGORY_LABELS[name]} ({labels.number(n)})") for name, n in known.items()],
        "States": [
            (state, f"{labels.filter_label(state)} ({labels.number(by_state.get(state, 0))})") for state in wanted
        ],
    }


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
    is_appealable = submission.state in APPEALABLE and submission.repo_url is not None
    next_ = labels.next_of(submission.state, history[-1].actor if history else "", is_appealable)
    tries = tries_of(history)
    return {
        "verdict": deferral_of(submission, tries, at) or verdict_of(submission),
        "tries": tries,
        "resubmit_url": _resubmit_url(submission),
        "next": labels.CANCELLED_UPLOAD if submission.reason == CANCELLED else next_,
        "place": place and _place_sentence(place),
        "stages": stages_of(history),
        "overdue": staleness(submission, at) or None,
        "is_settled": category != "active",
        "is_followed": category == "active" or submission.state in APPEALABLE,
        "is_published": category == "published",
        "may_resubmit": submission.state in (State.REJECTED, State.TIER1_FAILED, State.ON_HOLD),
        "is_appealable": is_appealable,
        "groups": by_file(receipt.report.findings, files) if receipt else [],
        "truncated": receipt is not None and receipt.truncated,
        "scanned": receipt is not None,
        "has_files": bool(files),
        "tree": _tree(files, receipt),
        "findings_base": _findings_base(submission),
        "judgement": receipt and receipt.judgement,
        "front_matter_problems": (*front.errors, *front.warnings) if (front := _front_matter(receipt)) else (),
        "deviations": _deviations(submission, files),
        "incomplete": receipt.report.incomplete if receipt else (),
        "scanned_at": receipt and receipt.started_at,
        "facts": _facts(submission, receipt),
        "runs": split_runs(history),
    }


def _tree(files: Mapping[str, bytes], receipt: Receipt | None) -> list[TreeRow]:
    return file_tree(files, receipt.report.receipt.files, receipt.report.findings) if receipt else []


def _deviations(submission: Submission, files: Mapping[str, bytes]) -> list[str]:
    """From the specification of agentskills.io."""
    page = files.get("SKILL.md")
    folder = installed_folder(submission.skill_name)
    return [] if page is None else sentences_of(check_conformance(page, folder).deviations)


def _front_matter(receipt: Receipt | None) -> FrontMatter | None:
    return receipt.report.front_matter if receipt else None


def _findings_base(submission: Submission) -> str | None:
    """Where the lines of findings are: this version's files here, else the scanned commit on GitHub."""
    if CATEGORY_OF[submission.state] == "published" and submission.published_version:
        return f"/skills/{quote(submission.skill_name)}/versions/{submission.published_version}/files/"
    if not (submission.repo_url and submission.commit):
        return None
    path = submission.skill_path.removesuffix(f"@{submission.ref}") if submission.ref else submission.skill_path
    is_folder = path not in (".", "") and not path.startswith("name:")
    folder = f"{quote(path)}/" if is_folder else ""
    return f"{submission.repo_url}/blob/{submission.commit}/{folder}"


def verdict_of(submission: Submission) -> str:
    """The label of the state and the reason, unless the reason starts with that label itself."""
    if CATEGORY_OF[submission.state] == "published":
        return f"Published as version {submission.published_version or labels.UNKNOWN}."
    label, reason = labels.look_of(submission.state).label, (submission.reason or "").rstrip(".")
    return f"{reason or label}." if not reason or reason.startswith(label) else f"{label}: {reason}."


def stages_of(history: Sequence[HistoryEntry]) -> list[Stage]:
    """Tries that ended because a service was down are one stage, from the first to the last of them."""
    shown: list[tuple[HistoryEntry, int]] = []
    for entry in history:
        before = _last_deferral(shown) if _is_deferral(entry) else None
        if before is None:
            shown.append((entry, 1))
        else:
            first, tries = shown[before]
            shown[before:] = [(msgspec.structs.replace(first, reason=entry.reason), tries + 1)]
    ends = [after.timestamp - before.timestamp for (before, _), (after, _) in pairwise(shown)]
    return [
        Stage(entry.to_state, entry.timestamp, entry.actor, _reason_shown(entry, tries), took)
        for (entry, tries), took in zip(shown, [*ends, None], strict=True)
    ]


def _last_deferral(shown: Sequence[tuple[HistoryEntry, int]]) -> int | None:
    """Its place, if nothing but an attempt came after it."""
    attempt = len(list(takewhile(lambda one: one[0].to_state in LEASED_STATES, reversed(shown))))
    last = len(shown) - attempt - 1
    return last if attempt and last >= 0 and _is_deferral(shown[last][0]) else None


def tries_of(history: Sequence[HistoryEntry]) -> int:
    return sum(map(_is_deferral, history))


def deferral_of(submission: Submission, tries: int, at: datetime) -> str | None:
    """In place of a verdict: what is down, how often it was tried, and when the next try is."""
    reason = submission.reason or ""
    if submission.state != State.RECEIVED or not reason.startswith(DEFERRED):
        return None
    wait = (submission.not_before or at) - at
    following = f"next try in {labels.age(wait)}" if wait > timedelta() else "next try soon"
    return f"Waiting: {_outage(reason)}, tried {labels.counted(max(tries, 1), 'time')}, {following}."


DEFERRED = "deferred: "
_UNREACHED = re.compile(r"We could not reach (?P<what>[^(.]+?) \((?P<how>[^)]*)\)")


def _is_deferral(entry: HistoryEntry) -> bool:
    return entry.to_state == State.RECEIVED and (entry.reason or "").startswith(DEFERRED)


def _reason_shown(entry: HistoryEntry, tries: int) -> str | None:
    if not _is_deferral(entry):
        return entry.reason
    return f"{_outage(entry.reason or '')}, tried {labels.counted(tries, 'time')}"


def _outage(reason: str) -> str:
    """Older reasons also promise a time: the record knows a better one."""
    text = reason.removeprefix(DEFERRED).partition(" The next try")[0].rstrip(".")
    unreached = _UNREACHED.search(text)
    return f"{unreached['what']} unreachable ({unreached['how']})" if unreached else text


def _resubmit_url(submission: Submission) -> str:
    if not submission.repo_url:
        return f"/submit?{urlencode({'name': submission.skill_name.rpartition('/')[2]})}"
    is_named = submission.skill_path.startswith("name:")
    place = {"skill": submission.skill_path.removeprefix("name:")} if is_named else {"skillPath": submission.skill_path}
    return f"/submit?{urlencode({'repoUrl': submission.repo_url} | place)}"


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
        ("Scan time", labels.duration(receipt.ended_at - receipt.started_at)),
        *([("Commit", submission.commit[:12])] if submission.commit else []),
    ]
