"""Which repositories of an owner were proven, public: by whom is not stored here, and tokens are stored separately."""

from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.records.owners import Owner
from shared.storage.documents import encode
from shared.storage.kv import Key, Put, Query

MOST_SHOWN = 50


class ProvenRepo(msgspec.Struct, frozen=True, rename="camel"):
    repo: str  # owner/name, in lower case
    repo_id: int
    proven_at: datetime  # the last time


def proven_put(owner: Owner, at: datetime) -> Put:
    login = owner.repo.partition("/")[0].lower()
    return Put(Key(f"proven:{login}", str(owner.repo_id)), encode(ProvenRepo(owner.repo, owner.repo_id, at)))


async def get_proven_repos(login: str) -> list[ProvenRepo]:
    """At most fifty, by name."""
    page = await get_kv().query(Query(f"proven:{login.lower()}", limit=MOST_SHOWN))
    return sorted((_PROVEN.decode(row.text) for row in page.rows), key=lambda proven: proven.repo)


_PROVEN = msgspec.json.Decoder(ProvenRepo)
