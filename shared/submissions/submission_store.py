"""Submissions at rest: the only module that knows their keys and stored shape.

Every change is one transaction: the record (guarded by version, state and fence), its history entries, its counter,
its feed entry. So a record, its history and the counts cannot disagree.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, LostLease, NotFound
from shared.records.search_words import submission_words
from shared.records.submissions import (
    Change,
    Delivery,
    HistoryEntry,
    Rescue,
    State,
    Submission,
    claim,
    created,
    due_at,
    is_id,
    move,
    rescue_of,
    touch,
)
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, LISTS, SHARDS, Expect, Key, Put, Query, Row, Write, query_all, shard_of
from shared.submissions.counters import count_change
from shared.submissions.word_index import word_puts
from shared.timing import FEED_TTL, SCAN_LIMIT

REASON_IN_ROW = 160
LARGEST_ROW = 700  # bytes, as JSON
WORDS = "findsub"


class SubmissionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a list shows. At most LARGEST_ROW bytes: all that list indexes carry."""

    id: str
    skill_name: str
    repo_url: str | None
    state: State
    reason: str | None
    score: int | None
    created_at: datetime
    updated_at: datetime
    version: int


class Fresh(NamedTuple):
    submissions: list[Submission]
    missing: list[str]
    failed: list[str]


class Stuck(NamedTuple):
    submissions: list[Submission]
    failed: list[str]
    more: bool


def submission_key(submission_id: str) -> Key:
    return Key(f"sub:{submission_id}")


def unique_key(source: str, path: str) -> Key:
    return Key(f"unique:{source}", path)


async def create(draft: Submission, also: Sequence[Write] = ()) -> Submission:
    """Records a new submission, unless its identity is taken: then the one that has it is returned."""

    def build() -> list[Write]:
        at = now()
        change = created(msgspec.structs.replace(draft, created_at=at, updated_at=at))
        unique = Put(unique_key(draft.source, draft.skill_path), encode({"id": draft.id}), expect=ABSENT)
        return [*_writes(change), unique, *words_of(draft), *also]

    try:
        written = await get_kv().transact(build)
    except ConditionFailed:
        existing = await find_by_identity(draft.source, draft.skill_path)
        if existing is None:  # not the identity but one of the caller's own conditions
            raise
        return existing
    return _stored(written)


def words_of(submission: Submission) -> list[Put]:
    """What finds it, for the transaction that names it."""
    return word_puts(WORDS, submission_words(submission), submission.id)


async def get_submission(submission_id: str) -> Submission:
    found = await find_submission(submission_id)
    if found is None:
        raise NotFound(f"There is no submission {submission_id[:40]!r}.")
    return found


async def find_submission(submission_id: str) -> Submission | None:
    if not is_id(submission_id):
        return None
    doc = await get_kv().get(submission_key(submission_id))
    return None if doc is None else _RECORD.decode(doc)


async def find_by_identity(source: str, path: str) -> Submission | None:
    doc = await get_kv().get(unique_key(source, path))
    return None if doc is None else await find_submission(msgspec.json.decode(doc)["id"])


async def get_submissions_fresh(ids: Iterable[str]) -> Fresh:
    """Read every id at once. A record that is missing or broken costs its own row, never the page."""
    read = await get_kv().get_many(map(submission_key, ids))
    submissions, malformed = parse_each(read.found, _RECORD)
    return Fresh(submissions, missing=_ids(read.missing), failed=_ids([*read.failed, *malformed]))


async def get_history(submission_id: str) -> list[HistoryEntry]:
    rows = await query_all(get_kv(), f"hist:{submission_id}")
    return [_ENTRY.decode(row.text) for row in rows]


async def get_stuck_submissions(
    at: datetime, paused: bool = False, limit: int = SCAN_LIMIT, kinds: tuple[str, ...] = ("lease", "waiting")
) -> Stuck:
    """What is in STUCK_STATES, without a live lease and untouched for STUCK_THRESHOLD: lost leases first.

    The due index says where to look; the records themselves, read strongly and all at once, decide.
    """
    kinds = tuple(kind for kind in kinds if not (paused and kind == "waiting"))
    due: list[Row] = []
    for kind in kinds:  # one after the other: waiting rows are not read at all when lost leases fill the tick
        if len(due) <= limit:
            due += await _due(kind, at, limit)
    fresh = await get_submissions_fresh(row.key.pk.removeprefix("sub:") for row in due[:limit])
    stuck = [submission for submission in fresh.submissions if rescue_of(submission, at) is not Rescue.LEAVE]
    return Stuck(stuck, fresh.failed, more=len(due) > limit)


