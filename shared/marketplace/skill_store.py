"""Skills at rest: their records, versions, counts and short names. The only module that knows their keys and stored
shape. It decides nothing: shared/marketplace/publishing.py and skill_admin.py do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Conflict, NotFound, Unavailable
from shared.records.installs import trend_of, week_of
from shared.records.skills import Skill, SkillCounts, SkillVersion, full_name, is_version, sort_key, split_name
from shared.scanner import ScanReport
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import (
    ABSENT,
    LISTS,
    Add,
    Check,
    Delete,
    Expect,
    Key,
    Put,
    Query,
    Write,
    page_of_ids,
    query_all,
    shard_of,
)
from shared.submissions.counters import count_skill
from shared.timing import STORE_BUDGET, STUCK_THRESHOLD, attempts_within

LONGEST_NAME = 500  # in any script it fits a key
WALKED_AT_ONCE = 1000
MAX_CANDIDATES = 20  # of a short name that several skills have
T = TypeVar("T")
UPLOADS_OWNER = "uploads"  # a place, not a person: uploads have nothing else in common


class Enumerated(NamedTuple):
    skills: list[Skill]
    failed: list[str]


class ReadSkills(NamedTuple):
    """By key name, which is the name in lower case. `counts` lacks those that could not be read: unknown, not 0."""

    skills: dict[str, Skill]
    counts: dict[str, SkillCounts]
    failed: list[str]


class FoundSkills(NamedTuple):
    skills: dict[str, Skill]  # by the name as it was sent; a name that leads to none or to several is not there
    failed: set[str]  # names whose skill could not be read


class SlugMatches(NamedTuple):
    names: list[str]  # full names of skills that are not deleted
    has_more: bool
    has_deleted: bool


# --- skills ---------------------------------------------------------------------------------------------------------


async def find_skill(name: str) -> Skill | None:
    doc = await get_kv().get(skill_key(name))
    return None if doc is None else decode_skill(doc)


async def get_skill(name: str) -> Skill:
    """By its full name, or by its last part alone where only one skill has it."""
    return (await get_skill_with_counts(name))[0]


async def get_skill_with_counts(name: str) -> tuple[Skill, SkillCounts | None]:
    """Both in one round trip. None: the counts could not be read."""
    if not is_usable_name(name):
        raise skill_not_found(name)
    is_full = name.count("/") >= 2
    matches = SlugMatches([name], False, False) if is_full else await find_names_by_slug(name, MAX_CANDIDATES)
    read = await read_skills(matches.names)
    if read.failed:
        raise unread_skill()
    deleted = {skill.name.lower() for skill in read.skills.values() if skill.is_deleted}
    left = [name for name in matches.names if name.lower() not in deleted]
    if len(left) > 1 or matches.has_more:
        raise _ambiguous(name, left, matches.has_more)
    if not left or left[0].lower() not in read.skills:
        raise _deleted(name) if deleted or matches.has_deleted else skill_not_found(name)
    return read.skills[left[0].lower()], read.counts.get(left[0].lower())


async def find_skills(names: Iterable[str]) -> FoundSkills:
    """By full or short names, in two round trips, however many names there are and however many skills share them."""
    sent = list(dict.fromkeys(names))
    full_names = dict(zip(sent, await asyncio.gather(*map(_find_full_name, sent)), strict=True))
    known = {name: full.lower() for name, full in full_names.items() if full is not None}
    read = await read_skills(known.values(), with_counts=False)
    failed = set(read.failed)
    alive = {key: skill for key, skill in read.skills.items() if not skill.is_deleted}
    return FoundSkills(
        {name: alive[key] for name, key in known.items() if key in alive},
        {name for name, key in known.items() if key in failed},
    )


async def read_skills(names: Iterable[str], with_counts: bool = True) -> ReadSkills:
    """Their records and counts, in one round trip."""
    names = list(dict.fromkeys(name.lower() for name in names))
    counted = [counts_key(name) for name in names] if with_counts else []
    read = await get_kv().get_many([*map(skill_key, names), *counted])
    unread = set(read.failed)
    docs = {key: doc for key, doc in read.found.items() if key.pk.startswith("skill:")}
    skills, malformed = parse_each(docs, _SKILL)
    parsed, malformed_counts = parse_each({key: doc for key, doc in read.found.items() if key not in docs}, _COUNTS)
    found = {one.name.lower(): one for one in parsed}
    unknown = unread | set(malformed_counts)
    counts = {name: found.get(name) or SkillCounts(name=name) for name in names if counts_key(name) not in unknown}
    failed = [name for name in names if skill_key(name) in unread or skill_key(name) in malformed]
    return ReadSkills({skill.name.lower(): skill for skill in skills}, counts if with_counts else {}, failed)


async def enumerate_published_skills() -> Enumerated:
    """Every published skill, read all at once. Aliases are in no list, so they are never read."""
    read = await read_skills(await get_kv().ids("skill:"), with_counts=False)
    return Enumerated([skill for skill in read.skills.values() if skill.is_listed], read.failed)


async def get_page_of_names(after: str | None, limit: int) -> tuple[list[str], str | None]:
    """The oldest skills behind a position, and the position to continue from: None at the end."""
    return await page_of_ids(get_kv(), "skill:", after, limit)


async def walk_skills() -> AsyncIterator[Enumerated]:
    """Some at a time, also those that are blocked or yanked: their records and their content are still there."""
    after: str | None = ""
    while after is not None:
        names, after = await get_page_of_names(after or None, WALKED_AT_ONCE)
        read = await read_skills(names, with_counts=False)
        yield Enumerated([skill for skill in read.skills.values() if not skill.is_deleted], read.failed)


async def put_rescanned(skill: Skill, report: ScanReport, rule_set: str) -> None:
    """The result of a newer rule set for a published skill, when it is no worse."""
    scanned = msgspec.structs.replace(
        skill,
        rule_set=rule_set,
        verdict=report.verdict,
        score=report.score,
        record_version=skill.record_version + 1,
    )
    await get_kv().put(skill_put(scanned, {"recordVersion": skill.record_version}))


def skill_key(name: str) -> Key:
    """GitHub compares names without regard to case, so do we; the document keeps the name as it is written."""
    return Key(f"skill:{name.lower()}")


def skill_name_in(key: Key) -> str:
    """In lower case."""
    return key.pk.removeprefix("skill:")


def decode_skill(doc: str) -> Skill:
    return _SKILL.decode(doc)


def skill_put(skill: Skill, expect: Expect) -> Put:
    attrs: dict[str, str | int] = {"recordVersion": skill.record_version}
    if not skill.is_deleted:  # a tombstone is in no list
        attrs |= {
            "row": encode({"name": skill.name}),
            "listPk": f"{LISTS['skill:']}#{shard_of(skill.name)}",
            "listSk": f"{stamp(skill.published_at)}#{skill.name}",
        }
    if skill.unindexed_since and not skill.is_deleted:
        due = stamp(skill.unindexed_since + STUCK_THRESHOLD)
        attrs |= {"duePk": f"due:unindexed#{shard_of(skill.name)}", "dueSk": f"{due}#{skill.name}"}
    return Put(skill_key(skill.name), encode(skill), attrs, expect)


def skill_writes(before: Skill | None, after: Skill, is_in_feed: bool = False) -> list[Write]:
    """The record, guarded by the one it was made from, and the counters of the marketplace and of its author."""
    counts = count_skill(before, after, is_in_feed)
    if before is None:
        return [skill_put(after, ABSENT), *counts]
    record = skill_put(after, {"recordVersion": before.record_version})
    return [record, *counts, *blocked_count_adds(before, after)]


def unchanged_check(skill: Skill) -> Check:
    return Check(skill_key(skill.name), {"recordVersion": skill.record_version})


# --- versions -------------------------------------------------------------------------------------------------------


async def get_versions(name: str) -> list[SkillVersion]:
    """Newest first."""
    rows = await query_all(get_kv(), f"version:{name.lower()}")
    return [_VERSION.decode(row.text) for row in reversed(rows)]


async def get_version(name: str, version: str) -> SkillVersion:
    doc = await get_kv().get(version_key(name, version)) if is_version(version) else None
    found = None if doc is None else _VERSION.decode(doc)
    if found is None or found.version != version:
        raise NotFound(f"The skill {name[:80]!r} has no version {version[:40]!r}.", code="version_not_found")
    return found


async def read_versions(wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], SkillVersion]:
    return await read_for_versions(wanted, version_key, _VERSION)


async def read_for_versions(
    wanted: Iterable[tuple[str, str]], key_of: Callable[[str, str], Key], decoder: msgspec.json.Decoder[T]
) -> dict[tuple[str, str], T]:
    """What is stored for them, by the name of the skill and the version, in one round trip."""
    keys = {key_of(name, version): (name, version) for name, version in wanted}
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("Not all of these versions could be read.")
    return {keys[key]: decoder.decode(doc) for key, doc in read.found.items()}


def version_put(version: SkillVersion) -> Put:
    return Put(version_key(version.name, version.version), encode(version), expect=ABSENT)


def version_update(version: SkillVersion) -> Put:
    """For the transaction that changes the skill's record too: the skill's version guards its versions."""
    put = version_put(version)
    return Put(put.key, put.doc, expect={"pk": put.key.pk})  # it exists


def version_key(name: str, version: str) -> Key:
    return Key(f"version:{name.lower()}", sort_key(version))


# --- counts of a skill, which carry the order by installs -----------------------------------------------------------


def counts_key(name: str) -> Key:
    return Key(f"installs:{name.lower()}")


def counts_put(counts: SkillCounts, expect: Expect | None) -> Put:
    """Carries the order by installs itself, of all skills and of its category, so that the two cannot disagree."""
    name = counts.name.lower()
    attrs: dict[str, str | int] = {
        "recordVersion": counts.record_version,
        "row": encode({"name": counts.name, "installs": counts.installs}),
        "statePk": f"{installs_order()}#{shard_of(name)}",
        "stateSk": f"{counts.installs:012d}#{name}",
    }
    if counts.category:
        attrs |= {"listPk": f"{installs_order(counts.category)}#{shard_of(name)}", "listSk": attrs["stateSk"]}
    if counts.last_day:
        trend = trend_of(counts, counts.last_day)
        attrs |= {"duePk": f"{trend_order(counts.last_day)}#{shard_of(name)}", "dueSk": f"{trend:012d}#{name}"}
    return Put(counts_key(name), encode(counts), attrs, expect)


async def write_counts(build: Callable[[], Awaitable[list[Write]]]) -> None:
    """Reads and writes again while other requests count the same skills, with growing pauses. `build` reads, and
    returns nothing where nothing is to be written."""
    async for _ in attempts_within(STORE_BUDGET):
        writes = await build()
        if not writes:
            return
        try:
            await get_kv().transact(partial(list, writes))
        except ConditionFailed:
            continue
        return
    raise Unavailable("Too many installs of this skill are being counted right now.")


def new_counts(skill: Skill) -> SkillCounts:
    return SkillCounts(name=skill.name, category=skill.category.lower(), record_version=1)


def installs_order(category: str | None = None) -> str:
    """The partitions of the order by installs, of all skills or of a category."""
    return f"installs:{facet_partition('category', category)}" if category else "installs"


def trend_order(day: date) -> str:
    """The partitions of skills that were last installed in this week, by the installs of the seven days before that."""
    return f"trend:{week_of(day)}"


def facet_partition(key: str, value: str) -> str:
    return f"facet:{key}={value.lower()}"


# --- blocked skills per author --------------------------------------------------------------------------------------


def blocked_count_adds(before: Skill, after: Skill) -> list[Add]:
    """For the transaction that replaces one by the other: guarded by the skill's version, so nothing counts twice."""
    owner = split_name(full_name(after)).owner.lower()
    change = after.is_blocked - before.is_blocked
    return [Add(_author_key(owner), {"blocked": change})] if change and owner != UPLOADS_OWNER else []


