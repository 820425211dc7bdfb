"""New rules for published skills: content that was published under an older rule set is scanned again. Only a worse
verdict blocks a skill."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from shared.db import get_content, get_kv, get_scans, now
from shared.errors import ConditionFailed, Conflict, Unavailable
from shared.evidence.receipt_store import (
    Clearance,
    Receipt,
    own_findings,
    read_receipt,
    receipt_key,
    receipt_put,
    rescan_puts,
)
from shared.marketplace.skill_admin import block_by_rule
from shared.marketplace.skill_store import get_page_of_names, put_rescanned, read_skills
from shared.records.skills import Skill
from shared.records.submissions import Submission
from shared.scanner import ScanReport, rule_set_version
from shared.storage.documents import encode
from shared.storage.kv import Key, Put
from shared.submissions.submission_store import find_submission
from shared.telemetry import count, logger
from shared.timing import RESCAN_BUDGET, RESCAN_PERIOD, SCAN_CPU_LIMIT, seconds_left
from shared.verification.clearances import clearance_keys, find_clearance
from shared.verification.likeness import with_likeness
from shared.verification.verification import SOURCE_RULES, summary_of

RESCAN_LIMIT = 5000  # a run; the rest is next
PAGE = 500  # skills that are in memory at once
LONGEST_RESCAN = 3 * SCAN_CPU_LIMIT  # at 0.58 of a CPU, with time to read and write
WORSE = ("PASS", "CONCERNS", "FAIL")
_ROUND = Key("rescan:round")


class RescanReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    rescanned: int
    blocked: list[str]
    failed: list[str]  # could not be read or written; a later run tries again
    more: bool


class Round(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One walk over all skills, in as many runs as it takes."""

    rule_set: str
    after: str | None = None  # the position of the page; None: the first
    last: str | None = None  # the last skill of the page that was tried
    failed: int = 0  # could not be read or written; the next round tries them again
    ended_at: datetime | None = None


