"""Evidence at rest: the results of the scan and the judge for exactly this content, and what a person cleared. It never
expires."""

import base64
import gzip
from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.errors import Unavailable
from shared.records.judgement import Judgement
from shared.records.skills import SkillVersion
from shared.records.submissions import Submission
from shared.scanner import Finding, ScanReport
from shared.storage.documents import encode
from shared.storage.kv import Key, Put

MAX_FINDINGS = 1000
NEAR_DUPLICATE = "KNOWN-NEAR-DUPLICATE"  # like blocked content, with what that was blocked for
SHARED_TEXT = "KNOWN-SHARED-TEXT"  # like blocked content, without it
CLONE = "KNOWN-CLONE"  # like what another publisher published here first
LOOK_ALIKE = "NAME-LOOK-ALIKE"  # a new name that people mistake for a published one
# About a skill, not about its content. A receipt is of content and read for every skill that has it, so these are
# stored with the submission: what is found about a copy is not shown of the original.
ABOUT_SKILL = (NEAR_DUPLICATE, SHARED_TEXT, LOOK_ALIKE, CLONE)


class Receipt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    content_hash: str
    rule_set: str
    started_at: datetime
    ended_at: datetime
    report: ScanReport
    commit: str | None = None  # where the content was first seen
    # A fingerprint of what no scan could read; another one is another receipt.
    unscanned: str = msgspec.field(default="", name="unseen")
    judgement: Judgement | None = None
    truncated: bool = False  # more findings than a record holds

    @property
    def is_reusable(self) -> bool:
        """A scan that was stopped by a limit is shown, but proves nothing: the next attempt scans again."""
        return not self.report.unfinished


class Clearance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person's approval, for exactly this content of one skill and these rules."""

    content_hash: str
    rules: frozenset[str]
    allows_incomplete: bool
    by: str
    why: str
    at: datetime
    unscanned: str = msgspec.field(default="", name="unseen")

    def covers(self, receipt: Receipt) -> bool:
        is_same = (self.content_hash, self.unscanned) == (receipt.content_hash, receipt.unscanned)
        sees_enough = self.allows_incomplete or not receipt.report.incomplete
        return is_same and sees_enough and receipt.is_reusable and deciding_rules(receipt.report) <= self.rules


def receipt_key(content_hash: str, rule_set: str, unscanned: str = "") -> Key:
    return Key(f"receipt:{content_hash}:{rule_set}" + (f":{unscanned}" if unscanned else ""))


def clearance_key(name: str, content_hash: str) -> Key:
    return Key(f"clearance:{name.lower()}:{content_hash}")


def shared_clearance_key(content_hash: str) -> Key:
    """Of an older release, for every skill with this content."""
    return Key(f"clearance:{content_hash}")


def deciding_rules(report: ScanReport) -> set[str]:
    return {finding.rule for finding in deciding_findings(report)}


def deciding_findings(report: ScanReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.action in ("block", "review")]


def receipt_put(receipt: Receipt) -> Put:
    """Packed: a thousand findings must fit one item with everything else. Only what is about the content."""
    report = about_content(receipt.report)
    findings = report.findings
    kept = msgspec.structs.replace(report, findings=findings[:MAX_FINDINGS])
    stored = msgspec.structs.replace(receipt, report=kept, truncated=len(findings) > MAX_FINDINGS)
    packed = base64.b85encode(gzip.compress(msgspec.json.encode(stored), mtime=0)).decode()
    return Put(receipt_key(receipt.content_hash, receipt.rule_set, receipt.unscanned), encode({"packed": packed}))


def receipt_puts(receipt: Receipt, submission: Submission) -> list[Put]:
    """The receipt of the content; and what is of this run of the submission alone: findings about its skill, and a
    receipt that the next scan of the same content replaces."""
    shared, puts = receipt_put(receipt), []
    if own := own_findings(receipt.report):
        stored = _OwnFindings(content_hash=receipt.content_hash, findings=own)
        puts.append(Put(_own_findings_key(submission), encode(stored)))
    if not receipt.is_reusable:
        puts.append(Put(_own_receipt_key(submission), shared.doc))
    return [shared, *puts]


