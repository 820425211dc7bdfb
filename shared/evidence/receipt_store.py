"""Evidence at rest: the results of the scan and the judge for exactly this content, and what a person cleared. It never
expires."""

import base64
import gzip
from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.evidence.judge import Judgement
from shared.records.submissions import Submission
from shared.scanner import ScanReport
from shared.storage.documents import encode
from shared.storage.kv import Key, Put

MAX_FINDINGS = 1000


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
    """A person's approval, for exactly this content and these rules."""

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


def clearance_key(content_hash: str) -> Key:
    return Key(f"clearance:{content_hash}")


def deciding_rules(report: ScanReport) -> set[str]:
    return {finding.rule for finding in report.findings if finding.action in ("block", "review")}


def receipt_put(receipt: Receipt) -> Put:
    """Packed: a thousand findings must fit one item with everything else."""
    findings = receipt.report.findings
    kept = msgspec.structs.replace(receipt.report, findings=findings[:MAX_FINDINGS])
    stored = msgspec.structs.replace(receipt, report=kept, truncated=len(findings) > MAX_FINDINGS)
    packed = base64.b85encode(gzip.compress(msgspec.json.encode(stored), mtime=0)).decode()
    return Put(receipt_key(receipt.content_hash, receipt.rule_set, receipt.unscanned), encode({"packed": packed}))


def read_receipt(doc: str) -> Receipt:
    packed = msgspec.json.decode(doc)["packed"]
    return _RECEIPT.decode(gzip.decompress(base64.b85decode(packed)))


async def find_receipt(submission: Submission) -> Receipt | None:
    """Of the scan that decided this submission."""
    if submission.content_hash is None or submission.rule_set is None:
        return None
    doc = await get_kv().get(receipt_key(submission.content_hash, submission.rule_set, submission.unscanned))
    return None if doc is None else read_receipt(doc)


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


def clearance_put(clearance: Clearance) -> Put:
    return Put(clearance_key(clearance.content_hash), encode(clearance))


def read_clearance(doc: str) -> Clearance:
    return _CLEARANCE.decode(doc)


_RECEIPT = msgspec.json.Decoder(Receipt)
_CLEARANCE = msgspec.json.Decoder(Clearance)
