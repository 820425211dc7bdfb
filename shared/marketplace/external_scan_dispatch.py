"""Work for external scanners: requested after a publication, claimed by one scanner at a time, with its files.

Nothing here changes the outcome of the run that published the skill.
"""

import base64
import secrets
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from shared.db import get_content, get_secrets, get_settings, now
from shared.errors import Conflict, NotFound, Unavailable
from shared.marketplace.external_scan_store import a_request, add_scan, find_claimable, find_external_scan, replace_scan
from shared.records.external_scans import ExternalScan, claimed
from shared.storage.content import Files
from shared.telemetry import count, logger

TRIES = 5
PAGE_BYTES = 1_250_000  # of the files themselves: at most 5 MB as JSON in JSON; a Lambda response has 6 MB at most


class ScanFile(msgspec.Struct, frozen=True):
    path: str
    encoding: str  # utf-8 | base64
    content: str


class FilePage(NamedTuple):
    files: list[ScanFile]
    next_after: str | None


async def configured_scanners() -> list[str]:
    """Those in the settings that have a secret: without one a scanner cannot claim its work."""
    names = get_settings().external_scanners
    if not names:
        return []
    try:
        values = await get_secrets().get()
    except Unavailable:  # nothing about scanners may keep a skill from being published
        logger.warning("secrets of external scanners not checked")
        return list(names)
    usable = [name for name in names if values.find_webhook_secret(name)]
    if len(usable) < len(names):
        logger.error("external scanner without a secret", extra={"scanners": sorted(set(names) - set(usable))})
    return usable


async def dispatch_external_scans(skill_name: str, content_hash: str, scanners: Iterable[str]) -> None:
    """Requests the scans that are missing. A scan of the same content is never restarted."""
    for scanner in scanners:
        try:
            await _request(skill_name, scanner, content_hash)
        except Unavailable:
            logger.exception("external scan not requested", extra={"skill": skill_name, "scanner": scanner})
            count("ExternalScansNotRequested")


async def claim_scan(provider: str) -> ExternalScan | None:
    """The longest waiting scan, for this scanner alone until the lease ends. None: there is nothing to do."""
    at = now()
    for scan in await find_claimable(provider, at):
        held = claimed(scan, secrets.token_urlsafe(18), at)
        if await replace_scan(scan, held):
            return held
    return None


async def get_claimed_scan(provider: str, skill_name: str, claim_id: str) -> ExternalScan:
    """The scan this claim still holds. A claim ends when another scanner has it or new content was published."""
    scan = await find_external_scan(skill_name, provider)
    if scan is None:
        raise NotFound("There is no such scan.", code="scan_not_found")
    if scan.claim_id != claim_id:
        raise claim_lost()
    return scan


async def get_claimed_files(provider: str, skill_name: str, claim_id: str, after: str = "") -> FilePage:
    scan = await get_claimed_scan(provider, skill_name, claim_id)
    return page_of(await get_content().get_files(scan.content_hash), after)


def claim_lost() -> Conflict:
    return Conflict("This claim has ended: another claim, or new content, replaced it.", code="claim_lost")


def page_of(files: Files, after: str) -> FilePage:
    """Files in the order of their paths, as many as fit; one that does not fit is a page of its own."""
    paths = sorted(path for path in files if path > after)
    page: list[str] = []
    size = 0
    for path in paths:
        size += len(files[path])
        if page and size > PAGE_BYTES:
            break
        page.append(path)
    return FilePage([_scan_file(path, files[path]) for path in page], page[-1] if len(page) < len(paths) else None)


def _scan_file(path: str, data: bytes) -> ScanFile:
    text = _text(data) if len(data) <= PAGE_BYTES else None
    if text is None:
        return ScanFile(path, "base64", base64.b64encode(data).decode())
    return ScanFile(path, "utf-8", text)


def _text(data: bytes) -> str | None:
    """None for what is not text, or grows too much as JSON."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if len(msgspec.json.encode(text)) <= 2 * len(data) + 2 else None


async def _request(skill_name: str, scanner: str, content_hash: str) -> None:
    request = a_request(skill_name, scanner, content_hash, now())
    for _ in range(TRIES):  # a scanner may claim the old content at this very moment
        known = await find_external_scan(skill_name, scanner)
        if known is not None and known.content_hash == content_hash:
            return
        if await (add_scan(request) if known is None else replace_scan(known, _succeeding(known, request))):
            return
    raise Unavailable("The scan kept changing.")


def _succeeding(known: ExternalScan, request: ExternalScan) -> ExternalScan:
    return msgspec.structs.replace(request, record_version=known.record_version + 1)
