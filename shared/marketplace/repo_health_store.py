"""The health of a skill's repository: does it exist, is it maintained. Checked again after a day, by one request at a
time. A reader never gets an error: while GitHub or the store is unavailable, the last known health is returned.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shared.db import get_github, get_kv, now
from shared.errors import ConditionFailed, PlatformError, Refused, Unavailable
from shared.github.repos import GitHubRepo
from shared.storage.documents import encode, parse_each
from shared.storage.kv import ABSENT, Expect, Key, Put
from shared.submissions.submission_store import get_ids_by_path, get_submissions_fresh
from shared.telemetry import logger
from shared.timing import OUTAGE_PAUSE, PUSH_MARGIN, REPO_HEALTH_AGE, REPO_STALE_AFTER


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
    repo_id: int | None = None
    is_archived: bool = False
    head: str | None = None  # of the default branch; None: not known, or it may have moved since


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
    etag: str | None = None  # of GitHub's answer about the repository
    applied: str | None = None  # to the skills of the repository: its id, or that it is gone
    unread_branch: str | None = None  # its default branch, if the next look asks for its head


class SweptRepo(NamedTuple):
    """What a look of the sweep found, and what it cost."""

    health: RepoHealth
    requests: int
    is_new: bool  # it is not the repository that was applied to the skills, or it is gone, or back
    record: _Record


async def sweep_repo(source: str, has_token: bool, may_read_head: bool = True) -> SweptRepo:
    """One conditional request, and one more for a head that no run has read since the last push. At the first look
    that one waits for the next, so that a round over repositories that are all new here is one request each. Raises
    Deferred while GitHub is unavailable."""
    record = await _find(source)
    known = record.health if record else RepoHealth(source=source)
    etag = record.etag if record and known.status is not RepoStatus.OFFLINE else None
    at, requests, branch = now(), 1, None
    try:
        repo, new_etag = await get_github().find_changed_repo(*_owner_and_name(source), etag)
    except Refused as refusal:
        if refusal.code != "repo_not_found":
            raise
        new_etag, health = None, RepoHealth(source=source, status=RepoStatus.OFFLINE, checked_at=at)
    else:
        if repo is None:
            requests -= has_token  # GitHub does not charge for an answer that has not changed
            health, branch = _unchanged(known, at), record.unread_branch if record else None
        else:
            health = _health_of(source, repo, known, at)
            branch = repo.default_branch if health.head is None else None
        if branch and (head := await _head_read_by_a_run(health)):
            health, branch = msgspec.structs.replace(health, head=head), None
        elif branch and etag and may_read_head:
            requests += 1
            health, branch = msgspec.structs.replace(health, head=await _find_head(source, branch)), None
    after = _Record(
        health=health,
        next_check_at=at + REPO_HEALTH_AGE,
        record_version=record.record_version + 1 if record else 1,
        etag=new_etag,
        applied=record.applied if record else None,
        unread_branch=branch,
    )
    return SweptRepo(health, requests, _fingerprint(health) != after.applied, after)


async def store_swept(swept: SweptRepo) -> None:
    """After the skills were updated: a crash before this has the next tick update them again."""
    record = msgspec.structs.replace(swept.record, applied=_fingerprint(swept.health))
    version = record.record_version
    expect: Expect = {"recordVersion": version - 1} if version > 1 else ABSENT
    try:
        await get_kv().put(Put(_key(record.health.source), encode(record), {"recordVersion": version}, expect))
    except ConditionFailed:  # a page asked GitHub at the same moment: the next look updates the skills
        logger.info("repository health was refreshed meanwhile", extra={"source": record.health.source})


def _fingerprint(health: RepoHealth) -> str:
    return "gone" if health.status is RepoStatus.OFFLINE else str(health.repo_id)


async def _head_read_by_a_run(health: RepoHealth) -> str | None:
    """What a run that began after the last push read as the head, which is the head still."""
    if health.last_commit_at is None:
        return None
    ids, _ = await get_ids_by_path(health.source)
    began_after = health.last_commit_at + PUSH_MARGIN
    for submission in (await get_submissions_fresh(set(ids.values()))).submissions:
        is_of_head = submission.ref is None and submission.repo_id == health.repo_id
        if is_of_head and (submission.run_at or submission.created_at) > began_after and submission.commit:
            return submission.commit
    return None


async def _find_head(source: str, branch: str) -> str | None:
    try:
        return await get_github().get_head(*_owner_and_name(source), branch)
    except Refused:  # it has no files any more
        return None


def _owner_and_name(source: str) -> tuple[str, str]:
    owner, _, name = source.partition("://")[2].partition("/")[2].partition("/")
    return owner, name


def _unchanged(known: RepoHealth, at: datetime) -> RepoHealth:
    pushed_at = known.last_commit_at
    status = _status_of(pushed_at, at)
    return msgspec.structs.replace(known, status=status, checked_at=at)


def _status_of(pushed_at: datetime | None, at: datetime) -> RepoStatus:
    is_stale = pushed_at is not None and at - pushed_at > REPO_STALE_AFTER
    return RepoStatus.STALE if is_stale else RepoStatus.ONLINE


def _health_of(source: str, repo: GitHubRepo, known: RepoHealth, at: datetime) -> RepoHealth:
    is_same = (repo.id, repo.pushed_at) == (known.repo_id, known.last_commit_at)
    return RepoHealth(
        source=source,
        status=_status_of(repo.pushed_at, at),
        checked_at=at,
        last_commit_at=repo.pushed_at,
        stars=repo.stars,
        repo_id=repo.id,
        is_archived=repo.is_archived,
        head=known.head if is_same else None,
    )


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
        health = await _ask_github(known)
        await _put(health, now() + REPO_HEALTH_AGE, claimed)
    except PlatformError as error:
        logger.info("repository health kept as it was", extra={"source": source, "problem": str(error)})
        return known
    return health


async def _ask_github(known: RepoHealth) -> RepoHealth:
    source, at = known.source, now()
    get_github().yield_quota_to_workers()
    try:
        repo = await get_github().get_repo(*_owner_and_name(source))
    except Refused as refusal:
        if refusal.code != "repo_not_found":
            raise
        return RepoHealth(source=source, status=RepoStatus.OFFLINE, checked_at=at)
    return _health_of(source, repo, known, at)


async def _put(health: RepoHealth, next_check_at: datetime, before: _Record | None) -> _Record | None:
    """None: another request was faster."""
    version = before.record_version + 1 if before else 1
    record = _Record(
        health=health,
        next_check_at=next_check_at,
        record_version=version,
        etag=before.etag if before else None,
        applied=before.applied if before else None,
        unread_branch=before.unread_branch if before else None,
    )
    expect: Expect = {"recordVersion": before.record_version} if before else ABSENT
    try:
        await get_kv().put(Put(_key(health.source), encode(record), {"recordVersion": version}, expect))
    except ConditionFailed:
        return None
    return record


def _key(source: str) -> Key:
    return Key(f"repo-health:{source}")
