"""Requests and responses of the submission routes: validated and documented from these types."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shared.records.judgement import Concern
from shared.records.submissions import CATEGORIES, ID_PATTERN, HistoryEntry, State, SubmissionRow
from shared.scanner.report import Action, Capability, Finding, ScannedFile, Verdict
from shared.submissions.counters import Stats
from shared.submissions.feed import POSITION_PATTERN
from shared.submissions.skill_source import SLUG_PATTERN
from shared.submissions.submission_list import MAX_LIMIT

MAX_POSITIONS = 100
_AN_ID = "sub_01jcv2m8f0r4k9x3w7n5t1q6hz"
_A_REPO = "https://github.com/owner/repo"

SubmissionId = Annotated[str, Meta(extra_json_schema={"pattern": f"^{ID_PATTERN}$", "examples": [_AN_ID]})]
RepoUrl = Annotated[
    str, Meta(max_length=2000, description="A repository on GitHub, or a folder in it.", examples=[_A_REPO])
]
Slug = Annotated[str, Meta(extra_json_schema={"pattern": f"^{SLUG_PATTERN}$", "maxLength": 64, "examples": ["pdf"]})]
NameInRepo = Annotated[
    str,
    Meta(
        description="Of its folder, in any case, or of its front matter.",
        extra_json_schema={
            "pattern": f"^{SLUG_PATTERN.replace('a-z', 'A-Za-z')}$",
            "maxLength": 64,
            "examples": ["pdf"],
        },
    ),
]
Cursor = Annotated[str, Meta(min_length=1, max_length=2000, description="`cursor` of the previous page.")]
Since = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="`lastEventId` of the previous response.",
        extra_json_schema={"pattern": f"^{POSITION_PATTERN}$"},
    ),
]
SentBy = Annotated[str, Meta(max_length=64, description="The client that sends this, like `cli`.", examples=["cli"])]


# --- requests -------------------------------------------------------------------------------------------------------


class ListParameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 50
    cursor: Cursor | None = None
    state: (
        Annotated[
            str,
            Meta(
                max_length=40,
                description="A state or a category. Sorted by `updatedAt`, with `q` newest first.",
                extra_json_schema={"enum": [*CATEGORIES, *(str(state) for state in State)]},
            ),
        ]
        | None
    ) = None
    sort: (
        Annotated[
            Literal["createdAt", "updatedAt"], Meta(description="By default `createdAt`, with `state` `updatedAt`.")
        ]
        | None
    ) = None
    sort_dir: Annotated[Literal["asc", "desc"], Meta(description="`desc` by default.")] | None = None
    repo_url: (
        Annotated[
            str,
            Meta(max_length=2000, description="All of one repository. Can be combined with `limit` and `cursor` only."),
        ]
        | None
    ) = None
    q: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=100,
                description="Beginnings of words of owner, repository or skill. One letter after the second may be"
                " wrong. Can be combined with `state`.",
            ),
        ]
        | None
    ) = None


class PositionsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ids: Annotated[
        str,
        Meta(
            max_length=MAX_POSITIONS * (len(_AN_ID) + 1),
            description=f"Up to {MAX_POSITIONS} ids, separated by commas.",
            examples=[_AN_ID],
            extra_json_schema={"pattern": f"^{ID_PATTERN}(,{ID_PATTERN}){{0,{MAX_POSITIONS - 1}}}$"},
        ),
    ]


class EventParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: Since | None = None


class ReportParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[
        Literal["json", "sarif"], Meta(description="`sarif` is SARIF 2.1.0, for code-scanning tools.")
    ] = "json"


class BundleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(examples=["SKILL.md"])]
    content: Annotated[str, Meta(examples=["---\nname: hello\ndescription: Greets.\n---\n"])]
    encoding: Annotated[
        Literal["utf-8", "base64"], Meta(description="Of `content`: `base64` for a file that is not text.")
    ] = "utf-8"


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Slug
    files: list[BundleFile]


class NamedSkill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: NameInRepo
    path: str | None = None


class SubmitRepo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One skill of a repository. Name and path are optional if the repository has only one skill."""

    repo_url: RepoUrl
    skill_name: NameInRepo | None = None
    skill_path: Annotated[str, Meta(description="The folder of its SKILL.md.")] | None = None
    source: SentBy | None = None


