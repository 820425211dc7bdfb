"""What a block of one skill adds to the blocklist: its name in its source, its content in any source, the signature
that copies are found by, and what the block rested on. Content that another skill published here first is that skill's:
only the name is blocked then, so that blocking a copy does not ban the original. Lifting the block removes all
of that and nothing else: an entry that a person added for the same skill stays, and keeps it blocked."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shared.db import get_kv
from shared.errors import Conflict, Unavailable
from shared.evidence.block_evidence import evidence_of, evidence_put, marks_of, refuse_unknown_files
from shared.evidence.blocklist import (
    BlockEntry,
    block_deletion,
    block_keys,
    block_puts,
    entry_for,
    read_entry,
    signature_puts,
    signature_removals,
    worst_of,
)
from shared.evidence.receipt_store import Receipt, read_receipt, receipt_key
from shared.marketplace.near_copies import find_near_copy, near_copy_keys
from shared.marketplace.skill_index import decode_name, first_key
from shared.marketplace.skill_store import find_skill, read_skills
from shared.scanner import rule_set_version
from shared.storage.kv import ABSENT, Check, Key, Write


class BlockTarget(NamedTuple):
    """What a block or a lift is about."""

    name: str
    source: str
    receipts: Mapping[str, Key]  # by content hash


def receipt_keys(content_hash: str | None, rule_set: str | None, unscanned: str = "") -> dict[str, Key]:
    return {content_hash: receipt_key(content_hash, rule_set or "", unscanned)} if content_hash else {}


async def blocking_writes(
    target: BlockTarget, reason: str, severity: str = "high", files: Collection[str] = ()
) -> list[Write]:
    """For the transaction that blocks it: in one step, so that nothing is half blocked. `files`: what the block rests
    on, by path."""
    others = await published_by_others(target.name, target.receipts)
    target = target._replace(receipts={each: key for each, key in target.receipts.items() if each not in others})
    receipts = await _read_receipts(target)
    refuse_unknown_files(receipts, files if not others else ())
    entries, copies = await asyncio.gather(
        asyncio.gather(*map(block_puts, _entries(target, reason, severity))), signature_puts(_signatures(receipts))
    )
    before = await asyncio.gather(*(_marks_of_original(target.name, receipt) for receipt in receipts))
    evidence = [
        evidence_put(receipt.content_hash, evidence_of(receipt, files, had))
        for receipt, had in zip(receipts, before, strict=True)
    ]
    return [*(put for _, puts in entries for put in puts), *copies, *evidence]


async def _marks_of_original(name: str, receipt: Receipt) -> set[str]:
    """What is found in the skill of another publisher that this is a near-copy of, and that was here first."""
    signature = receipt.report.signature
    read = await get_kv().get_many(near_copy_keys(signature))
    copy = find_near_copy(read.found, signature, name, receipt.started_at)
    skill = await find_skill(copy.original.name) if copy else None
    rule_sets = {receipt.rule_set, rule_set_version(), skill.rule_set or ""} if skill else set()
    keys = [receipt_key(copy.original.content_hash, each) for each in rule_sets] if copy else []
    receipts = await get_kv().get_many(keys)
    if read.failed or receipts.failed:
        raise Unavailable("What the original of this skill has could not be read.")
    return set().union(*(marks_of(read_receipt(doc).report) for doc in receipts.found.values()))


async def published_by_others(name: str, content_hashes: Iterable[str]) -> set[str]:
    """Of these contents, those that another skill, which is listed, published here first."""
    keys = {first_key(each): each for each in content_hashes}
    read = await get_kv().get_many(keys)
    first = {keys[key]: decode_name(doc).lower() for key, doc in read.found.items()}
    others = await read_skills({one for one in first.values() if one != name.lower()}, with_counts=False)
    if read.failed or others.failed:
        raise Unavailable("The first publisher of this content could not be read.")
    return {each for each, one in first.items() if one in others.skills and others.skills[one].is_listed}


async def lifting_writes(target: BlockTarget) -> list[Write]:
    """For the transaction that lifts a block: removes its own entries and the signature that copies are found by.
    Another entry that names it is a conflict, and one added meanwhile fails the transaction."""
    entries = await _entries_about(target)
    own = [entry for entry in entries.values() if entry and entry.origin == target.name.lower()]
    others = {key: entry for key, entry in entries.items() if entry not in own}
    signatures = _signatures(await _read_receipts(target))
    return [*_absent(others), *map(block_deletion, own), *await signature_removals(signatures)]


async def unlisted_checks(target: BlockTarget) -> list[Check]:
    """For the transaction that publishes it: no entry names it, now or at that moment."""
    return _absent(await _entries_about(target))


async def _entries_about(target: BlockTarget) -> dict[Key, BlockEntry | None]:
    """Every entry that could name it, by key; None: there is no such entry."""
    hashes: Sequence[str | None] = [*target.receipts] or [None]
    keys = {key for content_hash in hashes for key in block_keys(target.name, target.source, content_hash)}
    read = await get_kv().get_many(sorted(keys))
    if read.failed:
        raise Unavailable("The blocklist could not be read.")
    return {key: read_entry(read.found[key]) if key in read.found else None for key in keys}


def _absent(entries: Mapping[Key, BlockEntry | None]) -> list[Check]:
    entry = worst_of(filter(None, entries.values()))
    if entry:
        message = f"The blocklist names {entry.subject}: {entry.reason.rstrip('.')}. Remove that entry first."
        raise Conflict(message, code="blocklisted", details={"entry": entry.id})
    return [Check(key, ABSENT) for key in sorted(entries)]


def _entries(target: BlockTarget, reason: str, severity: str) -> list[BlockEntry]:
    hashes: Sequence[str | None] = [None, *target.receipts]
    about = partial(entry_for, target.name, reason, target.source, severity, origin=target.name.lower())
    return [about(content_hash=content_hash) for content_hash in hashes]


def _signatures(receipts: Sequence[Receipt]) -> dict[str, tuple[int, ...]]:
    """Of what was scanned: content that never was has none, so its copies are not found."""
    return {receipt.content_hash: receipt.report.signature for receipt in receipts}


async def _read_receipts(target: BlockTarget) -> list[Receipt]:
    read = await get_kv().get_many(target.receipts.values())
    if read.failed:
        raise Unavailable("The receipts of this skill could not be read.")
    return list(map(read_receipt, read.found.values()))
