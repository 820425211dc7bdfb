"""What the admin API takes and gives. Every action takes a reason; only the fields named here leave the platform."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from functions.api.blocklist import Entry
from shared.access.audit import MAX_REASON, AuditEntry
from shared.marketplace.community import ReaderReport
from shared.moderation.recount import Progress
from shared.records.external_scans import Link
from shared.records.skills import Skill
from shared.records.submissions import Rescue, State, SubmissionRow
from shared.submissions.dead_letter_store import DeadLetter
from shared.submissions.pause import Pause

Why = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON, pattern=r"\S")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100)]
Cursor = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
LONGEST_BODY = 1000  # of a dead letter's message, in a list


class Because(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    reason: Why


class Decision(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    seen: Annotated[int, msgspec.Meta(ge=1)] | None = None  # the version you looked at: 409 when it is another one now


class RetryAll(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    state: State
    reason_prefix: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON)]
    cursor: Cursor | None = None  # of the answer before, to go on


class RetryLetters(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    letter_reason: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    cursor: Cursor | None = None  # of the answer before, to go on


class PauseFor(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    minutes: Annotated[int, msgspec.Meta(ge=1, le=24 * 60)] = 60


class BlockScope(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """In one source, by content, or everywhere: everywhere only when `global` says so."""

    skill_name: Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"^[!-~]+$")]
    source_url: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] | None = None
    content_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None
    everywhere: bool = msgspec.field(default=False, name="global")


class NewEntry(BlockScope, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    threat_type: Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"^[a-z0-9-]+$")] = "malicious"
    severity: Literal["low", "medium", "high", "critical"] = "high"
    evidence_urls: Annotated[list[Link], msgspec.Meta(max_length=20)] = []


class OfVersion(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    version: Annotated[str, msgspec.Meta(pattern=r"^\d{1,6}\.\d{1,6}\.\d{1,6}$")]


class Rebuild(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    cursor: Cursor | None = None  # of the answer before, to go on


class Repair(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    repair: bool = False
    reason: Why | None = None
    cursor: Cursor | None = None  # of the answer before, to go on


class RevokeToken(Because, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    even_mine: bool = False


class PageQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    limit: Limit = 50
    cursor: Cursor | None = None


class AuditQuery(PageQuery, rename="camel", forbid_unknown_fields=True):
    month: Annotated[str, msgspec.Meta(min_length=7, max_length=7)] | None = None  # like 2026-01


class ReportQuery(PageQuery, rename="camel", forbid_unknown_fields=True):
    state: Literal["open", "all"] = "open"


class StuckRow(msgspec.Struct, rename="camel"):
    submission: SubmissionRow
    attempts: int
    next: Rescue


class StuckList(msgspec.Struct, rename="camel"):
    stuck: list[StuckRow]
    count: int
    unreadable: list[str]
    more: bool
    paused: Pause | None


class Rescued(msgspec.Struct, rename="camel"):
    id: str
    done: Rescue


class Letter(msgspec.Struct, rename="camel"):
    id: str
    reason: str
    submission_id: str | None
    body: str | None  # its beginning; null where it is too large to be shown
    received_at: datetime


class LetterList(msgspec.Struct, rename="camel"):
    dead_letters: list[Letter]
    cursor: str | None
    unreadable: list[str]


class Discarded(msgspec.Struct, rename="camel"):
    id: str
    discarded: bool


class RetriedPage(msgspec.Struct, rename="camel"):
    retried: list[str]  # ids of submissions
    failed: list[str]  # not to be read, somebody else was faster, or it is not open to them now
    left: int  # of those looked at that fit too and still wait
    more: bool  # not all that wait were looked at
    cursor: str | None  # null: nothing is left


class PauseState(msgspec.Struct, rename="camel"):
    paused: Pause | None


class EntryAdded(msgspec.Struct, rename="camel"):
    entry: Entry
    taken_out: list[str]
    failed: list[str]


class EntryRemoved(msgspec.Struct, rename="camel"):
    entry: Entry
    still_blocked: list[str]
    failed: list[str]


class AdminSkill(msgspec.Struct, rename="camel"):
    name: str
    current_version: str
    submission_id: str
    is_blocked: bool
    block_reason: str | None
    is_yanked: bool  # every version is
    is_deleted: bool
    updated_at: datetime


class ReportRow(msgspec.Struct, rename="camel"):
    id: str
    skill_name: str
    type: str
    description: str
    created_at: datetime
    is_open: bool
    settled_by: str | None
    settled_at: datetime | None
    outcome: str | None


class ReportList(msgspec.Struct, rename="camel"):
    reports: list[ReportRow]
    cursor: str | None
    unreadable: list[str]


class Rebuilt(msgspec.Struct, rename="camel"):
    checked: int
    missing: dict[str, int]  # entries that were not there and are now, by index
    failed: list[str]
    cursor: str | None  # null: all is done


class AuditList(msgspec.Struct, rename="camel"):
    month: str
    entries: list[AuditEntry]
    cursor: str | None


class Token(msgspec.Struct, rename="camel"):
    id: str
    name: str
    role: str
    is_yours: bool
    revoked: bool
    revoked_at: datetime | None
    revoked_by: str | None


class TokenList(msgspec.Struct, rename="camel"):
    tokens: list[Token]
    count: int


class RecountAnswer(msgspec.Struct, rename="camel"):
    """Null, and a cursor, until every record is read."""

    checked: int  # records read so far
    total: int  # as the counters say
    counted: dict[str, int] | None  # by state, and of `skills` and `versions`
    found: dict[str, int] | None
    drift: dict[str, int] | None  # what the counters had too many of
    unread: int | None
    busy: int | None  # counters that moved while they were counted: ask again
    repaired: bool
    cursor: str | None


class Migrated(msgspec.Struct, rename="camel"):
    renamed: list[str]
    count: int


def letter_of(letter: DeadLetter) -> Letter:
    body = None if letter.body is None else letter.body[:LONGEST_BODY]
    return Letter(letter.id, letter.reason, letter.submission_id, body, letter.received_at)


def report_of(report: ReaderReport) -> ReportRow:
    return ReportRow(
        report.id,
        report.skill_name,
        report.type,
        report.description,
        report.created_at,
        report.is_open,
        report.settled_by,
        report.settled_at,
        report.outcome,
    )


def skill_of(skill: Skill) -> AdminSkill:
    return AdminSkill(
        skill.name,
        skill.current_version,
        skill.submission_id,
        skill.is_blocked,
        skill.block_reason,
        skill.is_yanked,
        skill.is_deleted,
        skill.updated_at,
    )


def recount_of(progress: Progress, is_repair: bool, cursor: str | None) -> RecountAnswer:
    """The cursor is for a count that is not done yet."""
    result = progress.recount
    return RecountAnswer(
        checked=progress.checked,
        total=progress.total,
        counted=result and result.counted,
        found=result and result.found,
        drift=result and result.drift,
        unread=result and result.unread,
        busy=result and result.busy,
        repaired=is_repair and result is not None,
        cursor=None if result else cursor,
    )
