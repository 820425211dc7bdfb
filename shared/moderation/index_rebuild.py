"""The search indexes of skills and submissions, written again from their records, page by page.

A page reports how many entries were missing, so the job that repairs an index also measures its drift. It walks the
list index, which the store itself keeps consistent with the records, so no table scan is needed. Entries that no record
needs any more are left: readers drop them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed
from shared.evidence.receipt_store import read_receipt, receipt_key
from shared.marketplace.near_copies import near_copy_puts
from shared.marketplace.skill_index import first_put, index_puts, known_owner_puts, look_alike_puts, owner_puts
from shared.marketplace.skill_store import ReadSkills, counts_put, get_page_of_names, new_counts, read_skills
from shared.records.facets import facet_of
from shared.records.skills import Skill, full_name
from shared.storage.kv import ABSENT, Expect, Key, Put, Write
from shared.submissions.submission_store import get_page_of_ids, get_submissions_fresh, words_of

RECORDS_PER_PAGE = 100
WRITES_AT_ONCE = 100  # a transaction takes no more
KINDS = ("skill:", "sub:")


class RebuildProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    checked: int
    missing: dict[str, int]  # entries that were added, by index
    failed: list[str]  # records that could not be read
    next_position: str | None  # None: finished


async def rebuild_index(after: str | None = None, limit: int = RECORDS_PER_PAGE) -> RebuildProgress:
    """One page; continue with `next_position`, also after a crash: repeating a page changes nothing."""
    kind = next((kind for kind in KINDS if after and after.startswith(kind)), KINDS[0])
    # The oldest first: of names that look alike, the first one published keeps the entry.
    get_page = get_page_of_names if kind == "skill:" else get_page_of_ids
    ids, end = await get_page((after.removeprefix(kind) if after else None) or None, limit)
    missing, failed = await (_repair_skills(ids) if kind == "skill:" else _repair_submissions(ids))
    following = f"{kind}{end}" if end else next(iter(KINDS[KINDS.index(kind) + 1 :]), None)
    return RebuildProgress(checked=len(ids), missing=missing, failed=failed, next_position=following)


async def write_in_chunks(writes: Sequence[Write]) -> None:
    """More than a transaction takes, so not all or nothing: only for what may be written twice."""
    for start in range(0, len(writes), WRITES_AT_ONCE):
        await get_kv().transact(partial(list, writes[start : start + WRITES_AT_ONCE]))


async def _repair_skills(names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    read = await read_skills(names)
    skills = [read.skills[name] for name in names if name in read.skills]
    first: dict[Key, Put] = {}  # of names that look alike, and of skills with the same content
    signatures = await _signatures_of(skills)
    for put in (put for skill in skills for put in _puts_of_the_first(skill, signatures.get(skill.name, ()))):
        first.setdefault(put.key, put)
    wanted = [put for skill in skills for put in index_puts(skill)]
    missing, failed = await _repair([*wanted, *first.values()])
    counted = await _repair_counts(read)
    return {**missing, **({"installs": counted} if counted else {})}, [*read.failed, *failed]


async def _signatures_of(skills: Sequence[Skill]) -> dict[str, Sequence[int]]:
    """By name, from the scans of what is published. A copy has no records of its own."""
    keys = {
        receipt_key(skill.content_hash, skill.rule_set, skill.unscanned): skill.name
        for skill in skills
        if skill.rule_set and not skill.copy_of
    }
    read = await get_kv().get_many(keys)
    return {keys[key]: read_receipt(doc).report.signature for key, doc in read.found.items()}


def _puts_of_the_first(skill: Skill, signature: Sequence[int]) -> list[Put]:
    name = full_name(skill)
    owned = [*owner_puts(name), *known_owner_puts(name)]
    near_copies = near_copy_puts(skill, signature)
    return [*look_alike_puts(name), *owned, first_put(skill.content_hash, skill.name), *near_copies]


async def _repair_submissions(ids: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    fresh = await get_submissions_fresh(ids)
    missing, failed = await _repair([put for submission in fresh.submissions for put in words_of(submission)])
    return missing, [*fresh.failed, *failed]


async def _repair(wanted: Iterable[Put]) -> tuple[dict[str, int], list[str]]:
    by_key = {put.key: put for put in wanted}
    read = await get_kv().get_many(by_key)
    puts = [by_key[key] for key in read.missing]
    await write_in_chunks(puts)
    missing = Counter(put.key.pk.partition(":")[0] for put in puts)
    return dict(missing), [f"{key.pk}/{key.sk}" for key in read.failed]


async def _repair_counts(read: ReadSkills) -> int:
    """For skills that the order by installs, or that of their category, lacks."""
    repaired = 0
    for name, counts in read.counts.items():
        skill = read.skills.get(name)
        if skill is None or counts.category == facet_of(skill, "category"):
            continue
        fresh = new_counts(skill)
        after = msgspec.structs.replace(
            counts, name=fresh.name, category=fresh.category, record_version=counts.record_version + 1
        )
        try:
            expect: Expect = {"recordVersion": counts.record_version} if counts.record_version else ABSENT
            await get_kv().put(counts_put(after, expect))
            repaired += 1
        except ConditionFailed:
            continue  # an install meanwhile wrote the same
    return repaired
