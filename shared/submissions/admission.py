"""Whether there is room for more: in the queue, in one address's share of it, and in its limit of skills. And whether
what was submitted before may enter again."""

from typing import NamedTuple

from shared.access.limits import find_holder, take_from_limit
from shared.db import get_settings
from shared.errors import ShareUsedUp, TooManyRequests, Unavailable
from shared.records.submissions import CATEGORIES, PARKED_STATES, State, Submission
from shared.scanner import rule_set_version
from shared.submissions.counters import get_queue_use

QUEUE_FULL = "queue_full"


class Sender(NamedTuple):
    client: str | None  # what it calls itself
    ip: str | None
    holder: str | None  # of a share of the queue


class Room(NamedTuple):
    """How many more fit into the queue, and into the sender's share of it."""

    left: int
    of_share: int


async def sender_of(client: str | None, ip: str | None) -> Sender:
    return Sender(client, ip, await find_holder(ip))


async def refuse_when_full(sender: Sender) -> Room:
    room = await get_room(sender)
    if room.left <= 0:
        raise queue_is_full()
    if room.of_share <= 0:  # early and cheap; the transaction that accepts a skill decides
        raise ShareUsedUp
    return room


async def get_room(sender: Sender) -> Room:
    active, held = await get_queue_use(sender.holder)
    if active is None:
        raise Unavailable("The store does not respond, so nothing can be accepted safely.")
    return Room(get_settings().max_active - active, get_settings().max_held - held)


async def count_skills(sender: Sender, amount: int) -> None:
    """After what refuses without any work, and before all that costs some."""
    if sender.ip is not None:
        await take_from_limit("skills", sender.ip, amount)


def queue_is_full() -> TooManyRequests:
    return TooManyRequests(
        "The queue is full at the moment. Please submit again in a few minutes.", code=QUEUE_FULL, retry_after=300
    )


def flag_of(existing: Submission) -> str:
    if existing.state == State.BLOCKED:
        return "blocked"
    return "alreadyVerified" if existing.state in CATEGORIES["published"] else "duplicate"


def has_newer_rules(existing: Submission) -> bool:
    """Whether it was refused under other rules than the current ones."""
    if existing.state not in (State.REJECTED, State.TIER1_FAILED):
        return False
    return existing.rule_set is not None and existing.rule_set != rule_set_version()


def may_reopen(existing: Submission) -> bool:
    """Whether changed content alone may reopen it, or only a person. A transferred skill has a new name."""
    if existing.transferred_to:
        return False
    if existing.state in PARKED_STATES:
        return existing.parked_by in ("rule", "judge")
    return existing.state in (*CATEGORIES["published"], State.REJECTED, State.TIER1_FAILED)


def may_claim(existing: Submission) -> bool:
    """A name that no one works on any more, also where it was removed from the queue or faults have parked it. What is
    blocked stays that."""
    return existing.state in (State.DEQUEUED, State.ON_HOLD) or may_reopen(existing)