async def get_blocked_counts(owners: Iterable[str]) -> dict[str, int]:
    """By owner in lower case. An owner that could not be read is left out: unknown, not 0."""
    wanted = {owner.lower() for owner in owners} - {UPLOADS_OWNER}
    read = await get_kv().get_counts(map(_author_key, sorted(wanted)))
    failed = set(read.failed)
    known = {owner: read.found.get(_author_key(owner), {}) for owner in wanted if _author_key(owner) not in failed}
    return {UPLOADS_OWNER: 0} | {owner: counts.get("blocked", 0) for owner, counts in known.items()}


# --- short names: `skill:alias:{slug}`/full name, one row per skill -------------------------------------------------


async def find_names_by_slug(slug: str, limit: int) -> SlugMatches:
    """One page, one more than the limit, which shows whether these are all. Thousands may share a slug."""
    page = await get_kv().query(Query(_alias_partition(slug), limit=limit + 1))
    names = [row.sort for row in page.rows if not row.sort.startswith(_DELETED)]
    return SlugMatches(names[:limit], len(names) > limit, len(names) < len(page.rows))


async def get_names_by_slug(slug: str) -> list[str]:
    """All of them, for a ban that must reach each."""
    rows = await query_all(get_kv(), _alias_partition(slug))
    return [row.sort for row in rows if not row.sort.startswith(_DELETED)]


