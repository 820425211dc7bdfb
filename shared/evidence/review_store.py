"""Claims and notes of reviewers at rest. A claim is one record per submission, written only on the condition that it is
still the one that was read; a note is never changed."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.records.review import ReviewClaim, ReviewNote
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, Check, Delete, Expect, Key, Put, Query

NOTES_SHOWN = 50


class Review(NamedTuple):
    claim: ReviewClaim | None  # also if it has expired
    notes: Sequence[ReviewNote]  # newest first
    more_notes: bool


async def get_review(submission_id: str) -> Review:
    newest = Query(_notes_of(submission_id), descending=True, limit=NOTES_SHOWN)
    claim, page = await asyncio.gather(find_claim(submission_id), get_kv().query(newest))
    return Review(claim, [_NOTE.decode(row.text) for row in page.rows], page.more)


async def find_claim(submission_id: str) -> ReviewClaim | None:
    """Also one that has expired."""
    doc = await get_kv().get(_claim_key(submission_id))
    return None if doc is None else _CLAIM.decode(doc)


async def find_claims(submission_ids: Iterable[str]) -> list[ReviewClaim]:
    """Those that can be read, also if they have expired: a list is complete without them."""
    read = await get_kv().get_many(map(_claim_key, submission_ids))
    return parse_each(read.found, _CLAIM)[0]


def claim_put(claim: ReviewClaim, before: ReviewClaim | None) -> Put:
    attrs: dict[str, str | int] = {"heldBy": claim.by, "heldUntil": stamp(claim.until)}
    attrs["expiresAt"] = int(claim.until.timestamp()) + 1
    return Put(_claim_key(claim.submission_id), encode(claim), attrs, _expect(before))


def claim_check(submission_id: str, read: ReviewClaim | None) -> Check:
    return Check(_claim_key(submission_id), _expect(read))


def claim_deletion(claim: ReviewClaim) -> Delete:
    return Delete(_claim_key(claim.submission_id), _expect(claim))


def note_put(submission_id: str, note: ReviewNote) -> Put:
    return Put(Key(_notes_of(submission_id), f"{stamp(note.at)}#{secrets.token_hex(4)}"), encode(note))


_CLAIM = msgspec.json.Decoder(ReviewClaim)
_NOTE = msgspec.json.Decoder(ReviewNote)


def _expect(claim: ReviewClaim | None) -> Expect:
    return {"heldBy": claim.by, "heldUntil": stamp(claim.until)} if claim else ABSENT


def _claim_key(submission_id: str) -> Key:
    return Key(f"review-claim:{submission_id}")


def _notes_of(submission_id: str) -> str:
    return f"review-notes:{submission_id}"
