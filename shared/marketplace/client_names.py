"""Names with two levels, as npm and clawhub have them: `@owner/repo--skill` for our owner/repo/skill.

Two skills can get one such name, because `--` may be in the name of a repository and of a folder. On npm the one that
was published first keeps it; clawhub has no answer but that it is ambiguous.
"""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from shared.errors import Conflict
from shared.marketplace.installable import Installable, find_first_published, find_recorded
from shared.marketplace.skill_store import find_names_by_slug
from shared.records.skills import Skill, full_name, npm_name_of, split_name

MAX_SAME_FOLDER = 100
MAX_SPLITS = 4  # each is a query where no owner is named
# Claude Code keeps the names agent-skills, anthropic-* and claude-* for others.
OWN_NAME, OF_ALL_OWNERS = "vskill", "vskills"  # the second begins what no owner's marketplace is called
_WORD = re.compile(r"[a-z0-9]+")
_NPM_NAME = re.compile(r"@([a-z0-9-]{1,39})/([a-z0-9._-]{1,213})")
_HANDLE = re.compile(r"[a-z0-9-]{1,39}")
_SLUG = re.compile(r"[a-z0-9._-]{1,213}")


class NameRival(NamedTuple):
    name: str
    was_first: bool  # it keeps the name on npm
    is_deleted: bool = False  # it is in no one's way on clawhub


async def find_npm_owner(npm_name: str) -> Skill | None:
    """The skill whose package it is, also when it is blocked or deleted."""
    match = _NPM_NAME.fullmatch(npm_name)
    return await find_first_published(full_names(*match.groups())) if match else None


async def without_taken_names(found: Sequence[Installable]) -> list[Installable]:
    """Those whose package of npm is their own. Names that only one skill can have are not looked up."""
    rivals = {each.skill.name: _rivals(each.skill) for each in found}
    asked = sorted({name for names in rivals.values() if len(names) > 1 for name in names})
    first: dict[str, Skill] = {}
    for skill in sorted(await find_recorded(asked), key=lambda skill: skill.published_at) if asked else ():
        first.setdefault(npm_name_of(skill.name) or "", skill)
    names = {skill.name for skill in first.values()}
    return [each for each in found if len(rivals[each.skill.name]) == 1 or each.skill.name in names]


async def find_name_rival(skill: Skill) -> NameRival | None:
    """Another skill that has the same name of two levels."""
    names = _rivals(skill)
    others = [each for each in await find_recorded(names) if each.name != skill.name] if len(names) > 1 else []
    first = min(others, key=lambda other: other.published_at, default=None)
    return NameRival(first.name, first.published_at < skill.published_at, first.is_deleted) if first else None


async def find_by_clawhub_slug(slug: str, owner: str | None) -> Skill | None:
    """Also one that is blocked. Without an owner any owner's; raises Conflict if there are several."""
    slug, owner = slug.lower(), owner.lower() if owner else None
    if not _SLUG.fullmatch(slug) or (owner is not None and not _HANDLE.fullmatch(owner)):
        return None
    names = full_names(owner, slug) if owner else await _names_of_any_owner(slug)
    known = [skill for skill in await find_recorded(names) if not skill.is_deleted and skill.ref is None]
    if len(known) > 1:
        raise _ambiguous(slug, [skill.name for skill in known])
    return known[0] if known else None


def marketplace_name(*parts: str) -> str:
    """Lower-case words joined by hyphens. Where a part is more than one word, a part of the hash
    distinguishes equal names: `a-b/c` and `a/b-c`. A marketplace with the name of another would replace its plugins."""
    whole = "/".join(parts).lower()
    words = re.sub(r"[^a-z0-9]+", "-", whole).strip("-")
    is_plain = all(_WORD.fullmatch(part) for part in whole.split("/"))
    return words if is_plain else f"{words}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def version_marketplace(skill: Skill, version: str) -> str:
    """The marketplace that has one version alone."""
    return marketplace_name(OWN_NAME, *split_name(full_name(skill)), version)


def clawhub_slug_of(skill: Skill) -> str:
    _, repo, slug = split_name(full_name(skill))
    return f"{repo}--{slug}".lower()


def full_names(owner: str, joined: str) -> list[str]:
    return [f"{owner}/{repo}/{slug}" for repo, slug in _splits(joined)]


async def _names_of_any_owner(slug: str) -> list[str]:
    """A folder's name alone is enough where only one skill has it."""
    splits = _splits(slug) or [("", slug)]
    if len(splits) > MAX_SPLITS:
        raise _ambiguous(slug, [])
    found = await asyncio.gather(*(find_names_by_slug(folder, MAX_SAME_FOLDER) for _, folder in splits))
    if any(matches.has_more for matches in found):
        raise _ambiguous(slug, [])
    pairs = [(repo, name) for (repo, _), matches in zip(splits, found, strict=True) for name in matches.names]
    return [name for repo, name in pairs if repo in ("", split_name(name).repo.lower())]


def _rivals(skill: Skill) -> list[str]:
    owner, repo, slug = split_name(full_name(skill).lower())
    return full_names(owner, f"{repo}--{slug}")


def _splits(joined: str) -> list[tuple[str, str]]:
    """Every repository and folder that it can mean."""
    places = [match.start() for match in re.finditer(r"(?=--)", joined)]
    parts = [(joined[:at], joined[at + 2 :]) for at in places]
    return [(repo, slug) for repo, slug in parts if repo and slug]


def _ambiguous(slug: str, names: Sequence[str]) -> Conflict:
    return Conflict(
        f"Several skills are called {slug!r} here. Name the owner: @owner/{slug}.",
        code="ambiguous_name",
        details={"candidates": sorted(names)} if names else None,
    )
