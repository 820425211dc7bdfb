"""What is blocked: by name in its source, by name anywhere, by content, and by similarity to blocked content.

An entry is scoped to the name and source it was made for. Only one without a source bans the name everywhere: blocking
one "google" skill must not block every skill of that name.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, NotFound, Unavailable
from shared.scanner import near_duplicates
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, LISTS, Delete, Expect, Key, Put, Write, ids_of, shard_of

SEVERITIES = ("low", "medium", "high", "critical")
MAX_SIMILAR = 50  # content hashes per band
MAX_EVIDENCE = 20
LATELY = timedelta(days=1)  # longer than any attempt


class BlockEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    skill_name: str
    source_url: str | None = None
    content_hash: str | None = None
    threat_type: str = "malicious"
    severity: str = "high"
    reason: str
    evidence_urls: tuple[str, ...] = ()
    discovered_at: datetime
    updated_at: datetime | None = None  # None: as it was found
    # The skill whose block added it, in lower case: lifting that block removes it. None: a person or a scanner added
    # it, or more than one of them did, so only a person removes it.
    origin: str | None = None
    version: int = 1

    @property
    def id(self) -> str:
        if self.content_hash:
            return f"hash:{self.content_hash}"
        name = self.skill_name.lower()
        return f"name:{name}@{self.source_url.lower()}" if self.source_url else f"name:{name}"

    @property
    def subject(self) -> str:
        """What it is about, for people."""
        if self.content_hash:
            return f"the content {self.content_hash[:12]}"
        return f"{self.skill_name} in {self.source_url}" if self.source_url else f"{self.skill_name} everywhere"


def block_keys(skill_name: str, source: str, content_hash: str | None) -> list[Key]:
    """Every entry that could be about this skill: its full name or its last part, in its source or anywhere."""
    names = {skill_name.lower(), skill_name.lower().rpartition("/")[2]}
    ids = [*names, *(f"{name}@{source}" for name in names)]
    keys = [_key(f"name:{entry}") for entry in sorted(ids)]
    return [*keys, _key(f"hash:{content_hash}")] if content_hash else keys


def latest_block_keys(skill_name: str, content_hash: str | None) -> list[Key]:
    """What each new entry leaves for a day, under the last part of its name or under its content."""
    names = [f"name:{skill_name.lower().rpartition('/')[2]}"]
    return [_latest_key(one) for one in [*names, *([f"hash:{content_hash}"] if content_hash else [])]]


def worst_entry(docs: Iterable[str]) -> BlockEntry | None:
    return worst_of(map(read_entry, docs))


def worst_of(entries: Iterable[BlockEntry]) -> BlockEntry | None:
    return max(entries, key=lambda entry: SEVERITIES.index(entry.severity), default=None)


def read_entry(doc: str) -> BlockEntry:
    return _ENTRY.decode(doc)


async def find_block(skill_name: str, source: str, content_hash: str | None = None) -> BlockEntry | None:
    read = await get_kv().get_many(block_keys(skill_name, source, content_hash))
    if read.failed:
        raise Unavailable("The blocklist could not be read.")
    return worst_entry(read.found.values())


async def find_bans(content_hashes: Iterable[str]) -> dict[str, BlockEntry]:
    """The entries that ban one of these contents in any source."""
    keys = {_key(f"hash:{content_hash}"): content_hash for content_hash in content_hashes}
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The blocklist could not be read.")
    return {keys[key]: read_entry(doc) for key, doc in read.found.items()}


def block_reason(entry: BlockEntry) -> str:
    """For the record of what it blocks, parked by "blocklist"."""
    return f"{entry.reason} (blocklist, {entry.severity})"


async def add_block(entry: BlockEntry, also: Sequence[Write] = ()) -> BlockEntry:
    entry, puts = await block_puts(entry)
    try:
        await get_kv().transact(lambda: [*puts, *also])
    except ConditionFailed as error:
        raise Conflict("This entry has just changed.", code="changed_meanwhile") from error
    return entry


async def block_puts(entry: BlockEntry) -> tuple[BlockEntry, list[Put]]:
    """Adds an entry or raises its severity, for the transaction of the caller: severity only ever rises. What is being
    published at this moment and has read the blocklist before learns of it."""
    old = await find_entry(entry.id)
    if old:
        entry = _merged(old, entry)
    about = (
        f"hash:{entry.content_hash}" if entry.content_hash else f"name:{entry.skill_name.lower().rpartition('/')[2]}"
    )
    latest = Put(_latest_key(about), "{}", {"expiresAt": int((now() + LATELY).timestamp())})
    return entry, [_put(entry, {"version": old.version} if old else ABSENT), latest]


def block_deletion(entry: BlockEntry) -> Delete:
    return Delete(_key(entry.id), {"version": entry.version})


async def find_entry(entry_id: str) -> BlockEntry | None:
    doc = await get_kv().get(_key(entry_id))
    return None if doc is None else read_entry(doc)


async def remove_block(entry_id: str, also: Sequence[Write] = ()) -> BlockEntry:
    entry = await find_entry(entry_id)
    if entry is None:
        raise NotFound("There is no such entry in the blocklist.", code="entry_not_found")
    await get_kv().transact(lambda: [block_deletion(entry), *also])
    return entry


async def list_blocks() -> tuple[list[BlockEntry], list[str]]:
    """Every entry, newest first, and the ids of those that could not be read."""
    ids = await ids_of(get_kv(), "block:")
    read = await get_kv().get_many(map(_key, ids))
    entries, malformed = parse_each(read.found, _ENTRY)
    unread = [key.pk for key in [*read.failed, *malformed]]
    return sorted(entries, key=lambda entry: entry.discovered_at, reverse=True), unread


async def signature_puts(signatures: Mapping[str, Sequence[int]]) -> list[Put]:
    """For the transaction that blocks it: copies of this content are found from now on, under any name."""
    puts = []
    for key, band in (await _read_bands(signatures)).items():
        known = band.signatures if band else {}
        new = {each: tuple(signatures[each]) for each in _in_band(key, signatures) if each not in known}
        if new and len(known) + len(new) <= MAX_SIMILAR:
            puts.append(_band_put(key, {**known, **new}, band))
    return puts


async def signature_removals(signatures: Mapping[str, Sequence[int]]) -> list[Put]:
    """For the transaction that lifts its block: copies of this content are no longer found."""
    bands = {key: band for key, band in (await _read_bands(signatures)).items() if band}
    return [
        _band_put(key, {each: known for each, known in band.signatures.items() if each not in signatures}, band)
        for key, band in bands.items()
        if band.signatures.keys() & signatures.keys()
    ]


def similar_in(docs: Mapping[Key, str], signature: Sequence[int]) -> list[tuple[str, float]]:
    """Blocked content that it resembles, the most similar first, with the estimated share in common. `docs`: what is
    stored under the keys of its bands."""
    known: dict[str, Sequence[int]] = {}
    for key in band_keys(signature):
        known |= _BAND.decode(docs[key]).signatures if key in docs else {}
    return near_duplicates.similar_to(signature, known)[:MAX_SIMILAR]


class _Band(msgspec.Struct, frozen=True):
    signatures: Mapping[str, tuple[int, ...]]
    version: int


_ENTRY = msgspec.json.Decoder(BlockEntry)
_BAND = msgspec.json.Decoder(_Band)


def _key(entry_id: str) -> Key:
    return Key(f"block:{entry_id}")


def _latest_key(about: str) -> Key:
    return Key(f"block:latest:{about}")


def _put(entry: BlockEntry, expect: Expect) -> Put:
    attrs: dict[str, str | int] = {
        "version": entry.version,
        "row": encode({"id": entry.id}),
        "listPk": f"{LISTS['block:']}#{shard_of(entry.id)}",
        "listSk": f"{stamp(entry.discovered_at)}#{entry.id}",
    }
    return Put(_key(entry.id), encode(entry), attrs, expect)


def _merged(old: BlockEntry, new: BlockEntry) -> BlockEntry:
    return msgspec.structs.replace(
        new,
        severity=max(old.severity, new.severity, key=SEVERITIES.index),
        evidence_urls=tuple(dict.fromkeys([*old.evidence_urls, *new.evidence_urls]))[-MAX_EVIDENCE:],
        discovered_at=old.discovered_at,
        updated_at=new.discovered_at,
        origin=new.origin if new.origin == old.origin else None,
        version=old.version + 1,
    )


async def _read_bands(signatures: Mapping[str, Sequence[int]]) -> dict[Key, _Band | None]:
    keys = sorted({key for signature in signatures.values() for key in band_keys(signature)})
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The signatures of blocked content could not be read.")
    return {key: _BAND.decode(read.found[key]) if key in read.found else None for key in keys}


def _in_band(key: Key, signatures: Mapping[str, Sequence[int]]) -> list[str]:
    return [content_hash for content_hash, signature in signatures.items() if key in band_keys(signature)]


def band_keys(signature: Sequence[int]) -> list[Key]:
    return [Key(f"near:{band}") for band in near_duplicates.bands(signature)]


def _band_put(key: Key, signatures: Mapping[str, tuple[int, ...]], before: _Band | None) -> Put:
    after = _Band(signatures, before.version + 1 if before else 1)
    return Put(key, encode(after), {"version": after.version}, {"version": before.version} if before else ABSENT)


def entry_for(
    skill_name: str,
    reason: str,
    source_url: str | None,
    severity: str = "high",
    content_hash: str | None = None,
    origin: str | None = None,
) -> BlockEntry:
    return BlockEntry(
        skill_name=skill_name,
        source_url=source_url,
        content_hash=content_hash,
        severity=severity,
        reason=reason,
        discovered_at=now(),
        origin=origin,
    )
