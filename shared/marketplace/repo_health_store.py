"""The health of a skill's repository: does it exist, is it maintained. Checked again after a day, by one request at a
time. A reader never gets an error: while GitHub or the store is unavailable, the last known health is returned.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from shared.db import get_github, get_kv, now
from shared.errors import ConditionFailed, PlatformError, Refused, Unavailable
from shared.storage.documents import encode, parse_each
from shared.storage.kv import ABSENT, Expect, Key, Put
from shared.telemetry import logger
from shared.timing import OUTAGE_PAUSE, REPO_HEALTH_AGE, REPO_STALE_AFTER


class RepoStatus(StrEnum):
    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    STALE = "STALE"


class RepoHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: str
    status: RepoStatus | None = None  # None: not known yet
    checked_at: datetime | None = None
    last_commit_at: datetime | None = None
    stars: int | None = None


async def get_repo_health(source: str) -> RepoHealth:
    """`source` as submissions have it: the lower-cased URL of a repository. Uploads have none."""
    if "://" not in source:
        return RepoHealth(source=source)
    try:
        record = await _find(source)
        if record is not None and now() < record.next_check_at:
            return record.health
        return await _refreshed(source, record)
    except Unavailable as error:
        logger.warning("repository health not read", exc_info=error, extra={"source": source})
        return RepoHealth(source=source)


async def find_repo_healths(sources: Iterable[str]) -> dict[str, RepoHealth]:
    """What is stored of each, however old, in one read. Those that could not be read are left out."""
    read = await get_kv().get_many(map(_key, sources))
    records, _ = parse_each(read.found, _RECORD)
    return {record.health.source: record.health for record in records}


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    health: RepoHealth
    next_check_at: datetime
    record_version: int = 1


_RECORD = msgspec.json.Decoder(_Record)


async def _find(source: str) -> _Record | None:
    doc = await get_kv().get(_key(source))
    return None if doc is None else _RECORD.decode(doc)


async def _refreshed(source: str, record: _Record | None) -> RepoHealth:
    known = record.health if record else RepoHealth(source=source)
    # Until this time other requests return what is known. If we fail, the next request after it tries again.
    claimed = await _put(known, now() + OUTAGE_PAUSE, record)
    if claimed is None:
        return known
    try:
        health = await _ask_github(source)
        await _put(health, now() + REPO_HEALTH_AGE, claimed)
    except PlatformError as error:
        logger.info("repository health kept as it was", extra={"source": source, "problem": str(error)})
        return known
    return health


async def _ask_github(source: str) -> RepoHealth:
    owner, _, name = source.partition("://")[2].partition("/")[2].partition("/")
    at = now()
    get_github().yield_quota_to_workers()
    try:
        repo = await get_github().get_repo(owner, name)
    except Refused as refusal:
        if refusal.code != "repo_not_found":
            raise
        return RepoHealth(source=source, status=RepoStatus.OFFLINE, checked_at=at)
    is_stale = repo.pushed_at is not None and at - repo.pushed_at > REPO_STALE_AFTER
    status = RepoStatus.STALE if is_stale else RepoStatus.ONLINE
    return RepoHealth(source=source, status=status, checked_at=at, last_commit_at=repo.pushed_at, stars=repo.stars)


async def _put(health: RepoHealth, next_check_at: datetime, before: _Record | None) -> _Record | None:
    """None: another request was faster."""
    version = before.record_version + 1 if before else 1
    record = _Record(health=health, next_check_at=next_check_at, record_version=version)
    expect: Expect = {"recordVersion": before.record_version} if before else ABSENT
    try:
        await get_kv().put(Put(_key(health.source), encode(record), {"recordVersion": version}, expect))
    except ConditionFailed:
        return None
    return record


def _key(source: str) -> Key:
    return Key(f"repo-health:{source}")
