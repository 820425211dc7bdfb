"""The page of an owner: its skills, what they add up to, and which of its repositories were proven."""

import asyncio
from urllib.parse import quote

from functions.html import paging
from functions.html.responses import page, see_other
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.access.proven_owners import get_proven_repos
from shared.db import now
from shared.errors import NotFound
from shared.marketplace.skill_search import SkillPage, SkillQuery, list_skills
from shared.marketplace.skill_store import UPLOADS_OWNER, get_blocked_counts, is_usable_name
from shared.web import skill_views

SHOWN = 30
SUMMED_UP = 100  # skills: of an owner with more, nothing is added up


async def show(request: Request) -> Answer:
    request.allow_query(*paging.PARAMETERS)
    owner = request.path["owner"]
    if owner != owner.lower():
        return see_other(f"/owners/{quote(owner.lower())}")
    if not is_usable_name(owner):
        raise _no_such_owner()
    bound_to = f"owner {owner}"
    after = await read_cursor(request.query.get("cursor"), bound_to)
    found, summed_up, blocked, proven = await asyncio.gather(
        list_skills(SkillQuery(author=owner, limit=SHOWN, after=after)),
        list_skills(SkillQuery(author=owner, limit=SUMMED_UP)),
        get_blocked_counts([owner]),
        get_proven_repos(owner),
    )
    if not (found.skills or found.next_position or found.failed or after or blocked.get(owner, 1) or proven):
        raise _no_such_owner()
    cursor = await make_cursor(found.next_position, bound_to)
    at = now()
    return page(
        request,
        "owner_profile.html",
        at,
        owner=_spelled(owner, found),
        is_place=owner == UPLOADS_OWNER,
        totals=skill_views.owner_totals(summed_up, at.date()),
        blocked=blocked.get(owner),
        proven=proven,
        skills=[skill_views.skill_view(skill, found.counts_of(skill), at) for skill in found.skills],
        degraded=bool(found.failed),
        previous_url=paging.previous_url(request, SHOWN),
        next_url=paging.next_url(request, cursor, len(found.skills)),
    )


def _spelled(owner: str, found: SkillPage) -> str:
    """As its repositories spell it."""
    return found.skills[0].name.partition("/")[0] if found.skills and "/" in found.skills[0].name else owner


def _no_such_owner() -> NotFound:
    return NotFound("This owner has no skills here.")
