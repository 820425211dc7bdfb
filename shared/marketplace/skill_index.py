"""Skills as they are stored, and what finds them: words, facets, look-alikes, the order by installs.

The skill's record is the truth; everything else here can be written again from it. Readers take a name from an index
for a candidate and drop it when its record no longer matches, so nothing has to be taken out of an index.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Unavailable
from shared.marketplace.author_store import blocked_count
from shared.records.search_words import LONGEST_WORD, joined, look_alike, skill_words
from shared.records.skills import Skill, SkillCounts, full_name, split_name
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import (
    ABSENT,
    LISTS,
    Check,
    Expect,
    Key,
    Put,
    Query,
    Write,
    page_of_ids,
    query_shards,
    shard_of,
)
from shared.submissions.counters import count_skill
from shared.submissions.word_index import word_puts
from shared.telemetry import logger
from shared.timing import STORE_BUDGET, STUCK_THRESHOLD, attempts_within

FACETS = ("category", "tier", "author")
WORDS = "find"
NAMES = "named"
LOOK_ALIKE = "NAME-LOOK-ALIKE"  # the rule for a new name that people mistake for a published one


class ReadSkills(NamedTuple):
    """By key name, which is the name in lower case. `counts` lacks those that could not be read: unknown, not 0."""

    skills: dict[str, Skill]
    counts: dict[str, SkillCounts]
    failed: list[str]


def skill_key(name: str) -> Key:
    """GitHub compares names without regard to case, so do we; the document keeps the name as it is written."""
    return Key(f"skill:{name.lower()}")


def counts_key(name: str) -> Key:
    return Key(f"installs:{name.lower()}")


def alike_key(name: str) -> Key:
    return Key(f"alike:{look_alike(name)}")


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


def skill_writes(before: Skill | None, after: Skill) -> list[Write]:
    """The record, guarded by the one it was made from, and what is counted of the marketplace and of its author."""
    if before is None:
        return [skill_put(after, ABSENT), *count_skill(None, after)]
    record = skill_put(after, {"recordVersion": before.record_version})
    return [record, *count_skill(before, after), *blocked_count(before, after)]


def unchanged_check(skill: Skill) -> Check:
    return Check(skill_key(skill.name), {"recordVersion": skill.record_version})


def counts_put(counts: SkillCounts, expect: Expect | None) -> Put:
    """Carries the order by installs itself, of all skills and of its category: a record that had to be told by another
    one could be told wrong."""
    name = counts.name.lower()
    attrs: dict[str, str | int] = {
        "recordVersion": counts.record_version,
        "row": encode({"name": counts.name, "installs": counts.installs}),
        "statePk": f"{installs_order()}#{shard_of(name)}",
        "stateSk": f"{counts.installs:012d}#{name}",
    }
    if counts.category:
        attrs |= {"listPk": f"{installs_order(counts.category)}#{shard_of(name)}", "listSk": attrs["stateSk"]}
    return Put(counts_key(name), encode(counts), attrs, expect)


def no_counts(skill: Skill) -> SkillCounts:
    """With which it starts."""
    return SkillCounts(name=skill.name, category=facet_of(skill, "category"), record_version=1)


def alike_put(name: str) -> Put:
    return Put(alike_key(name), encode({"name": name}))


def alike_name(doc: str) -> str:
    name: str = msgspec.json.decode(doc)["name"]
    return name


def is_confusable(name: str, other: str) -> bool:
    """Of one repository there is nobody to confuse: whoever owns it named both."""
    return split_name(name.lower())[:2] != split_name(other.lower())[:2]


def index_puts(skill: Skill) -> list[Put]:
    """Facets keep the first publication's time: a page between two versions neither loses nor repeats a skill."""
    name = skill.name.lower()
    at = stamp(skill.published_at)
    facets = [Put(Key(facet_partition(key, facet_of(skill, key)), f"{at}#{name}"), "{}") for key in FACETS]
    return [*word_puts(WORDS, skill_words(skill), name), *word_puts(NAMES, names_of(skill.name), name), *facets]


