"""The marketplace: published skills, the evidence for them, and reader reports."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from functions.api.skill_badge import badge_of
from functions.api.skill_files import download, list_files, show_file, show_receipt
from functions.api.skill_paths import FULL_NAME, PARAMETERS, SHORT_NAME, parse_skill_path, route_of
from functions.api.skill_schemas import (
    HealthAnswer,
    Pagination,
    SearchAnswer,
    SecurityBody,
    SkillAnswer,
    SkillItem,
    SkillList,
    detail_of,
    health_of,
    item_of,
    security_of,
)
from functions.api.skill_use import check_updates, count_install, count_several_installs, report
from functions.api.skill_versions import compare_versions, diff_versions, list_versions, show_version
from functions.http.answer import REVALIDATE, Answer
from functions.http.operations import Operation, operation
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.cursor import make_cursor, read_cursor
from shared.db import now
from shared.marketplace.external_scan_store import get_security
from shared.marketplace.published_content import find_downloadable_files, skill_md_of
from shared.marketplace.repo_health_store import get_repo_health
from shared.marketplace.skill_admin import source_of
from shared.marketplace.skill_search import SkillPage, SkillQuery, list_skills, search_skills
from shared.marketplace.skill_signals import get_skill_signals
from shared.marketplace.skill_store import get_skill, get_skill_with_counts
from shared.records.installs import DAYS_KEPT, installs_until
from shared.records.skills import Skill
from shared.storage.documents import encode

BADGE_HEADERS = {"content-type": "image/svg+xml; charset=utf-8", "content-security-policy": "default-src 'none'"}
ONE_MINUTE = "public, max-age=60"  # no longer: the badge of a blocked skill must not stay green

Words = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Prefixes of words in name, owner, description, tags or compatibility.",
    ),
]
Category = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="The category in its front matter. Any value filters; the pages count common ones only.",
    ),
]
License = Annotated[str, Meta(min_length=1, max_length=200, description="The license in its front matter.")]
Tool = Annotated[
    str,
    Meta(min_length=1, max_length=80, description="A tool that its `allowed-tools` name, without what is in brackets."),
]
Author = Annotated[str, Meta(min_length=1, max_length=100, description="The owner of the repository.")]
Cursor = Annotated[str, Meta(min_length=1, max_length=2000, description="`cursor` of the previous page.")]
Tier = Annotated[
    Literal["SCANNED", "VERIFIED", "CERTIFIED"],
    Meta(description="Checked by rules only, by the judge too, or approved by a person or as a trusted vendor's."),
]


class SkillListQuery(msgspec.Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    cursor: Cursor | None = None
    q: Words | None = None
    category: Category | None = None
    tier: Tier | None = None
    author: Author | None = None
    license: License | None = None
    tool: Tool | None = None
    sort: Annotated[
        Literal["newest", "installs", "trending"] | None,
        Meta(description="`trending`: one page of the most installed of the last seven days."),
    ] = None


class SkillSearchQuery(msgspec.Struct, forbid_unknown_fields=True):
    q: Words
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


@operation("List skills", gives=SkillList, cached=True)
async def list_(request: Request, query: SkillListQuery) -> Answer:
    """Newest first; with `q` best match first, unless `sort` is set. All filters can be combined. A page may be shorter
    than `limit`, even empty: the last page is the one without `cursor`."""
    wanted = [query.q, query.category, query.tier, query.author, query.license, query.sort]
    filter_ = encode(["skills", *wanted, *([query.tool] if query.tool else [])])
    after = await read_cursor(query.cursor, filter_)
    page = await list_skills(
        SkillQuery(
            q=query.q,
            category=query.category,
            tier=query.tier,
            author=query.author,
            license=query.license,
            tool=query.tool,
            sort=query.sort,
            limit=query.limit,
            after=after,
        )
    )
    items = await _items(page)
    cursor = await make_cursor(page.next_position, filter_)
    return Answer(SkillList(items, cursor, _is_degraded(page, items), page.failed), cache=REVALIDATE if items else "")


@operation("Search skills, best match first", gives=SearchAnswer, cached=True)
async def search(request: Request, query: SkillSearchQuery) -> Answer:
    """Exact names first, then names with this prefix, then words in name, owner, description and tags."""
    page = await search_skills(query.q, query.limit)
    items = await _items(page)
    answer = SearchAnswer(items, Pagination(page.next_position is not None), _is_degraded(page, items))
    return Answer(answer, cache=REVALIDATE if items else "")


@operation("Get a skill with its SKILL.md", gives=SkillAnswer, refuses=(409,), cached=True, path=PARAMETERS)
async def get_one(request: Request) -> Answer:
    """By full name, or by its last part if only one skill has it. The content of a blocked skill is not served."""
    skill, counts = await get_skill_with_counts(request.path["name"])
    signals, content, security = await asyncio.gather(
        get_skill_signals([skill], {skill.name.lower(): counts} if counts else {}),
        _content(skill),
        get_security(skill.name),
    )
    daily = installs_until(counts, now().date(), DAYS_KEPT) if counts else None
    detail = detail_of(skill, signals[skill.name], content, security, daily)
    return Answer(SkillAnswer(detail), cache=REVALIDATE if _is_known(detail) else "")


@operation("Badge for a README", gives="image/svg+xml", refuses=(409,), cached=True, path=PARAMETERS)
async def badge(request: Request) -> Answer:
    return Answer(badge_of(await get_skill(request.path["name"])), headers=BADGE_HEADERS, cache=ONE_MINUTE)


@operation("Results of external scanners", gives=SecurityBody, refuses=(409,), cached=True, path=PARAMETERS)
async def security(request: Request) -> Answer:
    skill = await get_skill(request.path["name"])
    return Answer(security_of(skill, await get_security(skill.name)), cache=REVALIDATE)


@operation("Health of its repository", gives=HealthAnswer, refuses=(409,), path=PARAMETERS)
async def repo_health(request: Request) -> Answer:
    """Fetched from GitHub at most once a day. If GitHub is not reachable, the last known state."""
    skill = await get_skill(request.path["name"])
    return Answer(health_of(skill, await get_repo_health(source_of(skill))))


def _of_a_skill(method: str, suffix: str, declared: Operation) -> dict[str, Operation]:
    return {route_of(method, name, suffix): declared for name in (FULL_NAME, SHORT_NAME)}


OPERATIONS: dict[str, Operation] = {
    "GET /api/v1/skills": list_,
    "GET /api/v1/skills/search": search,
    **_of_a_skill("GET", "", get_one),
    **_of_a_skill("GET", "versions", list_versions),
    **_of_a_skill("GET", "versions/diff", diff_versions),
    **_of_a_skill("GET", "versions/compare", compare_versions),
    **_of_a_skill("GET", "versions/{version}", show_version),
    **_of_a_skill("GET", "versions/{version}/download", download),
    **_of_a_skill("GET", "versions/{version}/files", list_files),
    **_of_a_skill("GET", "versions/{version}/files/{path}", show_file),
    **_of_a_skill("GET", "versions/{version}/receipt", show_receipt),
    **_of_a_skill("GET", "badge", badge),
    **_of_a_skill("GET", "security", security),
    **_of_a_skill("GET", "repo-health", repo_health),
    "POST /api/v1/skills/installs": count_several_installs,
    "POST /api/v1/skills/check-updates": check_updates,
    **_of_a_skill("POST", "installs", count_install),
    **_of_a_skill("POST", "reports", report),
}


def _below(method: str) -> Route:
    """The gateway has one route for everything below /skills/; the path decides which operation it is."""

    async def answer(request: Request) -> Answer:
        found = parse_skill_path("GET" if method == "HEAD" else method, request.path["proxy"])
        return await OPERATIONS[found.route](request._replace(path=found.parameters))

    return answer


ROUTES: dict[str, Route] = {
    "GET /api/v1/skills": list_,
    "GET /api/v1/skills/{proxy+}": _below("GET"),
    "HEAD /api/v1/skills/{proxy+}": _below("HEAD"),
    "POST /api/v1/skills/{proxy+}": _below("POST"),
}


async def _items(page: SkillPage) -> list[SkillItem]:
    signals = await get_skill_signals(page.skills, page.counts)
    return [item_of(skill, signals[skill.name]) for skill in page.skills]


async def _content(skill: Skill) -> str | None:
    files = await find_downloadable_files(skill, skill.content_hash)
    return None if files is None else skill_md_of(files)


def _is_degraded(page: SkillPage, items: list[SkillItem]) -> bool:
    return bool(page.failed) or not all(map(_is_known, items))


def _is_known(item: SkillItem) -> bool:
    return item.vskill_installs is not None and item.is_tainted is not None
