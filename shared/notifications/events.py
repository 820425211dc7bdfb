"""Events of a repository: what was decided about its skills. Each is written in the transaction that decides, so there
is none for a decision that is not stored, and none is missing for one that is. An event is its own outbox: it is due
until its owner's webhook has it, and stays in the feed of the repository for 90 days.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.records.skills import Skill
from shared.records.submissions import ACTIVE_STATES, CATEGORY_OF, Change, Submission
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import Key, Put, Query, Row, query_shards, shard_of

EVENT_TTL = timedelta(days=90)
LONGEST_REASON = 500
_DUE = "due:event"


class EventType(StrEnum):
    PUBLISHED = "submission.published"
    REJECTED = "submission.rejected"
    BLOCKED = "submission.blocked"
    HELD = "submission.held"
    CHANGED_HANDS = "skill.changed_hands"
    WITHDRAWN = "skill.withdrawn"
    RESTORED = "skill.restored"  # no longer withdrawn, or its repository leads back
    SKILL_BLOCKED = "skill.blocked"  # while its submission is at something else
    SKILL_DELETED = "skill.deleted"
    DEPRECATED = "skill.deprecated"
    UNDEPRECATED = "skill.undeprecated"
    TRANSFERRED = "skill.transferred"
    VERSION_WITHDRAWN = "version.withdrawn"  # by its owner or an operator
    VERSION_RESTORED = "version.restored"
    APPEAL_OPENED = "appeal.opened"
    APPEAL_ANSWERED = "appeal.answered"


TYPES = {
    "published": EventType.PUBLISHED,
    "rejected": EventType.REJECTED,
    "blocked": EventType.BLOCKED,
    "onHold": EventType.HELD,
}


class RepoEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Public facts only: the same that the pages of the submission and of the skill show to the public."""

    id: str
    type: str
    at: datetime
    repo: str  # owner/name in lower case
    skill_name: str
    repo_id: int | None = None  # None: decided before GitHub was asked
    submission_id: str | None = None
    run: int | None = None
    state: str | None = None
    reason: str | None = None
    version: str | None = None


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """With what became of its delivery."""

    event: RepoEvent
    due_at: datetime | None = None  # None: delivered, failed for good, or no webhook is set
    attempts: int = 0
    delivered_at: datetime | None = None
    failed_at: datetime | None = None  # for good
    error: str | None = None  # of the last attempt

    @property
    def status(self) -> str:
        waiting = "waiting" if self.due_at else "not sent"
        return "delivered" if self.delivered_at else "failed" if self.failed_at else waiting


class DueEvents(NamedTuple):
    events: list[StoredEvent]
    more: bool


def decision_event(change: Change) -> RepoEvent | None:
    """None for a move within a run, and for uploads, which have no owner."""
    submission = change.after
    if not change.entries or submission.state in ACTIVE_STATES:
        return None
    category = CATEGORY_OF[submission.state]
    return submission_event(
        submission,
        f"{submission.id}-{submission.seq}",
        TYPES[category],
        at=submission.updated_at,
        state=submission.state,
        reason=submission.reason,
        version=submission.published_version if category == "published" else None,
    )


def submission_event(
    submission: Submission,
    id_: str,
    type_: EventType,
    *,
    at: datetime,
    state: str,
    reason: str | None,
    version: str | None = None,
) -> RepoEvent | None:
    """For the owner of its repository; None for uploads."""
    if submission.repo_url is None:
        return None
    return RepoEvent(
        id=id_,
        type=type_,
        at=at,
        repo=repo_of(submission.source),
        skill_name=submission.skill_name,
        repo_id=submission.repo_id,
        submission_id=submission.id,
        run=submission.run or None,
        state=state,
        reason=(reason or "")[:LONGEST_REASON] or None,
        version=version,
    )


def skill_event(
    skill: Skill, type_: EventType, at: datetime, reason: str, source: str | None = None, version: str | None = None
) -> RepoEvent | None:
    """About a published skill, for the owner whose repository it was published from; None for uploads. `source`: where
    that repository is known under another name."""
    source = source or skill.repo_url
    if source is None:
        return None
    return RepoEvent(
        id=f"{skill.name}-{type_}-{skill.record_version}".lower().replace("/", "."),
        type=type_,
        at=at,
        repo=repo_of(source),
        skill_name=skill.name,
        repo_id=skill.repo_id,
        reason=reason[:LONGEST_REASON],
        version=version or skill.current_version,
    )


def event_puts(event: RepoEvent | None) -> list[Put]:
    """For the transaction that decides."""
    return [stored_put(StoredEvent(event=event, due_at=event.at))] if event else []


def stored_put(stored: StoredEvent) -> Put:
    event = stored.event
    key = _key(event)
    attrs: dict[str, str | int] = {"expiresAt": int((event.at + EVENT_TTL).timestamp())}
    if stored.due_at:
        attrs |= {"duePk": f"{_DUE}#{shard_of(event.repo)}", "dueSk": f"{stamp(stored.due_at)}#{event.repo}#{event.id}"}
    return Put(key, encode(stored), attrs)


async def get_due_events(at: datetime, limit: int) -> DueEvents:
    """Those that wait for a delivery, the longest due first. The index names candidates, the records decide."""
    found = await query_shards(get_kv(), Query(_DUE, "due", before=stamp(at), limit=limit))
    rows, end = found.page(limit)
    events = await read_events(row.key for row in rows)
    return DueEvents([one for one in events if one.due_at and one.due_at < at], end is not None)


async def find_oldest_due() -> datetime | None:
    found = await query_shards(get_kv(), Query(_DUE, "due", limit=1))
    return datetime.fromisoformat(found.rows[0].sort.partition("#")[0]) if found.rows else None


async def read_events(keys: Iterable[Key]) -> list[StoredEvent]:
    read = await get_kv().get_many(keys)
    return parse_each(read.found, _STORED)[0]


async def find_event(key: Key) -> StoredEvent | None:
    doc = await get_kv().get(key)
    return None if doc is None else _STORED.decode(doc)


async def get_events_of_repo(repo: str, limit: int) -> list[StoredEvent]:
    """Newest first, strongly consistent."""
    page = await get_kv().query(Query(_partition(repo), descending=True, limit=limit))
    return _parse(page.rows)


def event_key(event: RepoEvent) -> Key:
    return _key(event)


def repo_of(source: str) -> str:
    """owner/name of the address of a repository."""
    return "/".join(source.lower().split("/")[-2:])


_STORED = msgspec.json.Decoder(StoredEvent)


def _partition(repo: str) -> str:
    return f"event:{repo}"


def _key(event: RepoEvent) -> Key:
    return Key(_partition(event.repo), f"{stamp(event.at)}#{event.id}")


def _parse(rows: Sequence[Row]) -> list[StoredEvent]:
    return parse_each({row.key: row.text for row in rows}, _STORED)[0]
