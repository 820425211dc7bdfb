"""Manifests at rest, one beside each version: made when it is published, from the files that were scanned."""

import hashlib
from collections.abc import Iterable

import msgspec

from shared.db import get_kv
from shared.marketplace.conformance import check_conformance, installed_folder
from shared.marketplace.skill_store import read_for_versions
from shared.records.manifests import FileDigest, Manifest
from shared.records.skills import sort_key
from shared.storage.content import Files
from shared.storage.documents import encode
from shared.storage.kv import Key, Put

MAX_FILES_BYTES = 200_000  # of a record's 400 KB
_MANIFEST = msgspec.json.Decoder(Manifest)


def manifest_of(name: str, version: str, files: Files) -> Manifest:
    """`name` is the full name of the skill."""
    checked = check_conformance(files.get("SKILL.md", b""), installed_folder(name))
    digests = tuple(
        FileDigest(path, len(content), hashlib.sha256(content).hexdigest()) for path, content in sorted(files.items())
    )
    return Manifest(
        name=name,
        version=version,
        front_matter=checked.front_matter,
        deviations=checked.deviations,
        files=digests if len(msgspec.json.encode(digests)) <= MAX_FILES_BYTES else (),
    )


def manifest_put(manifest: Manifest) -> Put:
    return Put(manifest_key(manifest.name, manifest.version), encode(manifest))


def manifest_key(name: str, version: str) -> Key:
    return Key(f"manifest:{name.lower()}", sort_key(version))


async def find_manifest(name: str, version: str) -> Manifest | None:
    """None: an older release published this version, and it has not been packaged since."""
    doc = await get_kv().get(manifest_key(name, version))
    return None if doc is None else _MANIFEST.decode(doc)


async def read_manifests(versions: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Manifest]:
    return await read_for_versions(versions, manifest_key, _MANIFEST)
