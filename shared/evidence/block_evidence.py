"""What a block rested on: the findings that decided, or the files that a person named. Stored with the signature of the
blocked content, because a copy is as bad as the original only where it has that, too: the rest of a malicious skill may
be the text of an innocent one that it was cloned from."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.errors import InvalidRequest, Unavailable
from shared.evidence.receipt_store import ABOUT_SKILL, Receipt
from shared.scanner import ScanReport
from shared.storage.documents import encode
from shared.storage.kv import Key, Put

MAX_MARKS = 200  # as many findings as a report has


class BlockEvidence(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    submitted_at: datetime  # by our own clock: when the first scan of this content under its rules began
    findings: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()  # by sha256

    @property
    def marks(self) -> frozenset[str]:
        return self.findings | self.files


def evidence_of(
    receipt: Receipt, named: Collection[str] = (), had_before: Collection[str] = frozenset()
) -> BlockEvidence:
    """`named`: sha256 of the files a person named. Without any, the findings that decided, the worst kind only, but not
    those that the skill it is a copy of `had_before`: whoever else has these took them from there."""
    files = named_files(receipt, named)
    findings = frozenset() if files else frozenset(sorted(_deciding(receipt.report) - set(had_before))[:MAX_MARKS])
    return BlockEvidence(submitted_at=receipt.started_at, findings=findings, files=files)


def named_files(receipt: Receipt, named: Collection[str]) -> frozenset[str]:
    """Of this content, by path or by sha256."""
    files = receipt.report.receipt.files
    return frozenset(file.sha256 for file in files if file.path in named or file.sha256 in named)


def refuse_unknown_files(receipts: Iterable[Receipt], named: Collection[str]) -> None:
    known = {text for receipt in receipts for file in receipt.report.receipt.files for text in (file.path, file.sha256)}
    unknown = sorted(set(named) - known)
    if unknown:
        raise InvalidRequest(
            f"{unknown[0][:80]!r} is not a file of the scanned content. Name files by their path.", code="unknown_file"
        )


def marks_of(report: ScanReport) -> set[str]:
    """Everything in this content that a block could rest on."""
    return _marks(report, ("block", "review")) | {file.sha256 for file in report.receipt.files}


def evidence_put(content_hash: str, evidence: BlockEvidence) -> Put:
    return Put(_key(content_hash), encode(evidence))


async def read_evidence(content_hashes: Iterable[str]) -> Mapping[str, BlockEvidence]:
    """By content hash. What an older release blocked has none."""
    keys = {_key(content_hash): content_hash for content_hash in content_hashes}
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The evidence of blocks could not be read.")
    return {keys[key]: _EVIDENCE.decode(doc) for key, doc in read.found.items()}


_EVIDENCE = msgspec.json.Decoder(BlockEvidence)


def _key(content_hash: str) -> Key:
    return Key(f"near-evidence:{content_hash}")


def _deciding(report: ScanReport) -> set[str]:
    return _marks(report, ("block",)) or _marks(report, ("review",))


def _marks(report: ScanReport, actions: Collection[str]) -> set[str]:
    """A finding by its rule and its text, wherever in the skill it stands."""
    deciding = [one for one in report.findings if one.action in actions and one.rule not in ABOUT_SKILL]
    return {_mark(one.rule, one.excerpt) for one in deciding}


def _mark(rule: str, excerpt: str) -> str:
    text = f"{rule}\n{' '.join(excerpt.lower().split())}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
