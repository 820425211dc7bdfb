"""What is known of a skill's repository: is it there, is it kept up."""

from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.documents import encode
from shared.kv import Key, Put


class RepoHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    source: str
    status: str  # ONLINE | OFFLINE | STALE
    checked_at: datetime
    last_commit_at: datetime | None = None


async def put_repo_health(health: RepoHealth) -> None:
    await get_kv().put(Put(_key(health.source), encode(health)))


async def find_repo_health(source: str) -> RepoHealth | None:
    doc = await get_kv().get(_key(source))
    return None if doc is None else msgspec.json.decode(doc, type=RepoHealth)


def _key(source: str) -> Key:
    return Key(f"repo-health:{source}")
