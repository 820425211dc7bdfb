"""External scans at rest: one per skill and provider, about the content that is published now.

What waits for a scanner is in the due index under a kind of its own, so work is found without looking at anything
that is done. Every change names the record and the content it started from.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed
from shared.records.external_scans import (
    ExternalOutcome,
    ExternalScan,
    ExternalVerdict,
    Status,
    claimable_at,
    status_at,
)
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, Expect, Key, Put, Query, query_all, query_shards, shard_of

CANDIDATES = 8  # per shard: as many scanners can claim at one moment and each still finds something


class ProviderSecurity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    provider: str
    status: Status
    verdict: ExternalVerdict | None
    score: int | None
    critical_count: int | None
    report_url: str | None = None


class Security(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The results of external scanners for a skill. None: there is none yet."""

    overall_verdict: ExternalVerdict | None
    providers: list[ProviderSecurity]


async def get_security(skill_name: str) -> Security:
    scans = await get_external_scans(skill_name)
    at = now()
    reported = sorted((s.outcome for s in scans if s.outcome and s.outcome.verdict), key=_badness, reverse=True)
    return Security(
        overall_verdict=reported[0].verdict if reported else None,
        providers=[_provider_security(scan, at) for scan in scans],
    )


async def get_external_scans(skill_name: str) -> list[ExternalScan]:
    rows = await query_all(get_kv(), _partition(skill_name))
    scans, _ = parse_each({row.key: row.text for row in rows}, _SCAN)
    return scans


async def find_external_scan(skill_name: str, provider: str) -> ExternalScan | None:
    doc = await get_kv().get(_key(skill_name, provider))
    return None if doc is None else _SCAN.decode(doc)


async def find_claimable(provider: str, at: datetime) -> list[ExternalScan]:
    """The longest waiting first. The index says where to look; the records, read strongly, decide."""
    due = await query_shards(get_kv(), Query(_due_list(provider), "due", before=stamp(at), limit=CANDIDATES))
    read = await get_kv().get_many(row.key for row in due.rows)
    scans, _ = parse_each({row.key: read.found[row.key] for row in due.rows if row.key in read.found}, _SCAN)
    return [scan for scan in scans if (since := claimable_at(scan)) is not None and since <= at]


async def replace_scan(before: ExternalScan, after: ExternalScan) -> bool:
    """False: the record is no longer the one this started from, and nothing was written."""
    expect: Expect = {"recordVersion": before.record_version, "contentHash": before.content_hash}
    return await _try_put(scan_put(after, expect))


async def add_scan(scan: ExternalScan) -> bool:
    """False: this skill and provider have a record already."""
    return await _try_put(scan_put(scan, ABSENT))


def scan_put(scan: ExternalScan, expect: Expect | None = None) -> Put:
    attrs: dict[str, str | int] = {"recordVersion": scan.record_version, "contentHash": scan.content_hash}
    due = claimable_at(scan)
    if due is not None:
        partition = f"{_due_list(scan.provider)}#{shard_of(scan.skill_name)}"
        attrs |= {"duePk": partition, "dueSk": f"{stamp(due)}#{scan.skill_name}"}
    return Put(_key(scan.skill_name, scan.provider), encode(scan), attrs, expect)


def scan_requests(skill_name: str, content_hash: str, scanners: Iterable[str], at: datetime) -> list[Put]:
    """For the transaction that publishes new content: what was known of the content before is replaced."""
    return [scan_put(a_request(skill_name, scanner, content_hash, at)) for scanner in scanners]


def a_request(skill_name: str, provider: str, content_hash: str, at: datetime) -> ExternalScan:
    return ExternalScan(skill_name=skill_name, provider=provider, content_hash=content_hash, requested_at=at)


_SCAN = msgspec.json.Decoder(ExternalScan)
_FROM_GOOD_TO_BAD = list(ExternalVerdict)


def _key(skill_name: str, provider: str) -> Key:
    return Key(_partition(skill_name), provider)


def _partition(skill_name: str) -> str:
    return f"external-scan:{skill_name.lower()}"  # as skills themselves: one name, however it is written


def _due_list(provider: str) -> str:
    return f"due:external-scan:{provider}"


async def _try_put(put: Put) -> bool:
    try:
        await get_kv().put(put)
    except ConditionFailed:
        return False
    return True


def _badness(outcome: ExternalOutcome) -> int:
    return _FROM_GOOD_TO_BAD.index(outcome.verdict or ExternalVerdict.PASS)


def _provider_security(scan: ExternalScan, at: datetime) -> ProviderSecurity:
    outcome = scan.outcome
    has_verdict = outcome is not None and outcome.verdict is not None
    return ProviderSecurity(
        provider=scan.provider,
        status=status_at(scan, at),
        verdict=outcome.verdict if outcome else None,
        score=outcome.score if outcome else None,
        critical_count=outcome.critical_count if outcome and has_verdict else None,
        report_url=outcome.report_url if outcome else None,
    )