def rescan_puts(receipt: Receipt, submission: Submission) -> list[Put]:
    """Of a published skill under newer rules. If its submission has other content by now, that run's evidence stays."""
    if submission.content_hash == receipt.content_hash:
        return receipt_puts(receipt, submission)
    stored = _OwnFindings(content_hash=receipt.content_hash, findings=own_findings(receipt.report))
    own = [Put(_rescan_findings_key(submission), encode(stored))] if stored.findings else []
    return [receipt_put(receipt), *own]


def own_findings(report: ScanReport) -> tuple[Finding, ...]:
    return tuple(finding for finding in report.findings if finding.rule in ABOUT_SKILL)


def about_content(report: ScanReport) -> ScanReport:
    if not own_findings(report):
        return report
    kept = tuple(finding for finding in report.findings if finding.rule not in ABOUT_SKILL)
    return msgspec.structs.replace(report, findings=kept).adding()


def read_receipt(doc: str) -> Receipt:
    packed = msgspec.json.decode(doc)["packed"]
    return _RECEIPT.decode(gzip.decompress(base64.b85decode(packed)))


async def find_receipt(submission: Submission) -> Receipt | None:
    """Of the scan that decided this submission."""
    if submission.content_hash is None or submission.rule_set is None:
        return None
    key = receipt_key(submission.content_hash, submission.rule_set, submission.unscanned)
    own = await _read(_own_receipt_key(submission)) if submission.has_own_receipt else None
    is_current = own is not None and own.rule_set == submission.rule_set  # else a rescan has replaced it
    receipt = own if is_current else await _read(key)
    return await with_own_findings(receipt, submission) if receipt and submission.has_own_findings else receipt


async def find_receipt_for(content_hash: str, rule_set: str, unscanned: str = "") -> Receipt | None:
    """What the scan found in exactly this content, without what is about one skill."""
    return await _read(receipt_key(content_hash, rule_set, unscanned))


async def find_version_receipt(version: SkillVersion) -> Receipt | None:
    """Of the scan of this content; None where it is not stored."""
    metadata = version.metadata
    if metadata is None or metadata.rule_set is None:
        return None
    return await find_receipt_for(version.content_hash, metadata.rule_set, metadata.unscanned)


async def with_own_findings(receipt: Receipt, submission: Submission) -> Receipt:
    keys = [_own_findings_key(submission), _rescan_findings_key(submission)]
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The findings about this skill could not be read.")
    stored = [_OWN.decode(read.found[key]) for key in keys if key in read.found]
    own = next((each for each in stored if each.content_hash == receipt.content_hash), None)
    if own is None:
        return receipt
    return msgspec.structs.replace(receipt, report=about_content(receipt.report).adding(own.findings))


def clearance_of(receipt: Receipt, by: str, why: str, at: datetime) -> Clearance:
    """Of everything that was found, and of nothing that a newer rule may find."""
    return Clearance(
        content_hash=receipt.content_hash,
        rules=frozenset(deciding_rules(receipt.report)),
        allows_incomplete=bool(receipt.report.incomplete),
        unscanned=receipt.unscanned,
        by=by,
        why=why,
        at=at,
    )


def clearance_put(name: str, clearance: Clearance) -> Put:
    return Put(clearance_key(name, clearance.content_hash), encode(clearance))


def read_clearance(doc: str) -> Clearance:
    return _CLEARANCE.decode(doc)


class _OwnFindings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    content_hash: str
    findings: tuple[Finding, ...]


def _own_findings_key(submission: Submission) -> Key:
    return Key(f"own-findings:{submission.id}", _run_part(submission))


def _own_receipt_key(submission: Submission) -> Key:
    return Key(f"own-receipt:{submission.id}", _run_part(submission))


def _rescan_findings_key(submission: Submission) -> Key:
    return Key(f"own-findings:{submission.id}", "rescan")


def _run_part(submission: Submission) -> str:
    return "." if submission.run_seq == 1 else f"{submission.run_seq:06d}"


async def _read(key: Key) -> Receipt | None:
    doc = await get_kv().get(key)
    return None if doc is None else read_receipt(doc)


_OWN = msgspec.json.Decoder(_OwnFindings)
_RECEIPT = msgspec.json.Decoder(Receipt)
_CLEARANCE = msgspec.json.Decoder(Clearance)
