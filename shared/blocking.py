"""What a block of one skill puts on the blocklist: its name in its source, its content wherever it turns up, and the
likeness that copies are caught by. Lifting the block takes all of that away again, and nothing else."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shared.blocklist import (
    BlockEntry,
    block_keys,
    block_put,
    entry_for,
    find_entry,
    forget_likeness,
    remember_likeness,
    worst_entry,
)
from shared.db import get_kv
from shared.errors import Conflict, Unavailable
from shared.kv import Key, Put
from shared.receipt_store import read_receipt, receipt_key


class Named(NamedTuple):
    """What is to be blocked. Of its content the hashes, each with the key of the receipt of its scan."""

    name: str
    source: str
    content: Mapping[str, Key]


def content_of(content_hash: str | None, rule_set: str | None, unseen: str = "") -> dict[str, Key]:
    return {content_hash: receipt_key(content_hash, rule_set or "", unseen)} if content_hash else {}


async def entry_puts(named: Named, reason: str, severity: str = "high") -> list[Put]:
    return [put for _, put in await asyncio.gather(*map(block_put, _entries(named, reason, severity)))]


async def find_own_entries(named: Named) -> list[BlockEntry]:
    found = await asyncio.gather(*(find_entry(entry.id) for entry in _entries(named, "", "high")))
    return [entry for entry in found if entry]


async def refuse_other_entries(named: Named, own: Iterable[BlockEntry] = ()) -> None:
    """While the blocklist names it for another reason than its own block, nobody lets it in."""
    hashes: Sequence[str | None] = [*named.content] or [None]
    keys = {key for content_hash in hashes for key in block_keys(named.name, named.source, content_hash)}
    read = await get_kv().get_many(sorted(keys))
    if read.failed:
        raise Unavailable("The blocklist could not be read.")
    ours = {f"block:{entry.id}" for entry in own}
    entry = worst_entry(doc for key, doc in read.found.items() if key.pk not in ours)
    if entry:
        message = f"The blocklist names it: {entry.reason.rstrip('.')}. Remove that entry first."
        raise Conflict(message, code="blocklisted", details={"entry": entry.id})


async def remember_copies(named: Named) -> None:
    for content_hash, signature in await _signatures(named):
        await remember_likeness(content_hash, signature)


async def forget_copies(named: Named) -> None:
    for content_hash, signature in await _signatures(named):
        await forget_likeness(content_hash, signature)


def _entries(named: Named, reason: str, severity: str) -> list[BlockEntry]:
    by_content = [entry_for(named.name, reason, named.source, severity, content_hash) for content_hash in named.content]
    return [entry_for(named.name, reason, named.source, severity), *by_content]


async def _signatures(named: Named) -> list[tuple[str, tuple[int, ...]]]:
    """Of what was scanned. What never was has none, so its copies are not known."""
    read = await get_kv().get_many(named.content.values())
    if read.failed:
        raise Unavailable("The receipts of this skill could not be read.")
    receipts = map(read_receipt, read.found.values())
    return [(receipt.content_hash, receipt.report.signature) for receipt in receipts]