class Rescanned(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    verdict: str
    score: int
    rule_set: str
    blocked: bool


async def rescan_when_due() -> RescanReport:
    """For the schedule: a round a day, and a new one at once when the rules change. It continues in every run."""
    at, round_ = now(), await _find_round()
    if round_.ended_at and at - round_.ended_at < RESCAN_PERIOD:
        return RescanReport(rescanned=0, blocked=[], failed=[], more=False)
    return await rescan_published()


async def rescan_published(limit: int = RESCAN_LIMIT, longest: timedelta = LONGEST_RESCAN) -> RescanReport:
    """Continues the round where the last run stopped, or begins one. Ends while there is still time for one more scan
    as long as `longest`."""
    found = await _find_round()
    run = _Run(Round(rule_set=found.rule_set) if found.ended_at else found, limit, longest)
    await run.walk()
    await get_kv().put(Put(_ROUND, encode(run.round)))
    report = RescanReport(
        rescanned=limit - run.left,
        blocked=run.blocked,
        failed=run.failed,
        more=run.round.ended_at is None or run.round.failed > 0,
    )
    logger.info("rescan finished", extra={"report": msgspec.to_builtins(report)})
    count("RescanBlocked", len(run.blocked))
    return report


async def _find_round() -> Round:
    """A new one if the rules have changed since."""
    doc = await get_kv().get(_ROUND)
    found = msgspec.json.decode(doc, type=Round) if doc else None
    return found if found and found.rule_set == rule_set_version() else Round(rule_set=rule_set_version())


class _Run:
    def __init__(self, round_: Round, limit: int, longest: timedelta) -> None:
        self.round, self.left, self._longest = round_, limit, longest
        self.blocked: list[str] = []
        self.failed: list[str] = []

    async def walk(self) -> None:
        while self.round.ended_at is None:
            names, end = await get_page_of_names(self.round.after, PAGE)
            names = names[names.index(self.round.last) + 1 :] if self.round.last in names else names
            read = await read_skills(names, with_counts=False)
            self._note_failed(read.failed)
            skills = [read.skills[name] for name in names if name in read.skills]
            if not await self._rescan_each(skill for skill in skills if _is_due(skill)):
                return
            self._advance(after=end, last=None, ended_at=None if end else now())

    async def _rescan_each(self, skills: Iterable[Skill]) -> bool:
        """One after the other: a scan takes the whole processor anyway. False: the run is over before they are."""
        for skill in skills:
            if not self.left or seconds_left(RESCAN_BUDGET) < self._longest.total_seconds():
                return False
            await self._try(skill)
            self.left -= 1
            self._advance(last=skill.name.lower())  # one that cannot be read must not hold up the others
        return True

    async def _try(self, skill: Skill) -> None:
        try:
            if (await rescan(skill)).blocked:
                self.blocked.append(skill.name)
        except (Conflict, ConditionFailed):
            logger.info("changed while being rescanned, left alone", extra={"skill": skill.name})
        except Exception as error:  # noqa: BLE001 - one skill must not stop the others
            logger.error("rescan failed", exc_info=error, extra={"skill": skill.name})
            self._note_failed([skill.name])

    def _note_failed(self, names: Collection[str]) -> None:
        self.failed += names
        self._advance(failed=self.round.failed + len(names))

    def _advance(self, **changes: Any) -> None:
        self.round = msgspec.structs.replace(self.round, **changes)


def _is_due(skill: Skill) -> bool:
    return skill.is_listed and skill.rule_set != rule_set_version()


async def rescan(skill: Skill) -> Rescanned:
    """From the stored bytes. The new receipt is written either way."""
    receipt, evidence = await _scan_again(skill)
    clearance, submission = evidence.clearance, evidence.submission
    report = receipt.report
    worse = is_worse(report, skill) and not (clearance and clearance.covers(receipt))
    puts = rescan_puts(receipt, submission) if worse and submission else [receipt_put(receipt)]
    await get_kv().transact(lambda: puts)
    if worse:
        learned: dict[str, str | int] = {"rule_set": receipt.rule_set, "verdict": report.verdict, "score": report.score}
        learned["has_own_findings"] = bool(own_findings(report))
        reason = f"{summary_of(report)}. Found by a newer rule set."
        await block_by_rule(skill, reason, **learned)
    else:
        await put_rescanned(skill, report, receipt.rule_set)
    return Rescanned(
        name=skill.name, verdict=report.verdict, score=report.score, rule_set=receipt.rule_set, blocked=worse
    )


def is_worse(report: ScanReport, skill: Skill) -> bool:
    """What a person or the judge approved with concerns is not blocked for having them. What fails needs a person's
    clearance, which is for the rules it names."""
    return report.verdict == "FAIL" or WORSE.index(report.verdict) > WORSE.index(skill.verdict or "PASS")


class _Evidence(NamedTuple):
    """Of exactly the published content, whatever its author has sent since."""

    submission: Submission | None
    unscanned: str  # what no scan could read
    receipts: list[Receipt]  # the latest rules first
    clearance: Clearance | None


async def _scan_again(skill: Skill) -> tuple[Receipt, _Evidence]:
    """What the judge said of this content, and what only its source could see, stays true under newer rules."""
    started_at = now()
    files = await get_content().get_files(skill.content_hash)
    scanned = await get_scans().scan(files)
    if scanned.unfinished:  # no verdict: it stays as it is, and a later run tries again
        raise Unavailable(f"It could not be scanned again: {scanned.unfinished}.")
    report = await with_likeness(scanned, skill, is_published=True)
    # After the scan, which takes its time: a worker may have had the same content judged meanwhile.
    evidence = await _evidence_of(skill)
    receipts = evidence.receipts
    if evidence.unscanned and receipts:
        seen_at_source = [finding for finding in receipts[0].report.findings if finding.rule in SOURCE_RULES]
        unread = [why for why in receipts[0].report.incomplete if why != receipts[0].report.unfinished]
        report = report.adding(seen_at_source, unread)
    receipt = Receipt(
        content_hash=skill.content_hash,
        rule_set=rule_set_version(),
        started_at=started_at,
        ended_at=now(),
        report=report,
        commit=skill.commit,
        unscanned=evidence.unscanned,
        judgement=next((known.judgement for known in receipts if known.judgement), None),
    )
    return receipt, evidence


async def _evidence_of(skill: Skill) -> _Evidence:
    content_hash = skill.content_hash
    submission = await find_submission(skill.submission_id)
    is_same = submission is not None and submission.content_hash == content_hash
    decided = submission if submission and is_same else skill
    rule_sets = [rule_set_version(), decided.rule_set or "", skill.rule_set or ""]
    keys = [receipt_key(content_hash, rule_set, decided.unscanned) for rule_set in rule_sets]
    read = await get_kv().get_many([*keys, *clearance_keys(skill.name, content_hash)])
    if read.failed:
        raise Unavailable("The data about this content could not be read.")
    receipts = [read_receipt(read.found[key]) for key in dict.fromkeys(keys) if key in read.found]
    clearance = await find_clearance(read.found, skill.name, content_hash, skill.submission_id)
    return _Evidence(submission, decided.unscanned, receipts, clearance)
