"""The webhooks of owners: one for each repository, under its numeric id. The secret that signs what is
sent is derived, not stored: it is shown once, and a new address has a new one."""

import secrets
from collections.abc import Iterable
from datetime import datetime

import msgspec

from shared.access.audit import audit_put
from shared.access.signing import sign
from shared.db import get_kv, get_settings, now
from shared.errors import Conflict, Unavailable
from shared.notifications.events import RepoEvent, StoredEvent, get_events_of_repo
from shared.records.owners import Owner
from shared.storage.documents import encode, parse_each
from shared.storage.kv import Delete, Key, Put
from shared.storage.webhook_client import read_target_url


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    repo: str
    repo_id: int
    url: str
    created_at: datetime


async def set_target(owner: Owner, url: str) -> tuple[WebhookTarget, str]:
    """With the secret of its signatures."""
    at = now()
    target = WebhookTarget(
        id=secrets.token_hex(8),
        repo=owner.repo,
        repo_id=owner.repo_id,
        url=read_target_url(url.strip(), get_settings().webhook_loopback),
        created_at=at,
    )
    audit = audit_put(owner, "set webhook", owner.repo, target.id)
    name = Put(_name_key(owner.repo), encode({"repoId": owner.repo_id}))
    await get_kv().transact(lambda: [Put(_key(owner.repo_id), encode(target)), name, audit])
    return target, await secret_of(target)


async def remove_target(owner: Owner) -> None:
    target = await find_target(owner.repo_id)
    if target is None:
        raise Conflict("No webhook is set.", code="nothing_to_change")
    key = _key(owner.repo_id)
    audit = audit_put(owner, "remove webhook", owner.repo, target.id)
    await get_kv().transact(lambda: [Delete(key, {"pk": key.pk}), audit])


async def find_target(repo_id: int) -> WebhookTarget | None:
    doc = await get_kv().get(_key(repo_id))
    return None if doc is None else _TARGET.decode(doc)


async def find_targets(events: Iterable[RepoEvent]) -> dict[str, WebhookTarget]:
    """By the id of the event, in two reads. By the numeric id of the repository: a new repository of the same
    name gets nothing about the skills of the one before. What was decided before the id was known goes by the name."""
    events = list(events)
    names = {_name_key(event.repo): event.repo for event in events if event.repo_id is None}
    named = await _read(names)
    ids = {names[key]: int(msgspec.json.decode(doc)["repoId"]) for key, doc in named.items()}
    wanted = {event.id: event.repo_id or ids.get(event.repo) for event in events}
    docs = await _read({_key(repo_id) for repo_id in wanted.values() if repo_id})
    targets = {target.repo_id: target for target in parse_each(docs, _TARGET)[0]}
    return {id_: targets[repo_id] for id_, repo_id in wanted.items() if repo_id in targets}


async def get_events_of_owner(owner: Owner, limit: int) -> list[StoredEvent]:
    """The owner of a newly registered name sees no deliveries of the previous repository."""
    events = await get_events_of_repo(owner.repo, limit)
    return [stored for stored in events if stored.event.repo_id in (None, owner.repo_id)]


async def secret_of(target: WebhookTarget) -> str:
    return f"whsec_{await sign('webhook', f'{target.repo_id} {target.id}')}"


_TARGET = msgspec.json.Decoder(WebhookTarget)


async def _read(keys: Iterable[Key]) -> dict[Key, str]:
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("Not every webhook could be read.")
    return read.found


def _key(repo_id: int) -> Key:
    return Key(f"webhook-target:{repo_id}")


def _name_key(repo: str) -> Key:
    return Key(f"webhook-target-name:{repo}")
