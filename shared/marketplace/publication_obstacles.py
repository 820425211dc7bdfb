"""What stands against a publication that was approved: the name is used, deleted, transferred or blocked, or the stored
content is other content."""

from collections.abc import Mapping
from typing import NamedTuple

from shared.db import get_kv
from shared.errors import Unavailable
from shared.evidence.receipt_store import Receipt
from shared.marketplace.owner_marks import Transfer, decode_transfer, transfer_key
from shared.marketplace.skill_index import known_owner_key
from shared.records.skills import Skill
from shared.records.submissions import State, Submission
from shared.storage.kv import Key


class NewName(NamedTuple):
    """What is known of a name under which nothing was published yet."""

    knows_owner: bool  # from another skill of the same owner
    transfer: Transfer | None  # of a skill to it


class Obstacle(NamedTuple):
    state: State
    reason: str
    parked_by: str


def new_name_keys(name: str) -> list[Key]:
    return [known_owner_key(name), transfer_key(name)]


def new_name_of(name: str, docs: Mapping[Key, str]) -> NewName:
    transfer = docs.get(transfer_key(name))
    return NewName(known_owner_key(name) in docs, decode_transfer(transfer) if transfer else None)


async def read_new_name(name: str) -> NewName:
    read = await get_kv().get_many(new_name_keys(name))
    if read.failed:
        raise Unavailable("Some data about this name could not be read.")
    return new_name_of(name, read.found)


def deleted_reason(skill: Skill) -> str:
    return (
        f"The skill {skill.name} was deleted ({skill.delete_reason}). Its name is not used again: choose another one."
    )


def transferred_reason(skill: Skill) -> str:
    return (
        f"The skill {skill.name} was transferred to {skill.transferred_to}: new versions are published under that name."
        " Submit the repository it was transferred to."
    )


def _foreign_reason(transfer: Transfer) -> str:
    return (
        f"The skill {transfer.from_name} was transferred to this name when it was the name of another repository."
        " It is not used for anything else: choose another one."
    )


def find_obstacle(
    submission: Submission, receipt: Receipt, current: Skill | None, stored_hash: str, transfer: Transfer | None
) -> Obstacle | None:
    if stored_hash != receipt.content_hash:
        return Obstacle(State.RESCAN_REQUIRED, "The stored content is not the content that was scanned.", "rule")
    if transfer and not _is_target(transfer, submission):
        return Obstacle(State.ON_HOLD, _foreign_reason(transfer), "person")
    if current is None:
        return None
    if current.is_deleted:
        return Obstacle(State.BLOCKED, deleted_reason(current), "person")
    if current.transferred_to:
        return Obstacle(State.ON_HOLD, transferred_reason(current), "person")
    if current.submission_id != submission.id:
        reason = f"The name {current.name} is taken by the skill of submission {current.submission_id}."
        return Obstacle(State.ON_HOLD, reason, "person")
    if current.is_blocked and not current.is_blocked_by_rule:
        # A person decided, and only a person lifts it: neither new content does, nor removing the entry.
        return Obstacle(State.BLOCKED, f"The skill {current.name} is blocked: {current.block_reason}", "person")
    return None


def _is_target(transfer: Transfer, submission: Submission) -> bool:
    return transfer.repo_id in (None, submission.repo_id)