def alias_put(name: str) -> Put:
    return Put(_alias_key(name), encode({"name": name}))


async def alias_removal(skill: Skill) -> list[Write]:
    """For the transaction that deletes the skill: its short name may belong to one other skill from now on."""
    key = _alias_key(skill.name)
    deleted = Put(Key(key.pk, f"{_DELETED}{skill.name}"), encode({"name": skill.name}))
    return [deleted] if await get_kv().get(key) is None else [deleted, Delete(key, {"pk": key.pk})]


_SKILL = msgspec.json.Decoder(Skill)
_COUNTS = msgspec.json.Decoder(SkillCounts)
_VERSION = msgspec.json.Decoder(SkillVersion)
_DELETED = "~"  # sorts behind every owner's name, so deleted skills never fill a page


def _author_key(owner: str) -> Key:
    return Key(f"author:{owner}")


def _alias_key(name: str) -> Key:
    slug = split_name(name).slug if "/" in name else name
    return Key(_alias_partition(slug), name)


def _alias_partition(slug: str) -> str:
    return f"skill:alias:{slug.lower()}"


def is_usable_name(name: str) -> bool:
    return name.isprintable() and len(name) <= LONGEST_NAME


async def _find_full_name(name: str) -> str | None:
    if not is_usable_name(name) or name.count("/") == 1:
        return None
    if "/" in name:
        return name
    matches = await find_names_by_slug(name, limit=1)
    return matches.names[0] if matches.names and not matches.has_more else None


def _ambiguous(name: str, candidates: Sequence[str], has_more: bool) -> Conflict:
    several = f"More than {MAX_CANDIDATES} skills are" if has_more else "Several skills are"
    return Conflict(
        f"{several} called {name!r}. Use the full name of one of them.",
        code="ambiguous_name",
        details={"candidates": candidates, **({"more": True} if has_more else {})},
    )


def _deleted(name: str) -> NotFound:
    return NotFound(f"The skill {name[:80]!r} was deleted. Its name is not used again.", code="skill_deleted")


def unread_skill() -> Unavailable:
    return Unavailable("The store did not return this skill.")


def skill_not_found(name: str) -> NotFound:
    return NotFound(f"There is no skill {name[:80]!r} here.", code="skill_not_found")
