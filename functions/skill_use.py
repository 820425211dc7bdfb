"""What those who use skills send: which versions they have, what they installed, what is wrong with a skill."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from functions.http import Answer, Request
from functions.operations import operation
from functions.skill_paths import PARAMETERS
from functions.skill_versions import refuse_blocked
from shared.community import MAX_DESCRIPTION, MAX_NAMES, add_report, count_installs
from shared.db import get_settings, now
from shared.errors import InvalidRequest, Unavailable
from shared.skill_names import find_skills
from shared.skill_source import parse_repo_url
from shared.skill_store import get_skill
from shared.skills import Skill, bump_between, is_newer

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Link = Annotated[str, msgspec.Meta(max_length=500)]
Short = Annotated[str, msgspec.Meta(max_length=100)]


class Have(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: Name
    current_version: Short
    sha: Short | None = None


class CheckUpdates(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skills: Annotated[list[Have], msgspec.Meta(max_length=100)]
    platform: Short | None = None
    cli_version: Short | None = None


class Update(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`name` as it was sent. `latest` is null where the name leads to no skill, to several, or to one that is no longer
    to be installed."""

    name: str
    installed: str
    latest: str | None
    update_available: bool
    version_bump: str | None  # major, minor or patch
    cert_tier: str | None


class Updates(msgspec.Struct, frozen=True, omit_defaults=True):
    """`degraded` is there where something could not be read."""

    results: list[Update]
    degraded: bool = False


class Install(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    repo_url: Link | None = None
    version: Short | None = None
    source: Short | None = None
    platform: Short | None = None
    cli_version: Short | None = None


class InstalledSkill(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skill_name: Name
    repo_url: Link | None = None
    version: Short | None = None


class Installs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    skills: Annotated[list[InstalledSkill], msgspec.Meta(min_length=1, max_length=MAX_NAMES)]
    source: Short | None = None
    platform: Short | None = None
    cli_version: Short | None = None


class Counted(msgspec.Struct, frozen=True):
    """`skipped` is there where names led to no skill, to several, or to one that is not to be installed."""

    ok: bool
    skipped: list[str] | msgspec.UnsetType = msgspec.UNSET


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["malicious", "misleading", "broken", "spam", "license", "other"]
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_DESCRIPTION)]


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    id: str


@operation("Which installed skills have a newer version", gives=Updates, limit="check-updates")
async def check_updates(request: Request, body: CheckUpdates) -> Answer:
    found = await find_skills(have.name for have in body.skills)
    return Answer(Updates([_update(have, found.skills.get(have.name)) for have in body.skills], bool(found.failed)))


@operation("Count an installation", gives=Counted, refuses=(403, 409), limit="installs", path=PARAMETERS)
async def count_install(request: Request, body: Install) -> Answer:
    """A short name that several skills have is told apart by `repoUrl`."""
    name = request.path["name"]
    named = (await _named([(name, body.repo_url)])).get(name)
    skill = named or await get_skill(name)
    refuse_blocked(skill)
    await count_installs([skill.name])
    return Answer(Counted(True))


@operation("Count installations of several skills", gives=Counted, limit="installs")
async def count_several_installs(request: Request, body: Installs) -> Answer:
    """Each name counts once, however often it is sent."""
    sent = {one.skill_name: one.repo_url for one in body.skills}
    named = await _named(list(sent.items()))
    counted = set((await count_installs({skill.name for skill in named.values()})).counted)
    skipped = [name for name in sent if name not in named or named[name].name.lower() not in counted]
    return Answer(Counted(True, skipped or msgspec.UNSET))


@operation(
    "Tell reviewers what is wrong with a skill", gives={201: Reported}, refuses=(409,), limit="reports", path=PARAMETERS
)
async def report(request: Request, body: ReportBody) -> Answer:
    skill = await get_skill(request.path["name"])
    made = await add_report(skill.name, body.type, body.description, now())
    return Answer(Reported(ok=True, id=made.id), 201)


def _update(have: Have, skill: Skill | None) -> Update:
    if skill is None or not skill.is_listed:
        return Update(
            name=have.name,
            installed=have.current_version,
            latest=None,
            update_available=False,
            version_bump=None,
            cert_tier=None,
        )
    updatable = not _has_it(have, skill) and is_newer(skill.current_version, have.current_version)
    return Update(
        name=have.name,
        installed=have.current_version,
        latest=skill.current_version,
        update_available=updatable,
        version_bump=bump_between(have.current_version, skill.current_version) if updatable else None,
        cert_tier=skill.cert_tier,
    )


def _has_it(have: Have, skill: Skill) -> bool:
    """The same commit or content is the same skill, whatever version it is called."""
    return have.sha is not None and have.sha in (skill.commit, skill.content_hash)


async def _named(sent: Sequence[tuple[str, str | None]]) -> dict[str, Skill]:
    """By the name as it was sent; first as the skill of that name in that repository, then by the name alone."""
    in_full = {name: _full_name(name, repo_url) for name, repo_url in sent}
    found = await find_skills([*in_full.values(), *in_full])
    if found.failed:
        raise Unavailable("The store did not give all of these skills.")
    both = {name: found.skills.get(full) or found.skills.get(name) for name, full in in_full.items()}
    return {name: skill for name, skill in both.items() if skill is not None}


def _full_name(name: str, repo_url: str | None) -> str:
    """`repoUrl` is a hint, which clients also send as `owner/repo`: what cannot be read is no hint."""
    if repo_url is None or "/" in name:
        return name
    host = get_settings().github_host
    try:
        repo = parse_repo_url(repo_url if repo_url.count("/") > 1 else f"https://{host}/{repo_url}", host)
    except InvalidRequest:
        return name
    return f"{repo.owner}/{repo.name}/{name}"
