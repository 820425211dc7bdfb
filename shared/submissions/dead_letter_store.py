"""Messages that could not be processed, kept for a person. One per message id, however often it is delivered."""

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from shared.db import get_content, get_kv, now
from shared.errors import ConditionFailed
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, LISTS, Delete, Key, Put, Query, query_shards, shard_of
from shared.telemetry import count, logger

LARGEST_BODY = 100 * 1024
COUNTED = 100
ManyLetters = Literal["100+"]
MANY: ManyLetters = "100+"


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str  # of the message
    reason: str
    submission_id: str | None
    body: str | None  # None: too large for a record, kept in the bucket under `body_key`
    body_key: str | None
    received_at: datetime


class DeadLetters(NamedTuple):
    letters: list[DeadLetter]
    failed: list[str]
    more: bool
    next_position: str | None = None


async def store_dead_letter(message_id: str, body: str, reason: str, submission_id: str | None = None) -> None:
    raw = body.encode(errors="replace")
    body_key = None
    if len(raw) > LARGEST_BODY:
        body_key = f"dead-letters/{message_id}"
        await get_content().put_body(body_key, raw)
    letter = DeadLetter(
        id=message_id,
        reason=reason,
        submission_id=submission_id,
        body=None if body_key else raw.decode(),
        body_key=body_key,
        received_at=now(),
    )
    try:
        await get_kv().put(_put_of(letter))
    except ConditionFailed:
        return  # delivered again: it is stored already
    logger.warning("dead letter", extra={"messageId": message_id, "submission": submission_id, "problem": reason})
    count("DeadLettersStored")


async def find_dead_letter(message_id: str) -> DeadLetter | None:
    doc = await get_kv().get(_key(message_id))
    return None if doc is None else msgspec.json.decode(doc, type=DeadLetter)


async def get_dead_letters(limit: int = 50, before: str | None = None) -> DeadLetters:
    """The newest first, as their records say it: the index only names them."""
    query = Query(LISTS["dead-letter:"], "list", before=before, descending=True, limit=limit + 1)
    rows, end = (await query_shards(get_kv(), query)).page(limit)
    read = await get_kv().get_many(row.key for row in rows)
    letters, malformed = parse_each(read.found, _LETTER)
    failed = [key.pk.removeprefix("dead-letter:") for key in [*read.failed, *malformed]]
    newest_first = sorted(letters, key=lambda letter: letter.received_at, reverse=True)
    return DeadLetters(newest_first, failed, more=end is not None, next_position=end)


async def count_dead_letters() -> int | ManyLetters:
    """Exact up to 100: a public route must not cost more when there are more of them."""
    found = await query_shards(get_kv(), Query(LISTS["dead-letter:"], "list", limit=COUNTED + 1))
    return len(found.rows) if len(found.rows) <= COUNTED else MANY


def position_of(letter: DeadLetter) -> str:
    return f"{stamp(letter.received_at)}#{letter.id}"


def deletion_of(letter: DeadLetter) -> Delete:
    """For the transaction that resolves it; refused when it was resolved before."""
    return Delete(_key(letter.id), {"pk": _key(letter.id).pk})


_LETTER = msgspec.json.Decoder(DeadLetter)


def _key(message_id: str) -> Key:
    return Key(f"dead-letter:{message_id}")


def _put_of(letter: DeadLetter) -> Put:
    row = {"id": letter.id, "reason": letter.reason[:200], "submissionId": letter.submission_id}
    attrs: dict[str, str | int] = {
        "row": encode(row),
        "listPk": f"{LISTS['dead-letter:']}#{shard_of(letter.id)}",
        "listSk": position_of(letter),
    }
    return Put(_key(letter.id), encode(letter), attrs, ABSENT)
