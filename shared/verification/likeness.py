"""Whether content resembles what is blocked or published, and what that means for this skill. A likeness to blocked
content is certain only where the content also has what the block rested on. Other text in common is a note for a skill
that was published here before the blocked content was submitted, by our own clock: the blocked one may be a clone of
it. For everyone else a person decides."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import Unavailable
from shared.evidence.block_evidence import BlockEvidence, marks_of, read_evidence
from shared.evidence.blocklist import band_keys, find_entry, similar_in
from shared.evidence.receipt_store import NEAR_DUPLICATE, SHARED_TEXT, read_receipt, receipt_key
from shared.marketplace.near_copies import find_near_copy, near_copy_keys
from shared.marketplace.skill_store import find_skill, get_versions
from shared.records.skills import Skill, SkillVersion
from shared.scanner import Finding, ScanReport, finding_for, rule_set_version
from shared.scanner.report import Action, most_serious_first


class _Blocked(NamedTuple):
    """One blocked content that this one resembles."""

    content_hash: str
    share: float
    evidence: BlockEvidence | None


class Newcomer(NamedTuple):
    """Content that asks to be published under a name."""

    name: str
    files: Mapping[str, bytes]


async def with_likeness(
    report: ScanReport, skill: Skill | None, newcomer: Newcomer | None = None, is_published: bool = False
) -> ScanReport:
    """`skill`: published under this name by the same submission. `newcomer`: None where a copy of published text is no
    question. `is_published`: so is this content. It was judged on its own, and text in common does not take it back."""
    signature = report.signature
    keys = [*band_keys(signature), *(near_copy_keys(signature) if newcomer else ())]
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The signatures of other content could not be read.")
    report = await _with_blocked(report, skill, similar_in(read.found, signature), is_published)
    copy = newcomer and find_near_copy(read.found, signature, newcomer.name, skill.published_at if skill else None)
    if not (newcomer and copy) or await _is_no_original(copy.original.name, newcomer.name):
        return report
    from shared.verification.clones import clone_finding  # here: it loads the matcher

    return report.adding([await clone_finding(*newcomer, report, copy)])


async def _is_no_original(original: str, name: str) -> bool:
    """Its owner moved it here, or it was about to be published and never was: then this is no copy."""
    skill = await find_skill(original)
    return skill is None or (skill.transferred_to or "").lower() == name.lower()


async def _with_blocked(
    report: ScanReport, skill: Skill | None, similar: list[tuple[str, float]], is_published: bool
) -> ScanReport:
    """Of all that it resembles, the worst one counts."""
    if not similar:
        return report
    evidence = await read_evidence(content_hash for content_hash, _ in similar)
    alike = [_Blocked(content_hash, share, evidence.get(content_hash)) for content_hash, share in similar]
    findings = [await _finding(report, blocked, skill) for blocked in alike]
    worst = min(findings, key=most_serious_first)
    is_noted = is_published and worst.rule == SHARED_TEXT
    return report.adding([msgspec.structs.replace(worst, action=Action.NOTE) if is_noted else worst])


async def _finding(report: ScanReport, blocked: _Blocked, skill: Skill | None) -> Finding:
    earlier = await _find_version_before(blocked, skill) if skill else None
    excerpt = f"{blocked.share:.0%} in common with blocked content {blocked.content_hash[:12]}"
    shared = blocked.evidence.marks & marks_of(report) if blocked.evidence else set()
    if shared and earlier and skill:  # what it had before was not taken from the blocked one
        shared = shared - await _marks_before(earlier, skill)
    if shared:
        return finding_for(NEAR_DUPLICATE, "SKILL.md", excerpt)
    finding = finding_for(SHARED_TEXT, "SKILL.md", excerpt)
    return msgspec.structs.replace(finding, action=Action.NOTE) if earlier else finding


async def _find_version_before(blocked: _Blocked, skill: Skill) -> SkillVersion | None:
    """The last version of the skill that was published here before the blocked content was submitted."""
    at = blocked.evidence.submitted_at if blocked.evidence else None
    if at is None:  # blocked by an older release: when it was blocked is all that is known, and that is later
        entry = await find_entry(f"hash:{blocked.content_hash}")
        at = entry.discovered_at if entry else None
    if at is None or skill.published_at >= at:
        return None
    versions = await get_versions(skill.name)
    return next((one for one in versions if one.created_at < at and not one.is_yanked), None)


async def _marks_before(version: SkillVersion, skill: Skill) -> set[str]:
    unscanned = version.metadata.unscanned if version.metadata else skill.unscanned
    rule_sets = {rule_set_version(), skill.rule_set or "", (version.metadata and version.metadata.rule_set) or ""}
    read = await get_kv().get_many(receipt_key(version.content_hash, each, unscanned) for each in sorted(rule_sets))
    if read.failed:
        raise Unavailable("The receipts of this skill could not be read.")
    return set().union(*(marks_of(read_receipt(doc).report) for doc in read.found.values()))
