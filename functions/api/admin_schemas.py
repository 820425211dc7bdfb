"""Requests and responses of the admin API. Every action requires a reason; only fields named here are returned."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from functions.api.blocklist import Entry
from functions.api.submission_schemas import Cursor
from shared.access.audit import MAX_REASON, VISIBLE, AuditEntry
from shared.marketplace.community import ReaderReport
from shared.moderation.recount import Progress
from shared.records.external_scans import Link
from shared.records.skills import Skill
from shared.records.submissions import Rescue, State, SubmissionRow
from shared.submissions.dead_letter_store import DeadLetter
from shared.submissions.pause import Pause

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON, pattern=VISIBLE)]
PageLimit = Annotated[int, msgspec.Meta(ge=1, le=100)]
BlockedFiles = Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]], msgspec.Meta(max_length=20)]
MAX_LISTED_BODY = 1000  # characters of a dead letter's message in a list


class WithReason(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    reason: Reason


class Decision(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    seen: Annotated[int, msgspec.Meta(ge=1)] | None = None  # the version you saw: 409 if it has changed since


class BlockDecision(Decision, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    files: BlockedFiles = []  # paths of the files the block rests on; without any, what the scan found


class BlockSkill(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    files: BlockedFiles = []  # paths of the files the block rests on; without any, what the scan found


class RetryAll(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    state: State
    reason_prefix: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON)]
    cursor: Cursor | None = None  # of the previous response


class RetryDeadLetters(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    letter_reason: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    cursor: Cursor | None = None  # of the previous response


class PauseRequest(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    minutes: Annotated[int, msgspec.Meta(ge=1, le=24 * 60)] = 60


class BlockScope(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """In one source, by content, or everywhere; everywhere only if `global` is true."""

    skill_name: Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"^[!-~]+$")]
    source_url: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] | None = None
    content_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None
    everywhere: bool = msgspec.field(default=False, name="global")


class NewEntry(BlockScope, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    threat_type: Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"^[a-z0-9-]+$")] = "malicious"
    severity: Literal["low", "medium", "high", "critical"] = "high"
    evidence_urls: Annotated[list[Link], msgspec.Meta(max_length=20)] = []


class VersionAction(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    version: Annotated[str, msgspec.Meta(pattern=r"^\d{1,6}\.\d{1,6}\.\d{1,6}$")]


class Rebuild(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    cursor: Cursor | None = None  # of the previous response


class Repair(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    repair: bool = False
    reason: Reason | None = None
    cursor: Cursor | None = None  # of the previous response


class RevokeToken(WithReason, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    even_mine: bool = False


class PageQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    limit: PageLimit = 50
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
    body: str | None  # truncated; null if it is too large to be kept
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
    failed: list[str]  # unreadable, changed by someone else meanwhile, or in a state that does not allow it
    left: int  # matching submissions of this page that were not retried yet
    more: bool  # there are submissions that were not looked at
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
    is_yanked: bool  # all versions are
    is_deleted: bool
    updated_at: datetime


class ReportRow(msgspec.Struct, rename="camel"):
    id: str
    skill_name: str
    type: str
    description: str
    created_at: datetime
    is_open: bool
    confirmed_by: str | None
    settled_by: str | None
    settled_at: datetime | None
    outcome: str | None


class ReportList(msgspec.Struct, rename="camel"):
    reports: list[ReportRow]
    cursor: str | None
    unreadable: list[str]


class Rebuilt(msgspec.Struct, rename="camel"):
    checked: int
    missing: dict[str, int]  # restored entries, by index
    failed: list[str]
    cursor: str | None  # null: finished


class ArtifactsBuilt(msgspec.Struct, rename="camel"):
    checked: int  # versions
    built: int
    failed: list[str]  # name@version
    cursor: str | None  # null: finished


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
    """Results are null, and `cursor` is not, until every record has been read."""

    checked: int  # records read so far
    total: int  # according to the counters
    counted: dict[str, int] | None  # by state, plus `skills`, `versions` and facets (`category=data`)
    found: dict[str, int] | None
    drift: dict[str, int] | None  # counters minus records
    unread: int | None
    busy: int | None  # counters that changed while they were counted: run it again
    repaired: bool
    cursor: str | None


class Migrated(msgspec.Struct, rename="camel"):
    renamed: list[str]
    count: int


def letter_of(letter: DeadLetter) -> Letter:
    body = None if letter.body is None else letter.body[:MAX_LISTED_BODY]
    return Letter(letter.id, letter.reason, letter.submission_id, body, letter.received_at)


def report_of(report: ReaderReport) -> ReportRow:
    return msgspec.convert(report, ReportRow, from_attributes=True)


def skill_of(skill: Skill) -> AdminSkill:
    return msgspec.convert(skill, AdminSkill, from_attributes=True)


def recount_of(progress: Progress, is_repair: bool, cursor: str | None) -> RecountAnswer:
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
