"""Atom feeds: what was decided about the skills of a repository, what is new in a category, the blocklist. All of it is
public on the pages too, so no feed needs a token and none shows more."""

import re
from urllib.parse import quote

from functions.http.answer import REVALIDATE, Answer
from functions.http.request import Request
from shared.errors import NotFound, Unavailable
from shared.evidence.blocklist import BlockEntry, list_blocks
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.notifications.events import RepoEvent, get_events_of_repo
from shared.records.skills import Skill
from shared.web.atom import MEDIA_TYPE, FeedEntry, atom_feed
from shared.web.labels import EVENT_LABELS

ENTRIES = 50
_REPO = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}", re.ASCII)


async def of_owner(request: Request) -> Answer:
    request.allow_query()
    repo = f"{request.path['owner']}/{request.path['repo']}".lower()
    if not _REPO.fullmatch(repo):
        raise NotFound("There is no such repository.")
    events = [stored.event for stored in await get_events_of_repo(repo, ENTRIES)]
    return _feed(request, f"/feeds/owners/{repo}", f"Skills of {repo}", [_of_event(event) for event in events])


async def of_category(request: Request) -> Answer:
    request.allow_query()
    category = request.path["category"].lower()
    if len(category) > 100 or not category.isprintable():
        raise NotFound("There is no such category.")
    found = await list_skills(SkillQuery(category=category, limit=ENTRIES))
    if found.failed:
        raise Unavailable("Not every skill of this category could be read.")
    path = f"/feeds/categories/{quote(category)}"
    return _feed(request, path, f"New skills: {category}", [_of_skill(skill) for skill in found.skills])


async def of_blocklist(request: Request) -> Answer:
    request.allow_query()
    entries, unread = await list_blocks()
    if unread:  # a reader would take an incomplete list for all of it
        raise Unavailable("The blocklist could not be read completely.")
    return _feed(request, "/feeds/blocklist", "Blocklist", [_of_block(entry) for entry in entries[:ENTRIES]])


ROUTES = {
    "GET /feeds/owners/{owner}/{repo}": of_owner,
    "GET /feeds/categories/{category}": of_category,
    "GET /feeds/blocklist": of_blocklist,
}


def _feed(request: Request, path: str, title: str, entries: list[FeedEntry]) -> Answer:
    body = atom_feed(request.site, path, title, entries)
    return Answer(body, headers={"content-type": MEDIA_TYPE}, cache=REVALIDATE)


def _of_event(event: RepoEvent) -> FeedEntry:
    version = f" {event.version}" if event.version else ""
    run = f"/runs/{event.run}" if event.run else ""
    path = f"/submissions/{event.submission_id}{run}" if event.submission_id else f"/skills/{quote(event.skill_name)}"
    title = f"{EVENT_LABELS[event.type]}: {event.skill_name}{version}"
    return FeedEntry(event.id, title, event.at, path, event.reason or title)


def _of_skill(skill: Skill) -> FeedEntry:
    title = f"{skill.name} {skill.current_version}"
    owner = skill.name.partition("/")[0]
    path = f"/skills/{quote(skill.name)}"
    return FeedEntry(f"{skill.name}-{skill.current_version}", title, skill.updated_at, path, skill.description, owner)


def _of_block(entry: BlockEntry) -> FeedEntry:
    at = entry.updated_at or entry.discovered_at
    return FeedEntry(entry.id, f"Blocked: {entry.skill_name}", at, "/api/v1/blocklist", entry.reason)
