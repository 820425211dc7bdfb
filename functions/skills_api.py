"""The marketplace, read only."""

from typing import Any

from functions.http import Answer, Request, http_handler
from shared.cursor import make_cursor, read_cursor
from shared.db import get_content
from shared.skill_search import get_published_skills_list
from shared.skill_store import get_skill
from shared.skills import Skill, full_name, split_name

MAX_LIMIT = 100


async def list_(request: Request) -> Answer:
    request.allow_query("limit", "cursor")
    limit = request.whole_number("limit", default=50, lowest=1, highest=MAX_LIMIT)
    after = await read_cursor(request.query.get("cursor"), "skills")
    page = await get_published_skills_list(limit, after)
    return Answer(
        {
            "skills": [_item(skill) for skill in page.skills],
            "cursor": await make_cursor(page.next_position, "skills"),
            "degraded": bool(page.failed),
            "stale": page.failed,
        }
    )


async def get_one(request: Request) -> Answer:
    request.allow_query()
    skill = await get_skill(request.path["proxy"])
    files = await get_content().get_files(skill.content_hash)
    content = files["SKILL.md"].decode("utf-8", errors="replace")
    return Answer({"skill": _item(skill) | {"content": content, "versions": skill.versions}})


ROUTES = {
    "GET /api/v1/skills": list_,
    "GET /api/v1/skills/{proxy+}": get_one,
}
handler = http_handler(ROUTES)


def _item(skill: Skill) -> dict[str, Any]:
    name = split_name(full_name(skill))
    return {
        "name": skill.name,
        "displayName": skill.display_name,
        "author": name.owner,
        "ownerSlug": name.owner,
        "repoSlug": name.repo,
        "skillSlug": name.slug,
        "description": skill.description,
        "category": skill.category,
        "tags": skill.tags,
        "repoUrl": skill.repo_url,
        "currentVersion": skill.current_version,
        "contentHash": skill.content_hash,
        "publishedAt": skill.published_at,
        "updatedAt": skill.updated_at,
        "isBlocked": skill.is_blocked,
    }