async def commit(
    change_at: Callable[[datetime], Change], also: Callable[[Change], Sequence[Write]] = lambda _: ()
) -> Submission:
    """One change, all or nothing. Raises LostLease when the record is no longer the one the change started from."""

    def build() -> list[Write]:
        change = change_at(now())
        return [*_writes(change), *also(change)]

    try:
        return _stored(await get_kv().transact(build))
    except ConditionFailed as error:
        if 0 in error.failed:
            raise LostLease("The record has changed hands.") from error
        raise


async def claim_submission(
    submission: Submission, owner: str, lease: timedelta, by: Delivery | None = None
) -> Submission:
    return await commit(lambda at: claim(submission, owner, at, at + lease, by))


async def move_submission(
    submission: Submission, to: State, actor: str, reason: str | None = None, **set_: Any
) -> Submission:
    return await commit(lambda at: move(submission, to, actor, at, reason, **set_))


async def touch_submission(submission: Submission, **set_: Any) -> Submission:
    return await commit(lambda _: touch(submission, **set_))


def row_of(submission: Submission) -> SubmissionRow:
    reason = submission.reason
    row = SubmissionRow(
        id=submission.id,
        skill_name=submission.skill_name,
        repo_url=submission.repo_url,
        state=submission.state,
        reason=reason if reason is None or len(reason) <= REASON_IN_ROW else reason[: REASON_IN_ROW - 1] + "…",
        score=submission.score,
        created_at=submission.created_at,
        updated_at=submission.updated_at,
        version=submission.version,
    )
    # The reason gives way first. The name is shortened only for a reference of hundreds of letters.
    return _fitting(_fitting(row, "reason"), "skill_name")


def list_position(submission: Submission) -> str:
    return f"{stamp(submission.created_at)}#{submission.id}"


def feed_partition(minute: datetime, shard: int) -> str:
    return f"feed:{minute:%Y-%m-%dT%H:%M}:{shard}"


def _fitting(row: SubmissionRow, field: str) -> SubmissionRow:
    """The row with as much of this field as fits. A letter takes up to six bytes, so letters are not counted."""
    over = len(msgspec.json.encode(row)) - LARGEST_ROW
    text = getattr(row, field)
    if over <= 0 or not text:
        return row
    kept, freed = len(text), -len("…".encode())
    while kept and freed < over:
        kept -= 1
        freed += len(msgspec.json.encode(text[kept])) - 2
    return msgspec.structs.replace(row, **{field: text[:kept] + "…"})


_RECORD = msgspec.json.Decoder(Submission)
_ENTRY = msgspec.json.Decoder(HistoryEntry)


def _ids(keys: Iterable[Key]) -> list[str]:
    return [key.pk.removeprefix("sub:") for key in keys]


def _stored(written: Sequence[Write]) -> Submission:
    record = written[0]
    assert isinstance(record, Put)  # _writes puts the record first
    return _RECORD.decode(record.doc)


def _writes(change: Change) -> list[Write]:
    record = _record_put(change)
    if not change.entries:
        return [record]
    history = [Put(Key(f"hist:{change.after.id}", f"{e.seq:06d}"), encode(e)) for e in change.entries]
    return [record, *history, *count_change(change), _feed_put(change.after)]


def _record_put(change: Change) -> Put:
    before, after = change.before, change.after
    expect: Expect = ABSENT
    if before:
        expect = {"version": before.version, "state": before.state, "fence": before.fence}
    return Put(submission_key(after.id), encode(after), _index_attrs(after), expect)


def _index_attrs(submission: Submission) -> dict[str, str | int]:
    shard = shard_of(submission.id)
    attrs: dict[str, str | int] = {
        "version": submission.version,
        "fence": submission.fence,
        "state": submission.state,
        "row": encode(row_of(submission)),
        "listPk": f"{LISTS['sub:']}#{shard}",
        "listSk": list_position(submission),
        "statePk": f"{submission.state}#{shard}",
        "stateSk": f"{stamp(submission.updated_at)}#{submission.id}",
    }
    due = due_at(submission)
    if due is not None:
        kind = "waiting" if submission.state == State.RECEIVED else "lease"
        attrs |= {"duePk": f"due:{kind}#{shard}", "dueSk": f"{stamp(due)}#{submission.id}"}
    return attrs


def _feed_put(submission: Submission) -> Put:
    key = Key(
        feed_partition(submission.updated_at, shard_of(submission.id)),
        f"{stamp(submission.updated_at)}#{submission.id}#{submission.version}",
    )
    expires_at = int((submission.updated_at + FEED_TTL).timestamp())
    return Put(key, encode(row_of(submission)), {"expiresAt": expires_at})


async def _due(kind: str, at: datetime, limit: int) -> list[Row]:
    """The oldest due rows of all shards, one more than the limit where there are more."""
    queries = [Query(f"due:{kind}#{shard}", "due", before=stamp(at), limit=limit + 1) for shard in range(SHARDS)]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    return sorted((row for page in pages for row in page.rows), key=lambda row: row.sort)[: limit + 1]
