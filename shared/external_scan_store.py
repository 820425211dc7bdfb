"""Results of scanners elsewhere, one per skill and provider."""

from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.documents import encode
from shared.kv import Key, Put, query_all


class ExternalScan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    skill_name: str
    provider: str
    content_hash: str
    status: str  # PENDING | RUNNING | COMPLETED | FAILED
    requested_at: datetime
    verdict: str | None = None
    score: int | None = None
    critical_count: int | None = None


async def put_external_scan(scan: ExternalScan) -> None:
    await get_kv().put(Put(_key(scan.skill_name, scan.provider), encode(scan)))


async def find_external_scan(skill_name: str, provider: str) -> ExternalScan | None:
    doc = await get_kv().get(_key(skill_name, provider))
    return None if doc is None else _SCAN.decode(doc)


async def get_external_scans(skill_name: str) -> list[ExternalScan]:
    return [_SCAN.decode(row.text) for row in await query_all(get_kv(), f"external-scan:{skill_name}")]


_SCAN = msgspec.json.Decoder(ExternalScan)


def _key(skill_name: str, provider: str) -> Key:
    return Key(f"external-scan:{skill_name}", provider)
