"""Results of external scanners. A critical one blocks the skill."""

from shared.db import now
from shared.errors import Conflict, NotFound, Unavailable
from shared.evidence.blocklist import add_block, entry_for
from shared.marketplace.blocking import published_by_others
from shared.marketplace.external_scan_dispatch import claim_lost, get_claimed_scan
from shared.marketplace.external_scan_store import replace_scan
from shared.marketplace.skill_admin import block_skill, source_of
from shared.marketplace.skill_store import get_skill
from shared.records.external_scans import ExternalOutcome, ExternalScan, finished, is_critical
from shared.telemetry import count, logger

TRIES = 5


async def report_result(
    provider: str, skill_name: str, claim_id: str, content_hash: str, outcome: ExternalOutcome
) -> ExternalScan:
    """Stores what the holder of the claim found. A repeated report changes nothing and gets the same response."""
    scan = await get_claimed_scan(provider, skill_name, claim_id)
    if scan.content_hash != content_hash:
        raise claim_lost()
    if scan.outcome is not None:
        return _same_result(scan, outcome)
    if is_critical(outcome):  # first: after a failure here the scanner reports again, and blocking twice is harmless
        await on_critical(skill_name, content_hash, _reason(provider, outcome), "system")
    after = finished(scan, outcome, now())
    if not await replace_scan(scan, after):
        return await _reported_meanwhile(scan, outcome)
    logger.info("external scan finished", extra={"skill": skill_name, "scanner": provider, "status": outcome.status})
    return after


async def on_critical(name: str, content_hash: str, reason: str, actor: str) -> None:
    """Another version may be the current one by now: then only the scanned content is banned."""
    for _ in range(TRIES):
        try:
            skill = await get_skill(name)
            if skill.content_hash != content_hash and await published_by_others(name, [content_hash]):
                return  # another skill's content: it is scanned there
            if skill.content_hash != content_hash:
                await add_block(entry_for(skill.name, reason, source_of(skill), "critical", content_hash))
            else:
                await block_skill(name, reason, actor)
        except NotFound:
            return  # gone already
        except Conflict:
            continue  # it changed at this moment: read it again
        logger.warning("skill blocked by an external scan", extra={"skill": name, "problem": reason})
        count("ExternalBlocks")
        return
    raise Unavailable("The skill changed at each attempt.")


def _same_result(scan: ExternalScan, outcome: ExternalOutcome) -> ExternalScan:
    if scan.outcome != outcome:
        raise Conflict("This claim has reported another result already.", code="already_reported")
    return scan


async def _reported_meanwhile(scan: ExternalScan, outcome: ExternalOutcome) -> ExternalScan:
    """Our own report from a second connection is fine; anything else means that the claim is over."""
    found = await get_claimed_scan(scan.provider, scan.skill_name, scan.claim_id or "")
    if found.outcome is None:
        raise claim_lost()
    return _same_result(found, outcome)


def _reason(provider: str, outcome: ExternalOutcome) -> str:
    worst = next((finding for finding in outcome.findings if finding.severity == "critical"), None)
    if worst is None:
        detail = outcome.summary or f"{outcome.critical_count} critical findings"
    else:
        where = f" ({worst.file}{f', line {worst.line}' if worst.line else ''})" if worst.file else ""
        detail = f"{worst.title.rstrip('.')}{where}"
    return f"The scanner {provider} found something critical: {detail}. Fix it, then request a review."
