"""New rules look at old skills: stored content that was published under an older rule set is scanned again. Only a
worse verdict moves anything."""

import asyncio

import msgspec

from shared.db import get_content, get_kv, now
from shared.errors import ConditionFailed, LostLease, PlatformError
from shared.receipt_store import Receipt, receipt_put
from shared.scanner import RULE_SET_VERSION, ScanReport, scan_skill
from shared.skill_store import block_skill, enumerate_published_skills, put_rescanned
from shared.skills import Skill
from shared.telemetry import count, logger
from shared.verification import summary_of

RESCAN_LIMIT = 500  # a run; the rest is next
WORSE = ("PASS", "CONCERNS", "FAIL")


class RescanReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    rescanned: int
    blocked: list[str]
    failed: list[str]  # could not be read or written; the next run tries again
    more: bool


async def rescan_published(limit: int = RESCAN_LIMIT) -> RescanReport:
    read = await enumerate_published_skills()
    old = [skill for skill in read.skills if skill.rule_set != RULE_SET_VERSION]
    blocked, failed = [], list(read.failed)
    for skill in old[:limit]:  # one after the other: a scan takes the whole processor anyway
        try:
            if await rescan(skill):
                blocked.append(skill.name)
        except (LostLease, ConditionFailed):
            logger.info("changed while being rescanned, left alone", extra={"skill": skill.name})
        except PlatformError as error:
            logger.error("rescan failed", exc_info=error, extra={"skill": skill.name})
            failed.append(skill.name)
    report = RescanReport(rescanned=len(old[:limit]), blocked=blocked, failed=failed, more=len(old) > limit)
    logger.info("rescan finished", extra={"report": msgspec.to_builtins(report)})
    count("RescanBlocked", len(blocked))
    return report


async def rescan(skill: Skill) -> bool:
    """Whether it had to be blocked. The new receipt is written either way."""
    started_at = now()
    files = await get_content().get_files(skill.content_hash)
    report = await asyncio.to_thread(scan_skill, files)
    receipt = Receipt(
        content_hash=skill.content_hash,
        rule_set=RULE_SET_VERSION,
        started_at=started_at,
        ended_at=now(),
        report=report,
    )
    await get_kv().put(receipt_put(receipt))
    if is_worse(report, skill):
        await block_skill(skill.name, f"A newer rule set found: {summary_of(report)}", "system")
        return True
    await put_rescanned(skill, report, RULE_SET_VERSION)
    return False


def is_worse(report: ScanReport, skill: Skill) -> bool:
    """What a person or the judge let through with concerns is not blocked for having them."""
    return WORSE.index(report.verdict) > WORSE.index(skill.verdict or "PASS")
