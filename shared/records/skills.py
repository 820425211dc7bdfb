"""What a published skill is: its name, its versions. Pure: no clock, no store, no I/O."""

import re
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec

LONGEST_NPM_NAME = 214
NOT_PACKAGED = "It has not been packaged yet."


class Deprecation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The owner's notice to those who have it installed."""

    sentence: str
    at: datetime
    successor: str | None = None  # the name of a skill here


class Skill(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str  # owner/repo/slug, with @ref where it is not the default branch
    display_name: str
    description: str
    repo_url: str | None
    current_version: str
    content_hash: str
    submission_id: str
    published_at: datetime  # the first time
    updated_at: datetime
    category: str = "other"
    tags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    permissions: tuple[str, ...] | None = None  # `network: api.example.org`; None: published before they were recorded
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    cert_tier: str = "SCANNED"
    verdict: str | None = None
    score: int | None = None
    judge_score: int | None = None
    commit: str | None = None
    ref: str | None = None
    repo_id: int | None = None
    folder: str | None = None  # as the repository spells it, where that is not the slug: clients look for it there
    rule_set: str | None = None
    # What of its source no scan could read, as its receipt names it.
    unscanned: str = msgspec.field(default="", name="unseen")
    has_own_findings: bool = False  # as of its submission
    copy_of: str | None = None  # the skill that published its content here first
    versions: int = 1
    record_version: int = 1
    is_blocked: bool = False
    is_blocked_by_rule: bool = False  # by a rescan, not by a person: an approval or fixed content lifts it
    block_reason: str | None = None
    was_blocked: bool = False
    latest_version: str | None = None  # the highest ever assigned, where the current one is lower because of yanks
    yanked_content: tuple[str, ...] = ()  # hashes of yanked versions: resubmitting does not publish them again
    is_yanked: bool = False  # every version is: still to be seen, no longer to be installed
    changed_hands: bool = False  # its repository's name leads to another one now: held until it leads back
    is_source_gone: bool = False  # its repository is not there any more, or private
    is_deleted: bool = False  # a tombstone: it only keeps the name from being used again
    delete_reason: str | None = None
    unindexed_since: datetime | None = None  # what finds it is not written yet
    # Set by its owner, and kept when a new version is published.
    withdrawn: str | None = None  # why: all of it can still be seen, but no longer be installed
    deprecated: Deprecation | None = None
    transferred_to: str | None = None  # where new versions appear; this name keeps those it has
    transferred_from: str | None = None

    @property
    def is_listed(self) -> bool:
        return not (self.is_blocked or self.is_yanked or self.is_deleted or self.is_withdrawn or self.changed_hands)

    @property
    def is_withdrawn(self) -> bool:
        return self.withdrawn is not None

    @property
    def successor(self) -> str | None:
        """The skill to use instead of this one."""
        return self.transferred_to or (self.deprecated.successor if self.deprecated else None)

    @property
    def notice(self) -> str | None:
        """What clients show to users who install it or have it installed."""
        if self.transferred_to:
            return f"This skill has moved to {self.transferred_to}. New versions appear there."
        if self.deprecated is None:
            return None
        instead = f" Use {self.deprecated.successor} instead." if self.deprecated.successor else ""
        return f"Deprecated by its owner: {self.deprecated.sentence.rstrip('.')}.{instead}"

    @property
    def has_provenance(self) -> bool:
        """Public default branch, commit pinned, and the repository is still the one with the known id."""
        is_pinned = self.commit is not None and self.ref is None and self.repo_id is not None
        return is_pinned and not (self.changed_hands or self.is_source_gone)


class VersionMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What differs between versions beside the content: the fields of a skill that follow its current version."""

    display_name: str
    description: str
    category: str
    tags: tuple[str, ...]
    capabilities: tuple[str, ...]
    verdict: str | None
    judge_score: int | None
    rule_set: str | None
    unscanned: str = msgspec.field(default="", name="unseen")
    permissions: tuple[str, ...] | None = None
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()


def version_metadata_of(skill: "Skill | VersionMetadata") -> dict[str, Any]:
    return {name: getattr(skill, name) for name in VersionMetadata.__struct_fields__}


def new_permissions(before: "Skill | None", after: "Skill") -> tuple[str, ...]:
    """What a new version may do, or asks to be allowed, beyond the one before. Of an older release only the kinds of
    capabilities are known."""
    if before is None:
        return ()
    if before.permissions is None:
        return tuple(name for name in after.capabilities if name not in before.capabilities)
    observed = (line for line in after.permissions or () if line not in before.permissions)
    declared = (tool for tool in after.allowed_tools if tool not in before.allowed_tools)
    return (*observed, *(f"allowed-tools: {tool}" for tool in declared))


def set_by_owner(skill: "Skill | None") -> dict[str, Any]:
    """What a new version does not change."""
    names = ("withdrawn", "deprecated", "transferred_to", "transferred_from")
    return {name: getattr(skill, name) for name in names} if skill else {}


class SkillCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What readers do with a skill: one small record beside it, so that counting never touches the skill itself."""

    name: str
    installs: int = 0
    open_reports: int = 0
    confirmed_reports: int = 0  # of the open ones: only these cost trust
    category: str = ""  # in whose order by installs it is, in lower case
    daily: tuple[int, ...] = ()  # installs of each day up to the last one with any, 90 days at most
    last_day: date | None = None
    record_version: int = 0  # 0: nothing is stored yet


class Artifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One packaging of a version's files: what its bytes are, not where they are stored."""

    sha256: str
    size: int
    shasum: str = ""  # sha1 and sha512 in the form of npm, which asks for both
    integrity: str = ""


class SkillVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    version: str
    content_hash: str
    submission_id: str
    created_at: datetime
    run: int = 0  # of its submission: the one that published it; 0: the submission is of an older release
    cert_tier: str = "SCANNED"
    score: int | None = None
    commit: str | None = None
    is_yanked: bool = False
    yank_reason: str | None = None
    yanked_by: str | None = None  # the owner who withdrew it and may restore it; None: an operator
    diff_summary: str | None = None
    new_permissions: tuple[str, ...] = ()  # that the version before did not have
    # What the skill says of itself in this version, for when it becomes the current one again.
    metadata: VersionMetadata | None = msgspec.field(default=None, name="told")
    artifacts: dict[str, Artifact] = {}  # by packaging; empty for what an older release published, until it is built
    unpackaged: str = ""  # why a packaging is missing although the others were built
    attestation: str = ""  # the sha256 of its signed receipt

    @property
    def why_not_packaged(self) -> str:
        return self.unpackaged or NOT_PACKAGED


def run_url(version: SkillVersion) -> str:
    """Of the run that published it; of all runs, where an older release did not count them."""
    page = f"/submissions/{version.submission_id}"
    return f"{page}/runs/{version.run}" if version.run else page


class SkillName(NamedTuple):
    owner: str
    repo: str
    slug: str


def split_name(name: str) -> SkillName:
    owner, repo, slug = name.split("/", 2)
    return SkillName(owner, repo, slug)


def full_name(skill: Skill) -> str:
    """owner/repo/slug, also for a skill that an older release called by its slug alone."""
    if "/" in skill.name:
        return skill.name
    owner_and_repo = "/".join(skill.repo_url.split("/")[-2:]) if skill.repo_url else "uploads/anonymous"
    return f"{owner_and_repo}/{skill.name}"


def npm_name_of(name: str) -> str | None:
    """`@owner/repo--skill`. None for a skill of another ref, and for what npm does not accept as a name."""
    owner, repo, slug = split_name(name if "/" in name else f"uploads/anonymous/{name}")
    npm_name = f"@{owner}/{repo}--{slug}".lower()
    return npm_name if _NPM_NAME.fullmatch(npm_name) and len(npm_name) <= LONGEST_NPM_NAME else None


def folder_spelled(name: str, path: str, repo_url: str | None) -> str | None:
    """The folder, at the top the repository, as it is written there; None where that is the slug."""
    folder, slug = ((repo_url or "") if path == "." else path).rpartition("/")[2], split_name(name).slug
    return folder if folder != slug and folder.lower() == slug else None


def next_version(current: str | None, wanted: str | None) -> str:
    """The author's version if it is higher, else 1.0.0, then a patch bump."""
    higher = wanted if wanted and _VERSION.fullmatch(wanted) else None
    if current is None:
        return higher or "1.0.0"
    if higher and sort_key(higher) > sort_key(current):
        return higher
    return _bumped(*_numbers(current))


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def is_newer(latest: str, installed: str) -> bool:
    """Also true if the other is no version at all: its age is unknown."""
    return not _INSTALLED.fullmatch(installed) or bump_between(installed, latest) is not None


def bump_between(installed: str, latest: str) -> str | None:
    """Which number rises first from one to the other; None where none does. A pre-release comes before its release."""
    match = _INSTALLED.fullmatch(installed)
    if match is None:
        return None
    before, after = [int(number or 0) for number in match.group(1, 2, 3)], list(_numbers(latest))
    if before == after:
        return "patch" if match["pre"] else None
    rises = next(n for n in range(3) if before[n] != after[n])
    return ("major", "minor", "patch")[rises] if after > before else None


def sort_key(version: str) -> str:
    """Text order is version order."""
    return ".".join(f"{number:06d}" for number in _numbers(version))


_HIGHEST = 999_999
_NPM_NAME = re.compile(r"@[a-z0-9-]+/[a-z0-9_-][a-z0-9._-]*")  # no `@ref`, no dot in front
# As people have it in their files: `v1.2`, `1.2.3-beta.1+build`.
_INSTALLED = re.compile(
    r"v?(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?P<pre>-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.ASCII)


def _bumped(major: int, minor: int, patch: int) -> str:
    if patch < _HIGHEST:
        return f"{major}.{minor}.{patch + 1}"
    return f"{major}.{minor + 1}.0" if minor < _HIGHEST else f"{major + 1}.0.0"


def _numbers(version: str) -> tuple[int, int, int]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version like 1.2.3")
    return int(match[1]), int(match[2]), int(match[3])