def names_of(name: str) -> set[str]:
    """What it is called, by its last part and in full, as far as an entry of the index takes it."""
    called = (joined(name.rpartition("/")[2]), joined(name))
    return {each[:LONGEST_WORD] for each in called if each}


def facet_partition(key: str, value: str) -> str:
    return f"facet:{key}={value.lower()}"


def facet_of(skill: Skill, key: str) -> str:
    values = {"category": skill.category, "tier": skill.cert_tier, "author": split_name(full_name(skill)).owner}
    return values[key].lower()


def installs_order(category: str | None = None) -> str:
    """What the partitions of the order by installs are called, of everything or of a category."""
    return f"installs:{facet_partition('category', category)}" if category else "installs"


async def index_skill(skill: Skill, may_have_moved: bool = True) -> Skill:
    """Written after the publication, all of it again when in doubt; only then the record no longer says it is due.
    `may_have_moved`: to another category, in whose order by installs it belongs from now on."""
    if may_have_moved:
        await _follow_category(skill)
    indexed = msgspec.structs.replace(skill, unindexed_since=None, record_version=skill.record_version + 1)
    record = skill_put(indexed, {"recordVersion": skill.record_version})
    try:
        await get_kv().transact(lambda: [record, *index_puts(skill)])
    except ConditionFailed:
        return skill  # it changed meanwhile, and the change says itself whether it is due
    return indexed


async def try_to_index(skill: Skill, may_have_moved: bool = True) -> None:
    """Until its words are written, the record is due, and the stuck scan writes them."""
    try:
        await index_skill(skill, may_have_moved)
    except Unavailable:
        logger.exception("words not written, left to the stuck scan", extra={"skill": skill.name})


async def _follow_category(skill: Skill) -> None:
    """To the category that the record has by now: a newer version may have followed its own already. Whoever counts an
    install meanwhile writes the same record: then it is looked at again."""
    name = skill.name.lower()
    async for _ in attempts_within(STORE_BUDGET):
        read = await read_skills([name])
        category, counts = facet_of(read.skills.get(name, skill), "category"), read.counts.get(name)
        if counts is None or not counts.record_version or counts.category == category:
            return
        moved = msgspec.structs.replace(counts, category=category, record_version=counts.record_version + 1)
        try:
            await get_kv().put(counts_put(moved, {"recordVersion": counts.record_version}))
        except ConditionFailed:
            continue
        return
    raise Unavailable("Too many others count the same skill at this moment.")


async def get_unindexed(at: datetime, limit: int) -> list[str]:
    """The names of skills whose words should have been written by now, at most one more than the limit."""
    due = await query_shards(get_kv(), Query("due:unindexed", "due", before=stamp(at), limit=limit + 1))
    return [row.key.pk.removeprefix("skill:") for row in due.rows[: limit + 1]]


async def get_page_of_names(after: str | None, limit: int) -> tuple[list[str], str | None]:
    """The oldest skills behind a position, and the position to continue from: None at the end."""
    return await page_of_ids(get_kv(), "skill:", after, limit)


async def read_skills(names: Iterable[str], with_counts: bool = True) -> ReadSkills:
    """Their records and what readers do with them, at once."""
    names = list(dict.fromkeys(name.lower() for name in names))
    counted = [counts_key(name) for name in names] if with_counts else []
    read = await get_kv().get_many([*map(skill_key, names), *counted])
    unread = set(read.failed)
    docs = {key: doc for key, doc in read.found.items() if key.pk.startswith("skill:")}
    skills, malformed = parse_each(docs, _SKILL)
    numbers, strange = parse_each({key: doc for key, doc in read.found.items() if key not in docs}, _COUNTS)
    found = {one.name.lower(): one for one in numbers}
    unknown = unread | set(strange)
    counts = {name: found.get(name) or SkillCounts(name=name) for name in names if counts_key(name) not in unknown}
    failed = [name for name in names if skill_key(name) in unread or skill_key(name) in malformed]
    return ReadSkills({skill.name.lower(): skill for skill in skills}, counts if with_counts else {}, failed)


def decode_skill(doc: str) -> Skill:
    return _SKILL.decode(doc)


_SKILL = msgspec.json.Decoder(Skill)
_COUNTS = msgspec.json.Decoder(SkillCounts)
