"""The marketplace at rest: skills, their versions and the short names that lead to them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import Conflict, NotFound, Unavailable
from shared.marketplace.skill_aliases import Namesakes, find_namesakes
from shared.marketplace.skill_index import (
    decode_skill,
    read_skills,
    skill_put,
)
from shared.marketplace.skill_index import skill_key as skill_key
from shared.records.skills import (
    Skill,
    SkillCounts,
    SkillVersion,
    is_version,
    sort_key,
)
from shared.scanner import ScanReport
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Key, Put, query_all

LONGEST_NAME = 500  # in any script it fits a key
MAX_CANDIDATES = 20  # of a short name that several skills have


class Enumerated(NamedTuple):
    skills: list[Skill]
    failed: list[str]


async def find_skill(name: str) -> Skill | None:
    doc = await get_kv().get(skill_key(name))
    return None if doc is None else decode_skill(doc)


async def get_skill(name: str) -> Skill:
    """By its full name, or by its last part alone where only one skill has it."""
    return (await get_skill_with_counts(name))[0]


async def get_skill_with_counts(name: str) -> tuple[Skill, SkillCounts | None]:
    """Beside the skill what readers do with it, in the same round trip. None: that could not be read."""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise _not_found(name)
    named = await _named(name)
    read = await read_skills(named.names)
    if read.failed:
        raise Unavailable("The store did not give this skill.")
    deleted = {skill.name.lower() for skill in read.skills.values() if skill.is_deleted}
    left = [name for name in named.names if name.lower() not in deleted]
    if len(left) > 1 or named.has_more:
        raise _ambiguous(name, left, named.has_more)
    if not left or left[0].lower() not in read.skills:
        raise _deleted(name) if deleted or named.was_deleted else _not_found(name)
    return read.skills[left[0].lower()], read.counts.get(left[0].lower())


async def get_versions(name: str) -> list[SkillVersion]:
    """Newest first."""
    rows = await query_all(get_kv(), f"version:{name.lower()}")
    return [_VERSION.decode(row.text) for row in reversed(rows)]


async def get_version(name: str, version: str) -> SkillVersion:
    doc = await get_kv().get(_key_of_version(name, version)) if is_version(version) else None
    found = None if doc is None else _VERSION.decode(doc)
    if found is None or found.version != version:
        raise NotFound(f"The skill {name[:80]!r} has no version {version[:40]!r}.", code="version_not_found")
    return found


async def put_rescanned(skill: Skill, report: ScanReport, rule_set: str) -> None:
    """What a newer rule set says of a published skill, when it says nothing worse."""
    scanned = msgspec.structs.replace(
        skill,
        rule_set=rule_set,
        verdict=report.verdict,
        score=report.score,
        record_version=skill.record_version + 1,
    )
    await get_kv().put(skill_put(scanned, {"recordVersion": skill.record_version}))


async def enumerate_published_skills() -> Enumerated:
    """Every published skill, read all at once. Aliases are in no list, so they are never read."""
    read = await enumerate_skills()
    return Enumerated([skill for skill in read.skills if skill.is_listed], read.failed)


async def enumerate_skills() -> Enumerated:
    """Those that are blocked or yanked too: their records and their content are still there."""
    read = await read_skills(await get_kv().ids("skill:"), with_counts=False)
    return Enumerated([skill for skill in read.skills.values() if not skill.is_deleted], read.failed)


_VERSION = msgspec.json.Decoder(SkillVersion)


def version_put(version: SkillVersion) -> Put:
    return Put(version_key(version), encode(version), expect=ABSENT)


def version_key(version: SkillVersion) -> Key:
    return _key_of_version(version.name, version.version)


def _key_of_version(name: str, version: str) -> Key:
    return Key(f"version:{name.lower()}", sort_key(version))


async def _named(name: str) -> Namesakes:
    if name.count("/") >= 2:
        return Namesakes([name], has_more=False, was_deleted=False)
    return await find_namesakes(name, MAX_CANDIDATES)


def _ambiguous(name: str, candidates: Sequence[str], has_more: bool) -> Conflict:
    several = f"More than {MAX_CANDIDATES} skills are" if has_more else "Several skills are"
    return Conflict(
        f"{several} called {name!r}. Ask for one of them by its full name.",
        code="ambiguous_name",
        details={"candidates": candidates, **({"more": True} if has_more else {})},
    )


def _deleted(name: str) -> NotFound:
    return NotFound(f"The skill {name[:80]!r} was deleted. Its name is not used again.", code="skill_deleted")


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no skill {name[:80]!r} here.", code="skill_not_found")