class SubmitSkills(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Several skills of a repository. Those that cannot be accepted are listed as `skipped`."""

    repo_url: RepoUrl
    skills: Annotated[list[NamedSkill], Meta(min_length=1, max_length=50)]
    source: SentBy | None = None


class SubmitBundle(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The files themselves, if this platform accepts uploads."""

    bundle: Bundle
    upload_token: (
        Annotated[str, Meta(description="From the first response; required to submit new content.")] | None
    ) = None
    source: SentBy | None = None


class CheckBundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bundle: Bundle


class UploadToken(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    upload_token: Annotated[str, Meta(min_length=1, max_length=200)]


SubmitBody = SubmitRepo | SubmitSkills | SubmitBundle


class DiscoverBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    repo_url: RepoUrl


# --- responses ------------------------------------------------------------------------------------------------------


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: SubmissionId
    submission_id: SubmissionId
    skill_name: str
    state: State
    created_at: datetime
    upload_token: Annotated[str, Meta(description="Of a bundle; returned only here.")] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET


class Submitted(Created, frozen=True, kw_only=True):
    """One of the flags is set if it was submitted before."""

    reason: str | UnsetType | None = UNSET
    duplicate: bool | UnsetType = UNSET
    already_verified: bool | UnsetType = UNSET
    requeued: bool | UnsetType = UNSET
    blocked: bool | UnsetType = UNSET


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str | None
    code: str
    message: str


class Batch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    submissions: list[Submitted]
    count: int
    skipped: list[Skipped]
    repo_url: str


class DiscoveredSkill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    path: str
    status: Annotated[str, Meta(description="`new`, the state of its submission, or `unknown` if that cannot be read.")]
    submission_id: SubmissionId | UnsetType = UNSET


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    skills: list[DiscoveredSkill]
    count: int
    truncated: Annotated[bool, Meta(description="There are more skills than are listed.")]


class SubmissionList(msgspec.Struct, frozen=True, kw_only=True):
    submissions: list[SubmissionRow]
    total: Annotated[
        int | None, Meta(description="Exact without a filter and with `state`; null with `q` and `repoUrl`.")
    ]
    cursor: Annotated[str | None, Meta(description="Null on the last page.")]
    stats: Stats
    degraded: bool
    stale: Annotated[list[SubmissionId], Meta(description="Not read again; shown as an index or the feed has them.")]


class Events(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    events: Annotated[list[SubmissionRow], Meta(description="Deduplicate by (`id`, `version`).")]
    stats: Stats
    last_event_id: str
    reset: Annotated[bool, Meta(description="`since` is older than an hour: reload the list.")]
    more: Annotated[bool, Meta(description="There are more events: request them at once.")]


class Position(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: SubmissionId
    state: Annotated[State | None, Meta(description="Null if there is no such submission or it could not be read.")]
    position: Annotated[int | None, Meta(description="Null unless it is waiting among the first 500.")]
    ahead: int | Literal["500+"] | None
    expected_wait_ms: int | None


class Positions(msgspec.Struct, frozen=True, kw_only=True):
    positions: list[Position]
    degraded: bool
    stale: list[SubmissionId]


class StageTiming(msgspec.Struct, frozen=True):
    state: State
    ms: int


class Staleness(msgspec.Struct, frozen=True, rename="camel"):
    is_stuck: bool
    overdue_ms: int


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    position: Annotated[int | None, Meta(description="Null beyond the first 500.")]
    ahead: int | Literal["500+"] | None
    expected_wait_ms: Annotated[int | None, Meta(description="Null if there is no estimate.")]


class BlockInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    blocked_by: Annotated[
        str | None, Meta(description="`rule`, `blocklist`, `person` or another part that blocked it.")
    ]
    reason: str | None
    blocked_at: datetime
    threat_type: Annotated[
        str | None, Meta(description="Of the blocklist entry; null if a rule or a person blocked it.")
    ]
    severity: str | None
    evidence_urls: list[str]


class JudgementBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    verdict: str
    score: int
    intent: str
    scope: str
    concerns: tuple[Concern, ...]
    model_id: str


class ScanFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a scan of files says, stored or not."""

    verdict: Verdict
    action: Action
    certain: bool
    score: int
    incomplete: tuple[str, ...]
    findings: tuple[Finding, ...]
    truncated: Annotated[bool, Meta(description="There were more findings than are listed.")]
    capabilities: tuple[Capability, ...]
    warnings: tuple[str, ...]
    scanner_version: str
    rule_set: str
    content_hash: str
    files: tuple[ScannedFile, ...]


class CheckResult(ScanFields, frozen=True, kw_only=True):
    errors: tuple[str, ...]


class ScanResult(ScanFields, frozen=True, kw_only=True):
    started_at: datetime
    ended_at: datetime
    judgement: JudgementBody | Literal["not_judged"]


class SubmissionDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The public fields of a submission."""

    id: SubmissionId
    submission_id: SubmissionId
    skill_name: str
    skill_path: str
    repo_url: str | None
    state: State
    category: str
    reason: str | None
    error: str | None
    score: int | None
    attempts: int
    created_at: datetime
    updated_at: datetime
    version: int
    content_hash: str | None
    published_version: str | None
    published_skill_name: str | None
    copy_of: Annotated[str | None, Meta(description="The skill that published exactly this content here first.")]
    state_history: list[HistoryEntry]
    stage_timings: list[StageTiming]
    staleness: Annotated[Staleness | None, Meta(description="Null if it needs no further processing.")]
    scan_result: Annotated[ScanResult | None, Meta(description="Null until it has been scanned.")]
    block_info: Annotated[BlockInfo | None, Meta(description="Null unless it is BLOCKED.")]
    queue: Annotated[QueuePlace | None, Meta(description="Null unless it is waiting (RECEIVED).")]


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    submission_id: SubmissionId
    skill_name: str
    repo_url: str | None
    commit: str | None
    state: State
    reason: str | None
    scan_result: ScanResult


class Totals(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    total: int | None
    active: int | None
    published: int | None
    rejected: int | None
    blocked: int | None
    on_hold: int | None


class PlatformStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    submissions: Totals
    skills: Annotated[int | None, Meta(description="In the marketplace: not blocked, deleted or entirely yanked.")]
    versions: Annotated[
        int | None, Meta(description="Of these skills, including yanked versions, which are still shown.")
    ]
    generated_at: datetime
    degraded: bool


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok", "degraded"]
    parts: Annotated[dict[str, str], Meta(description="`ok` or `down`, for each part.")]
    warnings: Annotated[list[str], Meta(description="What works, but not as it should.")] = []
