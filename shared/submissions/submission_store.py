"""Submissions at rest: the only module that knows their keys and stored shape (those of the feed are in feed_store.py).

Every change is one transaction: the record (guarded by version, state and fence), its history entries, its counter,
its feed entry. So a record, its history and the counts cannot disagree.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, LostLease, NotFound, ShareUsedUp
from shared.notifications.events import decision_event, event_puts
from shared.records.runs import ends_run
from shared.records.search_words import submission_words
from shared.records.submissions import (
    ACTIVE_STATES,
    Change,
    Delivery,
    HistoryEntry,
    Rescue,
    State,
    Submission,
    SubmissionRow,
    claim,
    created,
    due_at,
    is_id,
    move,
    rescue_of,
    row_of,
    time_of,
    touch,
)
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import (
    ABSENT,
    LISTS,
    Add,
    Expect,
    Key,
    Put,
    Query,
    Write,
    page_of_ids,
    query_all,
    query_shards,
    rows_per_partition,
    shard_of,
)
from shared.submissions.counters import count_change, count_held
from shared.submissions.feed_store import feed_put, rows_in
from shared.submissions.run_store import ended_run_put
from shared.submissions.word_index import word_puts
from shared.timing import SCAN_LIMIT, STORE_BUDGET

CANDIDATES = 5  # of each partition for the oldest active: the index may still name some that have ended
LONGEST_ACCEPT = 2 * STORE_BUDGET  # from the making of an id to the time its record carries
WORDS = "findsub"


class Fresh(NamedTuple):
    submissions: list[Submission]
    missing: list[str]
    failed: list[str]


class Stuck(NamedTuple):
    submissions: list[Submission]
    failed: list[str]
    more: bool


class IndexPage(NamedTuple):
    """Candidates with their positions, by id. Up to `complete_until` nothing is missing; None: nothing lies beyond."""

    rows: dict[str, tuple[str, SubmissionRow]]
    complete_until: str | None


def submission_key(submission_id: str) -> Key:
    return Key(f"sub:{submission_id}")


def identity_put(source: str, path: str, submission_id: str) -> Put:
    """Refused when another submission has this identity."""
    return Put(_identity_key(source, path), encode({"id": submission_id}), expect=ABSENT)


async def create(draft: Submission, also: Sequence[Write] = ()) -> Submission:
    """Records a new submission, unless its identity is taken: then the one that has it is returned."""

    def build() -> list[Write]:
        at = now()
        change = created(msgspec.structs.replace(draft, created_at=at, updated_at=at))
        identity = identity_put(draft.source, draft.skill_path, draft.id)
        return [*_writes(change), identity, *words_of(draft), *also]

    try:
        written = await get_kv().transact(build)
    except ConditionFailed as error:
        existing = await find_by_identity(draft.source, draft.skill_path)
        if existing is None:  # not the identity but one of the caller's own conditions
            _raise_if_held(error, build())
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


async def get_submission_and(submission_id: str, key: Key) -> tuple[Submission, str | None]:
    """A submission and one other document, in one request."""
    read = await get_kv().get_many([submission_key(submission_id), key])
    doc = read.found.get(submission_key(submission_id))
    # Read again where there is none: the error separates "missing" from "unreadable".
    return _RECORD.decode(doc) if doc else await get_submission(submission_id), read.found.get(key)


async def find_by_identity(source: str, path: str) -> Submission | None:
    doc = await get_kv().get(_identity_key(source, path))
    return None if doc is None else await find_submission(_id_in(doc))


async def get_ids_by_path(
    source: str, after: str | None = None, limit: int | None = None
) -> tuple[dict[str, str], str | None]:
    """Every submission of one source, strongly consistent; and the path to continue from. No limit: all of them."""
    pk = _identity_key(source, "").pk
    if limit is None:
        return {row.sort: _id_in(row.text) for row in await query_all(get_kv(), pk)}, None
    page = await get_kv().query(Query(pk, after=after, limit=limit))
    return {row.sort: _id_in(row.text) for row in page.rows}, page.rows[-1].sort if page.more else None


async def get_submissions_fresh(ids: Iterable[str]) -> Fresh:
    """Read every id at once. A record that is missing or broken costs its own row, never the page."""
    read = await get_kv().get_many(map(submission_key, ids))
    submissions, malformed = parse_each(read.found, _RECORD)
    return Fresh(submissions, missing=_ids(read.missing), failed=_ids([*read.failed, *malformed]))


async def get_history(submission_id: str) -> list[HistoryEntry]:
    record, entries = await asyncio.gather(find_submission(submission_id), _written_history(submission_id))
    unwritten = record.unwritten if record else ()
    if record and (not entries or entries[-1].seq < record.seq - len(unwritten)):  # written between the two reads
        entries = await _written_history(submission_id)
    known = {entry.seq: entry for entry in (*unwritten, *entries)}
    return [known[seq] for seq in sorted(known)]


async def _written_history(submission_id: str) -> list[HistoryEntry]:
    rows = await query_all(get_kv(), f"hist:{submission_id}")
    return [entry for row in rows for entry in history_in(row.text)]


def history_in(doc: str) -> tuple[HistoryEntry, ...]:
    """Of one transaction, in its order."""
    last = _ENTRIES.decode(doc)
    return (*last.earlier, _ENTRY.decode(doc))


async def get_last_entry(submission: Submission) -> HistoryEntry:
    if submission.unwritten:
        return submission.unwritten[-1]
    doc = await get_kv().get(_history_key(submission.id, submission.seq))
    if doc is None:
        raise NotFound("The history of this submission is not complete.")
    return _ENTRY.decode(doc)


async def get_stuck_submissions(
    at: datetime, paused: bool = False, limit: int = SCAN_LIMIT, kinds: tuple[str, ...] = ("lease", "waiting")
) -> Stuck:
    """What is in STUCK_STATES, without a live lease and untouched for STUCK_THRESHOLD: lost leases first.

    The due index says where to look; the records themselves, read strongly and all at once, decide.
    """
    kinds = tuple(kind for kind in kinds if not (paused and kind == "waiting"))
    due: list[str] = []
    for kind in kinds:  # one after the other: waiting rows are not read at all when lost leases fill the tick
        if len(due) <= limit:
            rows = await query_shards(get_kv(), Query(f"due:{kind}", "due", before=stamp(at), limit=limit + 1))
            due += _ids(row.key for row in rows.rows[: limit + 1])
    fresh = await get_submissions_fresh(due[:limit])
    stuck = [submission for submission in fresh.submissions if rescue_of(submission, at) is not Rescue.LEAVE]
    return Stuck(stuck, fresh.failed, more=len(due) > limit)


async def get_waiting_ids(limit: int) -> tuple[list[str], bool]:
    """What is RECEIVED, longest waiting first, and whether more wait behind them."""
    found = await query_shards(get_kv(), Query(State.RECEIVED, "state", limit=limit + 1))
    rows, end = found.page(limit)
    return _ids(row.key for row in rows), end is not None


async def get_waiting_until(until: datetime, after: str, limit: int) -> tuple[dict[str, str], str | None]:
    """Ids of what is RECEIVED since before then, by position, longest waiting first; and where to continue."""
    query = Query(State.RECEIVED, "state", after=after or None, before=stamp(until), limit=limit + 1)
    rows, end = (await query_shards(get_kv(), query)).page(limit)
    return dict(zip((row.sort for row in rows), _ids(row.key for row in rows), strict=True)), end


async def get_oldest_active() -> Fresh:
    """The longest without a move in each active state, the oldest first. The index names candidates, records decide."""
    found = await query_shards(get_kv(), *(Query(state, "state", limit=CANDIDATES) for state in ACTIVE_STATES))
    fresh = await get_submissions_fresh(_ids(row.key for row in found.rows))
    active = [submission for submission in fresh.submissions if submission.state in ACTIVE_STATES]
    return fresh._replace(submissions=sorted(active, key=lambda submission: submission.updated_at))


async def get_submission_index(
    states: Collection[State], by_update: bool, descending: bool, limit: int, after: str | None
) -> IndexPage:
    """The index alone: a page of candidates, each possibly seconds old."""
    lists = [(state, "state") for state in states or State] if states or by_update else [(LISTS["sub:"], "list")]
    bound = {"before" if descending else "after": after}
    share = rows_per_partition(limit)
    found = await query_shards(
        get_kv(), *(Query(name, index, descending=descending, limit=share, **bound) for name, index in lists)
    )
    positions = dict(zip(_ids(row.key for row in found.rows), (row.sort for row in found.rows), strict=True))
    return IndexPage({row.id: (positions[row.id], row) for row in rows_in(found.rows)}, found.complete_until)


async def get_indexed_rows(ids: Iterable[str]) -> dict[str, SubmissionRow]:
    """As the list index has them. An id says when it was made, so only that moment is queried."""
    queries = [
        Query(_list_partition(id_), "list", stamp(time_of(id_)), stamp(time_of(id_) + LONGEST_ACCEPT)) for id_ in ids
    ]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    return {row.id: row for row in rows_in(row for page in pages for row in page.rows)}


async def get_page_of_ids(after: str | None, limit: int) -> tuple[list[str], str | None]:
    """The oldest submissions behind a position, and the position to continue from: None at the end."""
    return await page_of_ids(get_kv(), "sub:", after, limit)


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
            raise LostLease("The record was changed by another writer.") from error
        _raise_if_held(error, build())
        raise


async def claim_submission(
    submission: Submission, owner: str, lease: timedelta, by: Delivery | None = None
) -> Submission:
    return await commit(lambda at: claim(submission, owner, at, at + lease, by))


async def move_submission(
    submission: Submission, to: State, actor: str, reason: str | None = None, **set_: Any
) -> Submission:
    return await commit(lambda at: move(submission, to, actor, at, reason, **set_))


def mention_writes(submission: Submission, at: datetime) -> list[Write]:
    """For a transaction about a submission that moves nothing, such as an appeal: the next to decide sees it
    first, and the pages that follow it are notified. The first write fails if the record has changed meanwhile."""
    mentioned = touch(submission)
    return [_record_put(mentioned), feed_put(msgspec.structs.replace(mentioned.after, updated_at=at))]


async def touch_submission(submission: Submission, **set_: Any) -> Submission:
    return await commit(lambda _: touch(submission, **set_))


def position_of(row: Submission | SubmissionRow, by_update: bool) -> str:
    """In the list index, or in that of its state."""
    return f"{stamp(row.updated_at if by_update else row.created_at)}#{row.id}"


_RECORD = msgspec.json.Decoder(Submission)
_ENTRY = msgspec.json.Decoder(HistoryEntry)


class _Entries(HistoryEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A history entry as it is stored, with those before it of the same transaction."""

    earlier: tuple[HistoryEntry, ...] = ()


