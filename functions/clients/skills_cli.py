"""The `skills` command: one index of discovery 0.2.0 per skill, version and repository, and its search.

There is none for the whole host: the client downloads every artifact of an index before it shows anything.
"""

import msgspec

from functions.clients.artifacts import artifact_path
from functions.clients.lenient_query import limit_of, repository_of, text_of
from functions.http.answer import REVALIDATE, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.errors import NotFound
from shared.marketplace.client_listing import SKILLS_CLI, described, find_obstacles_of, folder_of
from shared.marketplace.installable import (
    Installable,
    find_recorded,
    get_installable,
    read_installable,
    require_served,
)
from shared.marketplace.manifest_store import find_manifest
from shared.marketplace.skill_search import SkillPage, SkillQuery, list_skills
from shared.records.skills import Skill, full_name

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_OF_REPOSITORY = 50
MAX_FOUND = 100


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    url: str
    digest: str
    type: str = "archive"


class SkillIndex(msgspec.Struct, frozen=True, kw_only=True):
    skills: list[IndexEntry]
    schema: str = msgspec.field(default=SCHEMA, name="$schema")


class FindResult(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    source: str  # what `skills add` takes
    installs: int


class FindAnswer(msgspec.Struct, frozen=True):
    skills: list[FindResult]


async def skill_index(request: Request) -> Answer:
    """Index of one skill, for `skills add`."""
    name = "/".join((request.path["owner"], request.path["repo"], _plain(request.path["skill"])))
    skill = require_served(next(iter(await find_recorded([name])), None), name)
    return _index(await read_installable([skill], SKILLS_CLI), f"The skill {name[:80]!r} cannot be listed.")


async def version_index(request: Request) -> Answer:
    """Index of one version, for a `skills add` that names it: an update keeps it."""
    name = "/".join(request.path[part] for part in ("owner", "repo", "skill"))
    skill, version, _ = await get_installable(name, request.path["version"])
    found = Installable(skill, version, await find_manifest(skill.name, version.version))
    listed = [] if find_obstacles_of(SKILLS_CLI, *found) else [found]
    return _index(listed, f"Version {version.version} of {name[:80]!r} cannot be listed.")


async def repository_index(request: Request) -> Answer:
    """Index of a repository, for `skills add`."""
    repo = repository_of(request, request.path["repo"])
    page = await list_skills(SkillQuery(repo=repo, limit=MAX_OF_REPOSITORY))
    return _index(await read_installable(page.skills, SKILLS_CLI), f"There is no skill of {repo[:80]!r} here.")


async def find(request: Request) -> Answer:
    """Search, for `skills find`."""
    words, owner = text_of(request, "q"), text_of(request, "owner")
    page = await list_skills(SkillQuery(q=words, author=owner, limit=limit_of(request, 20, MAX_FOUND)))
    found = await read_installable(page.skills, SKILLS_CLI)  # what `add` would not take is not offered
    return Answer(FindAnswer([_found(request, page, each.skill) for each in found]), cache=REVALIDATE)


ROUTES: dict[str, Route] = {
    "GET /{owner}/{repo}/.well-known/agent-skills/index.json": repository_index,
    "GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json": skill_index,
    "GET /{owner}/{repo}/{skill}/{version}/.well-known/agent-skills/index.json": version_index,
    "GET /api/search": find,
}


def _plain(skill: str) -> str:
    """`find` prints `…/pdf@pdf`, which means the skill pdf."""
    folder, _, name = skill.partition("@")
    return folder if folder == name else skill


def _index(found: list[Installable], nothing: str) -> Answer:
    if not found:
        raise NotFound(nothing, code="skill_not_found")
    return Answer(SkillIndex(skills=[_entry(each) for each in found]), cache=REVALIDATE)


def _entry(found: Installable) -> IndexEntry:
    return IndexEntry(
        name=folder_of(found.skill),
        description=described(found.skill),
        url=artifact_path(found, "tgz"),
        digest=f"sha256:{found.version.artifacts['tgz'].sha256}",
    )


def _found(request: Request, page: SkillPage, skill: Skill) -> FindResult:
    counts = page.counts_of(skill)
    name = full_name(skill)
    return FindResult(
        id=name, name=folder_of(skill), source=f"{request.site}/{name}", installs=counts.installs if counts else 0
    )
