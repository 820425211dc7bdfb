"""Responses of the marketplace: each lists its fields, so no other field of a record is ever shown."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec

from shared.evidence.blocklist import BlockEntry
from shared.marketplace.diffs import FileDiff
from shared.marketplace.external_scan_store import ProviderSecurity, Security
from shared.marketplace.repo_health_store import RepoHealth, RepoStatus
from shared.marketplace.skill_signals import SkillSignals
from shared.records.decision import TrustTier
from shared.records.external_scans import ExternalVerdict, Status
from shared.records.skills import (
    Artifact,
    Deprecation,
    Skill,
    SkillVersion,
    full_name,
    run_url,
    set_by_owner,
    split_name,
)
from shared.scanner.report import Capability

UNSET = msgspec.UNSET


class SkillItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A skill in a list. Null: not known at the moment. `ownerSlug` and `repoSlug` name the repository that clients
    install from; they are null for an upload, because `uploads` on GitHub is an unrelated owner."""

    name: str
    author: str
    description: str
    cert_tier: str
    trust_tier: TrustTier
    trust_score: Annotated[int | None, msgspec.Meta(description="Null for a blocked skill.")]
    cert_score: int | None
    current_version: str
    repo_url: str | None
    owner_slug: str | None
    repo_slug: str | None
    skill_slug: str
    vskill_installs: int | None
    github_stars: int | None
    is_blocked: bool
    is_tainted: bool | None
    category: str
    tags: tuple[str, ...]
    license: Annotated[str | None, msgspec.Meta(description="As its front matter states it.")]
    capabilities: tuple[str, ...]


# The values that clients know, from worst to best: they stop an installation at FAIL and warn about any other value.
ScanStatus = Literal["FAIL", "PENDING", "TIMED_OUT", "PASS"]


class ProviderBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """PENDING until finished, then PASS or FAIL; TIMED_OUT: the scan failed or was never finished. Concerns show in
    `verdict` only: they do not fail a skill."""

    provider: str
    status: ScanStatus
    verdict: ExternalVerdict | None
    score: int | None
    critical_count: int | None
    report_url: str | None


class SecurityBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Results of external scanners. `overallVerdict` is the worst status, `reportUrl` the path of the page that shows
    them all; both are null if no scan was requested."""

    overall_verdict: ScanStatus | None
    report_url: str | None
    providers: list[ProviderBody]


class SkillDetail(SkillItem, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`content` is the SKILL.md, null if the skill is blocked; `blockReason` then says why. `isYanked`: every version
    is yanked. `withdrawn`, `deprecated`, `transferredTo` and `transferredFrom` are set by its owner."""

    display_name: str
    content: str | None
    sha: str | None
    updated_at: datetime
    provenance_verified: bool
    copy_of: Annotated[
        str | None, msgspec.Meta(description="The skill that published exactly this content here first.")
    ]
    versions: int
    daily_installs: list[int] | None
    security: SecurityBody
    permissions: Annotated[
        tuple[str, ...] | None,
        msgspec.Meta(description="Hosts, paths, variables and commands that the scan observed; null: not recorded."),
    ]
    compatibility: str | None
    allowed_tools: tuple[str, ...]
    is_yanked: bool = False
    changed_hands: Annotated[
        bool, msgspec.Meta(description="Its repository's name leads to another one: it is not offered until that ends.")
    ] = False
    source_gone: Annotated[bool, msgspec.Meta(description="Its repository is deleted or private.")] = False
    block_reason: str | None = None
    withdrawn: Annotated[str | None, msgspec.Meta(description="Why it can no longer be installed.")] = None
    deprecated: Deprecation | None = None
    transferred_to: str | None = None
    transferred_from: str | None = None


class SkillAnswer(msgspec.Struct, frozen=True):
    skill: SkillDetail


class SkillList(msgspec.Struct, frozen=True):
    """`cursor` continues the list; null on its last page. `stale` lists the skills that could not be read."""

    skills: list[SkillItem]
    cursor: str | None
    degraded: bool
    stale: list[str]


class Pagination(msgspec.Struct, frozen=True, rename="camel"):
    has_more: bool


class SearchAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`degraded` is present if something could not be read."""

    results: list[SkillItem]
    pagination: Pagination
    degraded: bool = False


class VersionItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    version: str
    cert_tier: str
    cert_score: Annotated[int | None, msgspec.Meta(description="Null for a blocked skill or version.")]
    created_at: datetime
    content_hash: str
    diff_summary: str | None
    new_permissions: Annotated[
        tuple[str, ...], msgspec.Meta(description="What this version may do and the version before it could not.")
    ]
    run_url: Annotated[str, msgspec.Meta(description="The page of the run of its submission that published it.")]
    is_yanked: bool | msgspec.UnsetType = UNSET  # present if true
    yank_reason: str | msgspec.UnsetType = UNSET
    is_blocked: bool | msgspec.UnsetType = UNSET  # present if its content is on the blocklist
    block_reason: str | msgspec.UnsetType = UNSET
    artifacts: dict[str, Artifact] | msgspec.UnsetType = UNSET  # by packaging; absent before they are built


class VersionList(msgspec.Struct, frozen=True):
    versions: list[VersionItem]


class ContentFile(msgspec.Struct, frozen=True):
    path: str
    size: int


class VersionDetail(VersionItem, frozen=True, kw_only=True, rename="camel"):
    """`content` is the SKILL.md of this version; null, with `files` empty, if the skill or the version is blocked.
    `capabilities` are null then, and where the scan of this version is not stored."""

    name: str
    sha: str | None
    content: str | None
    files: list[ContentFile]
    capabilities: tuple[Capability, ...] | None


class VersionDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`contentDiff` is one unified diff of all files, empty if nothing changed."""

    from_: str = msgspec.field(name="from")
    to: str
    diff_summary: str
    content_diff: str


class VersionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A `patch` is null if a file is not text or too long to be shown."""

    from_: str = msgspec.field(name="from")
    to: str
    files: list[FileDiff]


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Null: not known (yet); always null for an upload, which has no repository."""

    status: RepoStatus | None
    checked_at: datetime | None
    last_commit_at: datetime | None
    github_stars: int | None
    repo_url: str | None
    is_archived: bool | None
    head: Annotated[str | None, msgspec.Meta(description="The newest commit that was seen of the default branch.")]
    changed_hands: Annotated[bool, msgspec.Meta(description="The name leads to another repository than was scanned.")]


def item_of(skill: Skill, signals: SkillSignals) -> SkillItem:
    return SkillItem(**_fields(skill, signals))


def detail_of(
    skill: Skill,
    signals: SkillSignals,
    content: str | None,
    security: Security,
    daily_installs: list[int] | None,
) -> SkillDetail:
    return SkillDetail(
        **_fields(skill, signals),
        display_name=skill.display_name,
        content=content,
        sha=skill.commit,
        updated_at=skill.updated_at,
        provenance_verified=skill.has_provenance,
        copy_of=skill.copy_of,
        versions=skill.versions,
        daily_installs=daily_installs,
        security=security_of(skill, security),
        permissions=skill.permissions,
        compatibility=skill.compatibility or None,
        allowed_tools=skill.allowed_tools,
        is_yanked=skill.is_yanked,
        changed_hands=skill.changed_hands,
        source_gone=skill.is_source_gone,
        block_reason=skill.block_reason if skill.is_blocked else None,
        **set_by_owner(skill),
    )


def security_of(skill: Skill, security: Security) -> SecurityBody:
    providers = [_provider_of(provider, skill.is_blocked) for provider in security.providers]
    statuses = {provider.status for provider in providers}
    return SecurityBody(
        overall_verdict=next((status for status in get_args(ScanStatus) if status in statuses), None),
        report_url=f"/skills/{skill.name}" if providers else None,
        providers=providers,
    )


def version_of(skill: Skill, version: SkillVersion, ban: BlockEntry | None) -> VersionItem:
    return VersionItem(**_version_fields(skill, version, ban))


def version_detail_of(
    skill: Skill,
    version: SkillVersion,
    ban: BlockEntry | None,
    content: str | None = None,
    files: Sequence[ContentFile] = (),
    capabilities: tuple[Capability, ...] | None = None,
) -> VersionDetail:
    return VersionDetail(
        **_version_fields(skill, version, ban),
        name=version.name,
        sha=version.commit,
        content=content,
        files=list(files),
        capabilities=capabilities,
    )


def health_of(skill: Skill, health: RepoHealth) -> HealthAnswer:
    return HealthAnswer(
        status=health.status,
        checked_at=health.checked_at,
        last_commit_at=health.last_commit_at,
        github_stars=health.stars,
        repo_url=skill.repo_url,
        is_archived=None if health.repo_id is None else health.is_archived,
        head=health.head,
        changed_hands=skill.changed_hands,
    )


def _fields(skill: Skill, signals: SkillSignals) -> dict[str, Any]:
    name = split_name(full_name(skill))
    return {
        "name": skill.name,
        "author": name.owner,
        "description": skill.description,
        "cert_tier": skill.cert_tier,
        "trust_tier": signals.trust.tier,
        "trust_score": signals.trust.score,
        "cert_score": None if skill.is_blocked else skill.score,
        "current_version": skill.current_version,
        "repo_url": skill.repo_url,
        "owner_slug": name.owner if skill.repo_url else None,
        "repo_slug": name.repo if skill.repo_url else None,
        "skill_slug": skill.folder or name.slug,
        "vskill_installs": signals.installs,
        "github_stars": signals.stars,
        "is_blocked": skill.is_blocked,
        "is_tainted": signals.is_tainted,
        "category": skill.category,
        "tags": skill.tags,
        "license": skill.license or None,
        "capabilities": skill.capabilities,
    }


def _version_fields(skill: Skill, version: SkillVersion, ban: BlockEntry | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "version": version.version,
        "cert_tier": version.cert_tier,
        "cert_score": None if skill.is_blocked or ban else version.score,
        "created_at": version.created_at,
        "content_hash": version.content_hash,
        "diff_summary": version.diff_summary,
        "new_permissions": version.new_permissions,
        "run_url": run_url(version),
    }
    if version.artifacts:
        fields |= {"artifacts": version.artifacts}
    if version.is_yanked:
        fields |= {"is_yanked": True, "yank_reason": version.yank_reason or UNSET}
    return fields | ({"is_blocked": True, "block_reason": ban.reason} if ban else {})


def _provider_of(provider: ProviderSecurity, is_blocked: bool) -> ProviderBody:
    return ProviderBody(
        provider=provider.provider,
        status=_status_of(provider),
        verdict=provider.verdict,
        score=None if is_blocked else provider.score,
        critical_count=provider.critical_count,
        report_url=provider.report_url,
    )


def _status_of(provider: ProviderSecurity) -> ScanStatus:
    if provider.status is Status.COMPLETED:
        return "FAIL" if provider.verdict is ExternalVerdict.FAIL else "PASS"
    return "TIMED_OUT" if provider.status in (Status.FAILED, Status.TIMED_OUT) else "PENDING"