_ENTRIES = msgspec.json.Decoder(_Entries)


def _ids(keys: Iterable[Key]) -> list[str]:
    return [key.pk.removeprefix("sub:") for key in keys]


def _identity_key(source: str, path: str) -> Key:
    return Key(f"unique:{source}", path)


def _history_key(submission_id: str, seq: int) -> Key:
    return Key(f"hist:{submission_id}", f"{seq:06d}")


def _history_put(change: Change) -> Put:
    """One item, under the number of its last entry."""
    *earlier, last = (*(change.before.unwritten if change.before else ()), *change.entries)
    stored = _Entries(**msgspec.structs.asdict(last), earlier=tuple(earlier))
    return Put(_history_key(change.after.id, last.seq), encode(stored))


def _id_in(identity: str) -> str:
    submission_id: str = msgspec.json.decode(identity)["id"]
    return submission_id


def _list_partition(submission_id: str) -> str:
    return f"{LISTS['sub:']}#{shard_of(submission_id)}"


def _stored(written: Sequence[Write]) -> Submission:
    record = written[0]
    assert isinstance(record, Put)  # _writes puts the record first
    return _RECORD.decode(record.doc)


def _writes(change: Change) -> list[Write]:
    record = _record_put(change)
    if not change.entries:
        return [record]
    history = [] if change.after.unwritten else [_history_put(change)]
    ended = [ended_run_put(change.before)] if change.before and ends_run(change) else []
    events = [*event_puts(decision_event(change)), feed_put(change.after)]
    return [record, *history, *ended, *count_change(change), *count_held(change), *events]


def _raise_if_held(error: ConditionFailed, writes: Sequence[Write]) -> None:
    """The only count with a condition is a holder's."""
    if all(isinstance(writes[i], Add) for i in error.failed):
        raise ShareUsedUp from error


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
        "listPk": _list_partition(submission.id),
        "listSk": position_of(submission, by_update=False),
        "statePk": f"{submission.state}#{shard}",
        "stateSk": position_of(submission, by_update=True),
    }
    due = due_at(submission)
    if due is not None:
        kind = "waiting" if submission.state == State.RECEIVED else "lease"
        attrs |= {"duePk": f"due:{kind}#{shard}", "dueSk": f"{stamp(due)}#{submission.id}"}
    return attrs
