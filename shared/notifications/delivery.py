"""From a due event to its owner's webhook: the tick sends due events to the queue, a worker takes them from there and
tries once. What failed is due again after a growing pause, for a day; then it is a dead end that the owner sees."""

import asyncio
import random
from datetime import datetime

import msgspec

from shared.access.signing import hmac_of
from shared.db import get_kv, get_notification_queue, get_webhooks, now
from shared.notifications.events import (
    RepoEvent,
    StoredEvent,
    event_key,
    find_event,
    find_oldest_due,
    get_due_events,
    stored_put,
)
from shared.notifications.targets import WebhookTarget, find_targets, secret_of
from shared.storage.kv import Key
from shared.storage.webhook_client import DeliveryFailed
from shared.telemetry import Watched, count, logger, measure_seconds
from shared.timing import (
    DISPATCH_PERIOD,
    FIRST_REDELIVERY,
    GIVE_UP_TELLING,
    LONGEST_REDELIVERY,
    REDISPATCH_PERIOD,
)

DISPATCH_LIMIT = 500  # events in a tick
MOST_OF_ONE = 20  # of one receiver in a tick: one that hangs takes no time from the others
WRITES_AT_ONCE = 20
TIMESTAMP, SIGNATURE = "x-vskill-timestamp", "x-vskill-signature"
SCHEMA = 1


class QueuedEvent(msgspec.Struct, frozen=True):
    """A message names the event; its record is the truth."""

    schema: int
    pk: str
    sk: str


class DispatchReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    sent: int  # to the queue
    unwanted: int  # no webhook is set for them
    postponed: int
    more: bool


async def dispatch_due() -> DispatchReport:
    at = now()
    due = await get_due_events(at, DISPATCH_LIMIT)
    targets = await find_targets(one.event for one in due.events)
    wanted = [one for one in due.events if one.event.id in targets]
    ended = [_given_up(one, at) for one in wanted if _is_dead_end(one, at)]
    wanted = [one for one in wanted if not _is_dead_end(one, at)]
    unwanted = [msgspec.structs.replace(one, due_at=None) for one in due.events if one.event.id not in targets]
    first, later = _shares(wanted, targets)
    postponed = [msgspec.structs.replace(one, due_at=at + DISPATCH_PERIOD) for one in later]
    await _store([*unwanted, *ended, *postponed])
    # Noted before it is sent: a message that gets lost is sent again after this time.
    await _store([msgspec.structs.replace(one, due_at=at + REDISPATCH_PERIOD) for one in first])
    await asyncio.gather(*(get_notification_queue().send_body(body_of(one.event)) for one in first))
    report = DispatchReport(sent=len(first), unwanted=len(unwanted), postponed=len(postponed), more=due.more)
    logger.info("notifications dispatched", extra={"report": msgspec.to_builtins(report)})
    oldest = await find_oldest_due()
    measure_seconds(Watched.NOTIFICATION_LAG, max(0.0, (at - oldest).total_seconds()) if oldest else 0)
    return report


async def deliver(body: str) -> None:
    """One attempt. The record decides: for what was delivered meanwhile the message is superfluous."""
    message = msgspec.json.decode(body, type=QueuedEvent)
    stored = await find_event(Key(message.pk, message.sk))
    if stored is None or not _is_due(stored):
        return
    target = (await find_targets([stored.event])).get(stored.event.id)
    await _store([await attempted(stored, target)])


async def attempted(stored: StoredEvent, target: WebhookTarget | None) -> StoredEvent:
    if target is None:
        return msgspec.structs.replace(stored, due_at=None)
    attempts = stored.attempts + 1
    try:
        await send(stored.event, target)
    except DeliveryFailed as failure:
        logger.info("webhook failed", extra={"event": stored.event.id, "problem": str(failure)})
        return _failed(msgspec.structs.replace(stored, attempts=attempts, error=str(failure)), now())
    count("NotificationsDelivered")
    return msgspec.structs.replace(stored, attempts=attempts, due_at=None, delivered_at=now(), error=None)


async def send(event: RepoEvent, target: WebhookTarget) -> None:
    body = msgspec.json.encode(event)
    timestamp = str(int(now().timestamp()))
    headers = {
        "content-type": "application/json",
        "user-agent": "vskill-platform",
        "x-vskill-event": event.type,
        "x-vskill-delivery": event.id,
        TIMESTAMP: timestamp,
        SIGNATURE: f"v1={signature_of(await secret_of(target), timestamp, body)}",
    }
    await get_webhooks().post(target.url, body, headers)


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the time, a full stop and the raw body: an old request cannot be given a new time."""
    return hmac_of(secret, timestamp.encode() + b"." + body)


def body_of(event: RepoEvent) -> str:
    key = event_key(event)
    return msgspec.json.encode(QueuedEvent(SCHEMA, key.pk, key.sk)).decode()


def _shares(
    wanted: list[StoredEvent], targets: dict[str, WebhookTarget]
) -> tuple[list[StoredEvent], list[StoredEvent]]:
    taken: dict[str, int] = {}
    first: list[StoredEvent] = []
    later: list[StoredEvent] = []
    for one in wanted:
        receiver = targets[one.event.id].id
        taken[receiver] = taken.get(receiver, 0) + 1
        (first if taken[receiver] <= MOST_OF_ONE else later).append(one)
    return first, later


def _is_due(stored: StoredEvent) -> bool:
    return stored.due_at is not None


def _failed(stored: StoredEvent, at: datetime) -> StoredEvent:
    pause = min(LONGEST_REDELIVERY, FIRST_REDELIVERY * 2 ** (stored.attempts - 1))
    due_at = at + pause * random.uniform(1, 1.2)  # noqa: S311 - spreads load
    if _is_too_old(stored, due_at):
        return _given_up(stored, at)
    return msgspec.structs.replace(stored, due_at=due_at)


def _is_too_old(stored: StoredEvent, at: datetime) -> bool:
    return at - stored.event.at > GIVE_UP_TELLING


def _is_dead_end(stored: StoredEvent, at: datetime) -> bool:
    """It was sent to the queue for a day, and no worker lived to say what came of it. What was never sent, because all
    of this was down for a day, is tried once."""
    return stored.due_at != stored.event.at and _is_too_old(stored, at)


def _given_up(stored: StoredEvent, at: datetime) -> StoredEvent:
    count("NotificationsFailed")
    error = stored.error or "no attempt came to an end"
    return msgspec.structs.replace(stored, due_at=None, failed_at=at, error=error)


async def _store(events: list[StoredEvent]) -> None:
    for start in range(0, len(events), WRITES_AT_ONCE):
        puts = [stored_put(one) for one in events[start : start + WRITES_AT_ONCE]]
        await asyncio.gather(*map(get_kv().put, puts))
