"""The webhook of a repository and its last deliveries."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.notifications.events import StoredEvent
from shared.notifications.targets import WebhookTarget, find_target, get_events_of_owner, remove_target, set_target
from shared.records.owners import Owner
from shared.storage.webhook_client import LONGEST_URL

SHOWN = 50


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, max_length=LONGEST_URL, description="https; its host must be public.")]


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    url: str
    created_at: datetime
    secret: Annotated[str, Meta(description="Signs what is sent; returned only here.")] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`status`: `waiting` for its next attempt, `delivered`, `failed` after a day, or `not sent` without a webhook."""

    id: str
    type: str
    at: datetime
    skill_name: str
    status: str
    attempts: int
    next_attempt_at: datetime | None
    error: str | None


class NotificationSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    repo: str
    webhook: Webhook | None
    feed: Annotated[str, Meta(description="The Atom feed of the repository, which is public.")]
    deliveries: Annotated[list[DeliveryStatus], Meta(description="The newest first.")]


class WebhookRemoved(msgspec.Struct, frozen=True):
    ok: bool


@operation("The webhook of a repository and its last deliveries", gives=NotificationSettings, owned=True)
async def show_notifications(request: Request, owner: Owner) -> Answer:
    target, events = await find_target(owner.repo_id), await get_events_of_owner(owner, SHOWN)
    return Answer(
        NotificationSettings(
            repo=owner.repo,
            webhook=_webhook(target) if target else None,
            feed=f"/feeds/owners/{owner.repo}",
            deliveries=[_delivery(one) for one in events],
        )
    )


@operation("Set the webhook of a repository", gives={201: Webhook}, owned=True)
async def set_webhook(request: Request, owner: Owner, body: WebhookBody) -> Answer:
    """Replaces the one before, and its secret. Each request has `x-vskill-timestamp` and `x-vskill-signature`:
    `v1=` and the HMAC-SHA256 of the timestamp, a full stop and the body, in hexadecimal."""
    target, secret = await set_target(owner, body.url)
    return Answer(msgspec.structs.replace(_webhook(target), secret=secret), 201)


@operation("Remove the webhook of a repository", gives=WebhookRemoved, refuses=(409,), owned=True)
async def remove_webhook(request: Request, owner: Owner) -> Answer:
    await remove_target(owner)
    return Answer(WebhookRemoved(True))


ROUTES = {
    "GET /api/v1/owner/notifications": show_notifications,
    "POST /api/v1/owner/webhook": set_webhook,
    "POST /api/v1/owner/webhook/remove": remove_webhook,
}


def _webhook(target: WebhookTarget) -> Webhook:
    return Webhook(url=target.url, created_at=target.created_at)


def _delivery(stored: StoredEvent) -> DeliveryStatus:
    event = stored.event
    return DeliveryStatus(
        id=event.id,
        type=event.type,
        at=event.at,
        skill_name=event.skill_name,
        status=stored.status,
        attempts=stored.attempts,
        next_attempt_at=stored.due_at,
        error=stored.error,
    )
