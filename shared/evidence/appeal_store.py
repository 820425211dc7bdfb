"""Appeals at rest: with the submission they are about, never changed after their answer. An open one has a marker for
its skill and content, so that there is one at a time."""

from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import NotFound
from shared.records.appeals import Appeal, AppealState
from shared.storage.documents import encode, parse_each
from shared.storage.kv import ABSENT, Delete, Expect, Key, Put, Query, Write, query_all, query_shards, shard_of

_OPEN = "appeals:open"
_OVERTURNED = "appeals:overturned"


class AppealPage(NamedTuple):
    appeals: list[Appeal]
    next_position: str | None
    failed: list[str]


async def get_appeals(submission_id: str) -> list[Appeal]:
    """Oldest first."""
    return [_APPEAL.decode(row.text) for row in await query_all(get_kv(), f"appeal:{submission_id}")]


async def get_appeal(submission_id: str, appeal_id: str) -> Appeal:
    doc = await get_kv().get(Key(f"appeal:{submission_id}", appeal_id or "."))
    if doc is None:
        raise NotFound("There is no such appeal.", code="appeal_not_found")
    return _APPEAL.decode(doc)


async def find_open_appeal(submission_id: str, content_hash: str | None) -> Appeal | None:
    """About this content: there is one at most. One about content that was replaced since decides nothing any more."""
    found = await get_appeals(submission_id)
    is_open = (one for one in found if one.state is AppealState.OPEN and one.content_hash == content_hash)
    return next(is_open, None)


async def list_open_appeals(limit: int = 50, after: str | None = None) -> AppealPage:
    """Oldest first. The index names candidates, their records decide."""
    page = await _page(_OPEN, "state", limit, after)
    return page._replace(appeals=[appeal for appeal in page.appeals if appeal.state is AppealState.OPEN])


async def list_overturned_appeals(limit: int, after: str | None = None) -> AppealPage:
    """Those with a finding that was overturned, oldest first."""
    return await _page(_OVERTURNED, "list", limit, after)


def opening_writes(appeal: Appeal) -> list[Write]:
    """Refused if the skill has an open appeal about the same content."""
    return [_appeal_put(appeal, ABSENT), Put(_marker_key(appeal), encode({"id": appeal.id}), expect=ABSENT)]


def answering_writes(before: Appeal, after: Appeal) -> list[Write]:
    marker = _marker_key(before)
    return [_appeal_put(after, {"recordVersion": before.record_version}), Delete(marker, {"pk": marker.pk})]


_APPEAL = msgspec.json.Decoder(Appeal)


async def _page(name: str, index: str, limit: int, after: str | None) -> AppealPage:
    found = await query_shards(get_kv(), Query(name, index, after=after, limit=limit + 1))
    rows, end = found.page(limit)
    read = await get_kv().get_many(row.key for row in rows)
    appeals, malformed = parse_each(read.found, _APPEAL)
    failed = [key.sk for key in [*read.failed, *malformed]]
    return AppealPage(sorted(appeals, key=lambda appeal: appeal.id), end, failed)


def _appeal_put(appeal: Appeal, expect: Expect) -> Put:
    shard = shard_of(appeal.id)
    attrs: dict[str, str | int] = {"recordVersion": appeal.record_version, "row": encode({"id": appeal.id})}
    if appeal.state is AppealState.OPEN:
        attrs |= {"statePk": f"{_OPEN}#{shard}", "stateSk": appeal.id}
    if appeal.overturned:
        attrs |= {"listPk": f"{_OVERTURNED}#{shard}", "listSk": appeal.id}
    return Put(Key(f"appeal:{appeal.submission_id}", appeal.id), encode(appeal), attrs, expect)


def _marker_key(appeal: Appeal) -> Key:
    return Key(f"appeal-open:{appeal.skill_name.lower()}", appeal.content_hash or "none")
