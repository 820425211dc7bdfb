"""Asks every configured scanner elsewhere to look at a published skill. Never changes the outcome of its run."""

import asyncio
from collections.abc import Iterable

from shared.db import now
from shared.external_scan_store import ExternalScan, put_external_scan


async def dispatch_external_scans(skill_name: str, content_hash: str, providers: Iterable[str]) -> None:
    at = now()
    await asyncio.gather(
        *(
            put_external_scan(
                ExternalScan(
                    skill_name=skill_name,
                    provider=provider,
                    content_hash=content_hash,
                    status="PENDING",
                    requested_at=at,
                )
            )
            for provider in providers
        )
    )
