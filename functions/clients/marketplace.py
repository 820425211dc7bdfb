"""Marketplaces of Claude Code: bounded lists of plugins, each a package of the npm registry beside them."""

from collections.abc import Sequence

import msgspec

from functions.clients.lenient_query import repository_of
from functions.http.answer import REVALIDATE, Answer
from functions.http.request import Request
from functions.http.routes import Route, no_such_address
from shared.errors import NotFound
from shared.marketplace.client_listing import CLAUDE_CODE, described, find_obstacles_of
from shared.marketplace.client_names import (
    OF_ALL_OWNERS,
    OWN_NAME,
    marketplace_name,
    version_marketplace,
    without_taken_names,
)
from shared.marketplace.installable import Installable, get_installable, read_installable
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.records.skills import Skill, full_name, npm_name_of

MAX_PLUGINS = 100
LONGEST_FILE_NAME = 200


class PluginSource(msgspec.Struct, frozen=True, kw_only=True):
    package: str
    version: str
    registry: str
    source: str = "npm"


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    version: str
    source: PluginSource


class MarketplaceOwner(msgspec.Struct, frozen=True):
    name: str


class Marketplace(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    owner: MarketplaceOwner
    plugins: list[Plugin]


async def most_installed(request: Request) -> Answer:
    return await _marketplace(request, (OWN_NAME,), SkillQuery(sort="installs"), parts=3)


async def of_owner(request: Request) -> Answer:
    owner = _named(request)
    return await _marketplace(request, (OWN_NAME, owner), SkillQuery(author=owner), parts=2)


async def of_repository(request: Request) -> Answer:
    repo = repository_of(request, _named(request))
    return await _marketplace(request, (OWN_NAME, repo), SkillQuery(repo=repo), parts=1)


async def of_category(request: Request) -> Answer:
    category = _named(request)
    name = (OF_ALL_OWNERS, "category", category)
    return await _marketplace(request, name, SkillQuery(category=category), parts=3)


async def of_tier(request: Request) -> Answer:
    tier = _named(request)
    return await _marketplace(request, (OF_ALL_OWNERS, "tier", tier), SkillQuery(tier=tier), parts=3)


async def of_version(request: Request) -> Answer:
    """One plugin, at this version for good: an update of this marketplace keeps it."""
    owner, repo, skill = (request.path[part] for part in ("owner", "repo", "skill"))
    found = await get_installable(f"{owner}/{repo}/{skill}", _named(request))
    listed = [] if find_obstacles_of(CLAUDE_CODE, found.skill, found.version, None) else [found]
    name = version_marketplace(found.skill, found.version.version)
    return _answer(request, name, await without_taken_names(listed), parts=1)


ROUTES: dict[str, Route] = {
    "GET /marketplace.json": most_installed,
    "GET /marketplace/owner/{file}": of_owner,
    "GET /marketplace/repository/{owner}/{file}": of_repository,
    "GET /marketplace/version/{owner}/{repo}/{skill}/{file}": of_version,
    "GET /marketplace/category/{file}": of_category,
    "GET /marketplace/tier/{file}": of_tier,
}


def _named(request: Request) -> str:
    file = request.path["file"]
    if not file.endswith(".json") or len(file) > LONGEST_FILE_NAME:
        raise no_such_address()
    return file.removesuffix(".json").lower()


async def _marketplace(request: Request, name: Sequence[str], query: SkillQuery, parts: int) -> Answer:
    page = await list_skills(query._replace(limit=MAX_PLUGINS))
    found = await without_taken_names(await read_installable(page.skills, CLAUDE_CODE))
    return _answer(request, marketplace_name(*name), found, parts)


def _answer(request: Request, name: str, found: Sequence[Installable], parts: int) -> Answer:
    """That of the whole platform may be empty."""
    if not found and name != OWN_NAME:
        raise NotFound("There is no skill in this marketplace.", code="skill_not_found")
    plugins = [_plugin(request, each, parts) for each in found]
    return Answer(Marketplace(name=name, owner=MarketplaceOwner(OWN_NAME), plugins=plugins), cache=REVALIDATE)


def _plugin(request: Request, found: Installable, parts: int) -> Plugin:
    skill, version = found.skill, found.version.version
    package = npm_name_of(full_name(skill)) or ""
    return Plugin(
        name=_plugin_name(skill, parts),
        description=described(skill),
        version=version,
        source=PluginSource(package=package, version=version, registry=f"{request.site}/npm"),
    )


def _plugin_name(skill: Skill, parts: int) -> str:
    """Only as short as it is unique in every state of the marketplace: a name that moved to another skill would give
    those who update what they never installed."""
    return "--".join(full_name(skill).lower().split("/")[-parts:])
