"""An npm registry to read from: the packages that Claude Code installs plugins from."""

import msgspec

from functions.clients.artifacts import artifact_path
from functions.http.answer import REVALIDATE, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.errors import NotFound
from shared.marketplace.client_names import find_npm_owner
from shared.marketplace.installable import Installable, get_installable_versions, require_served
from shared.records.skills import Skill, SkillVersion
from shared.scanner.front_matter import one_line

MAX_VERSIONS = 200


class NpmDist(msgspec.Struct, frozen=True):
    tarball: str
    shasum: str
    integrity: str


class NpmVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    version: str
    dist: NpmDist
    deprecated: str | None = None  # npm prints it as a warning


class Packument(msgspec.Struct, frozen=True, kw_only=True):
    """What npm calls the document of a package: its versions, newest first."""

    name: str
    description: str
    dist_tags: dict[str, str] = msgspec.field(name="dist-tags")
    versions: dict[str, NpmVersion]


async def show_package(request: Request) -> Answer:
    """A package of npm."""
    name = request.path["proxy"].lower()
    skill = require_served(await find_npm_owner(name), name)
    versions = [version for version in await get_installable_versions(skill) if "npm" in version.artifacts]
    if not versions:
        raise NotFound(f"There is no package {name[:80]!r} here.", code="skill_not_found")
    return Answer(_packument(request, name, skill, versions[:MAX_VERSIONS]), cache=REVALIDATE)


ROUTES: dict[str, Route] = {"GET /npm/{proxy+}": show_package}


def _packument(request: Request, name: str, skill: Skill, versions: list[SkillVersion]) -> Packument:
    numbers = [version.version for version in versions]
    latest = skill.current_version if skill.current_version in numbers else numbers[0]
    return Packument(
        name=name,
        description=one_line(skill.description),
        dist_tags={"latest": latest},
        versions={each.version: _version(request, name, skill, each) for each in versions},
    )


def _version(request: Request, name: str, skill: Skill, version: SkillVersion) -> NpmVersion:
    artifact = version.artifacts["npm"]
    tarball = f"{request.site}{artifact_path(Installable(skill, version), 'npm')}"
    return NpmVersion(name, version.version, NpmDist(tarball, artifact.shasum, artifact.integrity), skill.notice)
