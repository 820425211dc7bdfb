"""What a person cleared of exactly this content of exactly this skill.

An older release kept one clearance per content, for all skills. Such a clearance is honoured for the skill it was
given for and no other: the history of its submission has the approval, by that person, for that reason, at that time.
It is carried over to that skill's own key when it is first needed."""

from collections.abc import Mapping
from datetime import timedelta

from shared.db import get_kv
from shared.evidence.receipt_store import Clearance, clearance_key, clearance_put, read_clearance, shared_clearance_key
from shared.records.submissions import HistoryEntry, State
from shared.storage.kv import Key
from shared.submissions.submission_store import get_history

SAME_MOMENT = timedelta(minutes=1)  # an approval and its history entry are one transaction


def clearance_keys(name: str, content_hash: str) -> list[Key]:
    return [clearance_key(name, content_hash), shared_clearance_key(content_hash)]


async def find_clearance(docs: Mapping[Key, str], name: str, content_hash: str, submission_id: str) -> Clearance | None:
    """`docs`: what is stored under `clearance_keys`."""
    own, shared = (docs.get(key) for key in clearance_keys(name, content_hash))
    if own is not None:
        return read_clearance(own)
    clearance = None if shared is None else read_clearance(shared)
    if clearance is None or not any(_is_of(clearance, entry) for entry in await get_history(submission_id)):
        return None
    await get_kv().put(clearance_put(name, clearance))
    return clearance


def _is_of(clearance: Clearance, entry: HistoryEntry) -> bool:
    is_approval = entry.to_state == State.AUTO_APPROVED and entry.actor == f"admin:{clearance.by}"
    is_same = entry.reason == clearance.why and abs(entry.timestamp - clearance.at) < SAME_MOMENT
    return is_approval and is_same
