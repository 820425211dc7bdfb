"""Downloads counted as installations: once per client address, version and day.

A marker says that this address downloaded this version today. It is written in the transaction that counts, so a retry
counts nothing twice; it holds a keyed hash instead of the address, and expires.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from shared import telemetry
from shared.access.limits import network_of
from shared.access.signing import sign
from shared.db import get_kv, now
from shared.errors import Unavailable
from shared.marketplace.community import counted_put
from shared.marketplace.skill_store import read_skills, unread_skill, write_counts
from shared.records.skills import Skill
from shared.storage.kv import ABSENT, Key, Put, Write
from shared.telemetry import logger

MARKER_TTL = timedelta(days=2)  # longer than the day that it is about


async def try_to_count_download(skill: Skill, version: str, address: str) -> None:
    """Best effort: a download does not fail because it cannot be counted."""
    try:
        await count_download(skill, version, address)
    except Unavailable:
        logger.warning("download not counted", exc_info=True, extra={"skill": skill.name, "version": version})
        telemetry.count("DownloadsNotCounted")


async def count_download(skill: Skill, version: str, address: str) -> None:
    marker = await _marker_key(skill.name, version, address)
    if await get_kv().get(marker) is not None:
        return
    expires_at = int((now() + MARKER_TTL).timestamp())

    async def build() -> list[Write]:
        read = await read_skills([skill.name])
        if read.failed or not read.counts:
            raise unread_skill()
        if await get_kv().get(marker) is not None:  # by a request of the same moment
            return []
        put = Put(marker, "{}", {"expiresAt": expires_at}, ABSENT)
        return [put, counted_put(skill, read.counts[skill.name.lower()], installs=1)]

    await write_counts(build)


async def find_downloaded(versions: Mapping[str, str], address: str) -> set[str]:
    """Of these skills with a version each, those that this address downloaded today."""
    markers = {await _marker_key(name, version, address): name for name, version in versions.items()}
    read = await get_kv().get_many(markers)
    if read.failed:
        raise Unavailable("Not all downloads of this address could be read.")
    return {markers[key] for key in read.found}


def versions_of(skills: Iterable[Skill], sent: Mapping[str, str | None]) -> dict[str, str]:
    """By name in lower case: the version that a client says it installed, else the current one."""
    return {skill.name.lower(): sent.get(skill.name.lower()) or skill.current_version for skill in skills}


async def _marker_key(name: str, version: str, address: str) -> Key:
    """A partition per address and day: one popular skill is no hot partition."""
    client = (await sign("download", network_of(address)))[:32]
    return Key(f"download:{client}:{now():%Y-%m-%d}", f"{name.lower()}@{version}"[:900])
