"""Requests of clients that use skills: update checks, install counts, reports of bad skills."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from functions.api.skill_paths import PARAMETERS
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.db import get_settings, now
from shared.errors import InvalidRequest, NotFound, Unavailable
from shared.marketplace.community import MAX_DESCRIPTION, MAX_NAMES, add_report, count_installs
from shared.marketplace.downloads import find_downloaded, versions_of
from shared.marketplace.published_content import refuse_blocked, refuse_held
from shared.marketplace.reputation import name_in
from shared.marketplace.skill_admin import source_of
from shared.marketplace.skill_store import find_skills, get_skill
from shared.records.skills import Skill, bump_between, is_newer
from shared.submissions.skill_source import UPLOADS, parse_repo_url

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
RepoLink = Annotated[str, msgspec.Meta(max_length=500)]
Short = Annotated[str, msgspec.Meta(max_length=100)]


class InstalledVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: Name
    current_version: Short
    sha: Short | None = None


class CheckUpdates(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skills: Annotated[list[InstalledVersion], msgspec.Meta(max_length=100)]
    platform: Short | None = None
    cli_version: Short | None = None


class Update(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`name` as it was sent. `latest` is null if the name matches no skill, several, or one that can no longer be
    installed. `notice` and `successor` are present if its owner withdrew or deprecated it, or transferred it to another
    repository."""

    name: str
    installed: str
    latest: str | None
    update_available: bool
    version_bump: str | None  # major, minor or patch
    cert_tier: str | None
    changed_hands: bool | msgspec.UnsetType = msgspec.UNSET  # present if true: its repository is another one now
    notice: str | msgspec.UnsetType = msgspec.UNSET
    successor: str | msgspec.UnsetType = msgspec.UNSET


class Updates(msgspec.Struct, frozen=True, omit_defaults=True):
    """`degraded` is present if something could not be read."""

    results: list[Update]
    degraded: bool = False


