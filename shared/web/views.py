"""What the templates show, made from records: words and shapes, no HTML."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from shared.community import trust_of
from shared.diffs import FileDiff
from shared.receipt_store import Receipt
from shared.skills import Skill, SkillCounts, SkillVersion, split_name
from shared.stats import Hour, Stats
from shared.submission_list import Listing
from shared.submission_store import SubmissionRow
from shared.submissions import CATEGORY_OF, HistoryEntry, State, Submission, staleness
from shared.waiting import RANKED, Waiting, expected_wait, settled_per_hour
from shared.web import words
from shared.web.findings import by_file

TIERS = {
    "CERTIFIED": words.Look("Certified", "published", "check"),
    "VERIFIED": words.Look("Verified", "published", "check"),
    "SCANNED": words.Look("Scanned", "active", "scan"),
}


class Place(NamedTuple):
    position: int | None  # None: behind all that are ranked
    wait: timedelta | None


class Stage(NamedTuple):
    state: State
    at: datetime
    actor: str
    reason: str | None
    took: timedelta | None


class Tick(NamedTuple):
    icon: str
    text: str


class SkillView(NamedTuple):
    name: str
    owner: str
    repo: str
    slug: str
    description: str
    repo_url: str | None
    version: str
    tier: words.Look | None
    trust: list[Tick]
    capabilities: list[Tick]
    category: str
    tags: Sequence[str]
    published_at: datetime
    updated_at: datetime
    content_hash: str
    submission_id: str
    is_blocked: bool
    is_tainted: bool
    block_reason: str | None


class VersionView(NamedTuple):
    version: str
    created_at: datetime
    is_current: bool
    before: str | None


class DiffLine(NamedTuple):
    kind: str
    mark: str
    text: str


class DiffFile(NamedTuple):
    filename: str
    status: str
    additions: int
    deletions: int
    lines: list[DiffLine] | None


class DiffView(NamedTuple):
    from_version: str
    to_version: str
    summary: str
    files: list[DiffFile]


def figures(stats: Stats) -> dict[str, int | None]:
    return {
        "total": stats.total,
        "active": stats.active,
        "published": stats.published,
        "rejected": stats.rejected,
        "blocked": stats.blocked,
        "onHold": stats.on_hold,
    }


def summary(listing: Listing, selected: str, *, is_later_page: bool) -> str:
    what = words.CATEGORY_LABELS.get(selected) or words.look_of(State(selected)).label
    of_them = "of them" if selected == "total" else what.lower()
    if listing.total is None:
        return f"{len(listing.rows)} shown"
    if is_later_page:
        return f"{len(listing.rows)} more of {words.number(listing.total)} {of_them}".removesuffix(" of them")
    if len(listing.rows) < listing.total:
        return f"The first {len(listing.rows)} of {words.number(listing.total)} {of_them}".removesuffix(" of them")
    return words.counted(listing.total, "submission") if selected == "total" else f"{listing.total} {of_them}"


def skills_summary(shown: int, *, has_more: bool, is_later_page: bool) -> str:
    if has_more or is_later_page:
        return f"{shown} shown, newest first"
    return words.counted(shown, "skill") + (", newest first" if shown > 1 else "")


def places(
    rows: Iterable[SubmissionRow | Submission],
    waiting: Waiting | None,
    hours: Sequence[Hour] | None,
    paused_until: datetime | None,
    at: datetime,
) -> dict[str, Place]:
    """Only for those that wait. No promise while the queue is paused or its pace is unknown."""
    if waiting is None:
        return {}
    pace = 0.0 if hours is None or paused_until else settled_per_hour(hours, at)
    ranks = {submission_id: n for n, submission_id in enumerate(waiting.ids, 1)}
    shown = {}
    for row in rows:
        if row.state == State.RECEIVED and (row.id in ranks or waiting.more):
            rank = ranks.get(row.id)
            shown[row.id] = Place(rank, None if rank is None else expected_wait(rank, pace))
    return shown


def submission_view(
    submission: Submission,
    history: Sequence[HistoryEntry],
    at: datetime,
    place: Place | None,
    receipt: Receipt | None,
    files: Mapping[str, bytes],
) -> dict[str, Any]:
    category = CATEGORY_OF[submission.state]
    return {
        "verdict": verdict_of(submission),
        "next": words.NEXT[submission.state],
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
        "has_report": False,
    }


def verdict_of(submission: Submission) -> str:
    category = CATEGORY_OF[submission.state]
    if category == "active":
        detail = f": {submission.reason}" if submission.reason else ""
        return f"{words.look_of(submission.state).label}{detail}."
    if category == "published":
        return f"Published as version {submission.published_version or words.UNKNOWN}."
    reason = (submission.reason or "no reason is recorded").rstrip(".")
    verdict = words.VERDICTS[category]
    return f"{reason}." if reason.startswith(verdict) else f"{verdict}: {reason}."


def stages_of(history: Sequence[HistoryEntry]) -> list[Stage]:
    ends = [after.timestamp - before.timestamp for before, after in pairwise(history)]
    return [
        Stage(entry.to_state, entry.timestamp, entry.actor, entry.reason, took)
        for entry, took in zip(history, [*ends, None], strict=True)
    ]


def skill_view(skill: Skill, at: datetime, counts: SkillCounts | None = None) -> SkillView:
    name = split_name(skill.name)
    return SkillView(
        name=skill.name,
        owner=name.owner,
        repo=name.repo,
        slug=name.slug,
        description=skill.description,
        repo_url=skill.repo_url,
        version=skill.current_version,
        tier=TIERS.get(skill.cert_tier),
        trust=_trust(skill, at, counts),
        capabilities=_capabilities(skill.capabilities),
        category=skill.category,
        tags=skill.tags,
        published_at=skill.published_at,
        updated_at=skill.updated_at,
        content_hash=skill.content_hash,
        submission_id=skill.submission_id,
        is_blocked=skill.is_blocked,
        is_tainted=False,
        block_reason=skill.block_reason,
    )


def version_views(versions: Sequence[SkillVersion], current: str) -> list[VersionView]:
    """Newest first, each with the one before it."""
    earlier = [version.version for version in versions[1:]]
    return [
        VersionView(version.version, version.created_at, version.version == current, before)
        for version, before in zip(versions, [*earlier, None], strict=False)
    ]


def diff_view(from_version: str, to_version: str, summary_: str, files: Iterable[FileDiff]) -> DiffView:
    return DiffView(from_version, to_version, summary_, [_diff_file(file) for file in files])


def _diff_file(file: FileDiff) -> DiffFile:
    lines = None if file.patch is None else [_diff_line(line) for line in file.patch.split("\n")]
    return DiffFile(file.filename, file.status, file.additions, file.deletions, lines)


def _diff_line(line: str) -> DiffLine:
    kinds = {"+": "added", "-": "removed", "@": "hunk"}
    kind = kinds.get(line[:1], "same")
    return DiffLine(kind, line[:1] if kind in ("added", "removed") else "", line if kind == "hunk" else line[1:])


def _place_sentence(place: Place) -> str:
    if place.position is None:
        return f"More than {RANKED} are before it."
    if place.position == 1:
        return "It is next."
    wait = f", about {words.age(place.wait)} from its turn" if place.wait else ""
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
        ("Tier 1", f"{receipt.report.verdict}, {words.counted(len(receipt.report.findings), 'finding')}"),
        ("Judge", f"{judge.judged}, {judge.score} of 100" if judge else "not asked"),
        ("Files", f"{len(files)}" + (f", {skipped} not read as text" if skipped else "")),
        ("Scanner", f"{receipt.report.receipt.scanner_version}, rules {receipt.rule_set}"),
        ("Scanned", f"{words.exact(receipt.started_at)}, {words.duration(receipt.ended_at - receipt.started_at)}"),
        *([("Commit", submission.commit[:12])] if submission.commit else []),
    ]


def _trust(skill: Skill, at: datetime, counts: SkillCounts | None) -> list[Tick]:
    """What the tier and the score rest on, one line each."""
    is_certified = skill.cert_tier == "CERTIFIED"
    earned = trust_of(skill, counts, at)
    judged = f"Judged {skill.judge_score} of 100" if skill.judge_score is not None else "No judge has read it"
    return [
        Tick("check" if earned.score >= 60 else "alert", f"Trust {earned.tier}, {earned.score} of 100"),
        Tick("check" if skill.verdict == "PASS" else "alert", f"Static scan: {_verdict_word(skill)}"),
        Tick("check" if skill.judge_score is not None else "clock", judged),
        *([Tick("check", "Approved by a person or from a trusted owner")] if is_certified else []),
        _origin(skill),
    ]


def _verdict_word(skill: Skill) -> str:
    verdicts = {
        "PASS": "nothing to report",
        "CONCERNS": "concerns, see the evidence",
        "FAIL": "failed, see the evidence",
    }
    score = "" if skill.score is None else f" ({skill.score} of 100)"
    return f"{verdicts.get(skill.verdict or '', 'not recorded')}{score}"


def _origin(skill: Skill) -> Tick:
    if skill.repo_url is None:
        return Tick("alert", "Uploaded: nobody vouches for its origin")
    if skill.has_provenance:
        return Tick("check", f"Public repository, commit {(skill.commit or '')[:12]}")
    return Tick("alert", "From a branch or tag, not the default branch" if skill.ref else "Origin not verified")


def _capabilities(found: Iterable[str]) -> list[Tick]:
    icons = {"shell": "terminal", "network": "network", "credentials": "key", "persistence": "lock"}
    return [Tick(icons.get(name, "file"), words.CAPABILITIES.get(name, name)) for name in dict.fromkeys(found)]