class Install(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    repo_url: RepoLink | None = None
    version: Short | None = None
    source: Short | None = None
    platform: Short | None = None
    cli_version: Short | None = None


class InstalledSkill(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skill_name: Name
    repo_url: RepoLink | None = None
    version: Short | None = None


class Installs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skills: Annotated[list[InstalledSkill], msgspec.Meta(min_length=1, max_length=MAX_NAMES)]
    source: Short | None = None
    platform: Short | None = None
    cli_version: Short | None = None


class InstallsCounted(msgspec.Struct, frozen=True):
    """`skipped` is present if names match no skill, several, or one that cannot be installed."""

    ok: bool
    skipped: list[str] | msgspec.UnsetType = msgspec.UNSET


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["malicious", "misleading", "broken", "spam", "license", "other"]
    description: Annotated[  # the pattern is only described here: its refusal has a code of its own
        str, msgspec.Meta(min_length=1, max_length=MAX_DESCRIPTION, extra_json_schema={"pattern": r"\S"})
    ]


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    id: str


@operation("Check installed skills for updates", gives=Updates, limit="check-updates")
async def check_updates(request: Request, body: CheckUpdates) -> Answer:
    found = await find_skills(have.name for have in body.skills)
    return Answer(Updates([_update(have, found.skills.get(have.name)) for have in body.skills], bool(found.failed)))


@operation("Count an installation", gives=InstallsCounted, refuses=(403, 409), limit="installs", path=PARAMETERS)
async def count_install(request: Request, body: Install) -> Answer:
    """With `repoUrl`, only a skill of that repository: 404 if it has none of this name. Nothing is added where the same
    address downloaded this version today: that was counted."""
    name = request.path["name"]
    sent = (name, body.repo_url)
    skill = (await _named([sent])).get(sent) or await _get_installed(name, body.repo_url)
    refuse_blocked(skill)
    refuse_held(skill)
    downloaded = await _downloaded([skill], {skill.name.lower(): body.version}, request.source_ip)
    await count_installs({skill.name} - downloaded)
    return Answer(InstallsCounted(True))


@operation("Count installations of several skills", gives=InstallsCounted, limit="installs")
async def count_several_installs(request: Request, body: Installs) -> Answer:
    """Each skill counts once, however often it is sent, and not again after a download of the same version by the same
    address that day. With `repoUrl`, only a skill of that repository."""
    sent = list(dict.fromkeys((one.skill_name, one.repo_url) for one in body.skills))
    named = await _named(sent)
    versions = {skill.name.lower(): _version_sent(body, *one) for one, skill in named.items()}
    downloaded = await _downloaded(named.values(), versions, request.source_ip)
    names = {skill.name for skill in named.values()}
    counted = {name.lower() for name in downloaded} | set((await count_installs(names - downloaded)).counted)
    skipped = [name for name, url in sent if not _is_counted(named.get((name, url)), counted)]
    return Answer(InstallsCounted(True, list(dict.fromkeys(skipped)) or msgspec.UNSET))


@operation(
    "Report a bad skill to the reviewers", gives={201: Reported}, refuses=(409,), limit="reports", path=PARAMETERS
)
async def report(request: Request, body: ReportBody) -> Answer:
    skill = await get_skill(request.path["name"])
    made = await add_report(skill.name, body.type, body.description, now())
    return Answer(Reported(ok=True, id=made.id), 201)


def _update(have: InstalledVersion, skill: Skill | None) -> Update:
    if skill is None or not skill.is_listed:
        return Update(
            name=have.name,
            installed=have.current_version,
            latest=None,
            update_available=False,
            version_bump=None,
            cert_tier=None,
            changed_hands=True if skill and skill.changed_hands else msgspec.UNSET,
            **_told_by_owner(skill),
        )
    updatable = not _has_it(have, skill) and is_newer(skill.current_version, have.current_version)
    return Update(
        name=have.name,
        installed=have.current_version,
        latest=skill.current_version,
        update_available=updatable,
        version_bump=bump_between(have.current_version, skill.current_version) if updatable else None,
        cert_tier=skill.cert_tier,
        **_told_by_owner(skill),
    )


def _told_by_owner(skill: Skill | None) -> dict[str, Any]:
    if skill is None:
        return {}
    notice = f"Withdrawn by its owner: {skill.withdrawn}" if skill.withdrawn is not None else skill.notice
    return {name: text for name, text in (("notice", notice), ("successor", skill.successor)) if text}


def _has_it(have: InstalledVersion, skill: Skill) -> bool:
    """The same commit or content is the same skill, whatever its version."""
    return have.sha is not None and have.sha in (skill.commit, skill.content_hash)


async def _downloaded(skills: Iterable[Skill], versions: Mapping[str, str | None], address: str) -> set[str]:
    """Names of those that this address downloaded today, which counted them."""
    by_name = {skill.name.lower(): skill for skill in skills}
    found = await find_downloaded(versions_of(by_name.values(), versions), address)
    return {by_name[name].name for name in found}


def _version_sent(body: Installs, name: str, repo_url: str | None) -> str | None:
    return next(one.version for one in body.skills if (one.skill_name, one.repo_url) == (name, repo_url))


Sent = tuple[str, str | None]  # a name and, optionally, the repository it was installed from


async def _named(sent: Sequence[Sent]) -> dict[Sent, Skill]:
    """The skill of that name in that repository; a skill of the same name in another one was not installed."""
    in_full = {one: _full_name(*one) for one in sent}
    found = await find_skills([*in_full.values(), *(name for name, _ in sent)])
    if found.failed:
        raise Unavailable("Not all of these skills could be read.")
    both = {one: found.skills.get(full) or found.skills.get(one[0]) for one, full in in_full.items()}
    return {one: skill for one, skill in both.items() if skill is not None and _is_from(skill, one[1])}


async def _get_installed(name: str, repo_url: str | None) -> Skill:
    """Raises what is wrong with a name that matches no skill or several."""
    source = _source(repo_url)
    if source is None:
        return await get_skill(name)
    raise NotFound(f"This repository has no skill {name[:80]!r} here.", code="skill_not_found")


def _is_counted(skill: Skill | None, counted: Collection[str]) -> bool:
    return skill is not None and skill.name.lower() in counted


def _is_from(skill: Skill, repo_url: str | None) -> bool:
    source = _source(repo_url)
    return source is None or source == source_of(skill)


def _full_name(name: str, repo_url: str | None) -> str:
    source = _source(repo_url)
    return name if not source or "/" in name else name_in(source, name)


def _source(repo_url: str | None) -> str | None:
    """Clients also send `owner/repo`. None: not sent. Empty: not a repository that skills here can come from."""
    sent = (repo_url or "").strip()
    if not sent:
        return None
    if sent.lower() == UPLOADS:
        return UPLOADS
    host = get_settings().github_host
    try:
        return parse_repo_url(sent if sent.count("/") > 1 else f"https://{host}/{sent}", host).source
    except InvalidRequest:
        return ""
