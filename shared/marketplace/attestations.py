"""The signed receipt of a version: made once when it is published, from the scan's receipt, and stored by digest beside
its artifacts."""

import base64
import hashlib

from shared.access.receipt_signing import sign_receipt
from shared.db import get_content
from shared.errors import NotFound
from shared.evidence.receipt_store import Receipt
from shared.marketplace.artifacts import artifact_key, read_stored
from shared.records.skills import Artifact, SkillVersion
from shared.scanner.attestation import ReceiptClaims, attested_findings, envelope_of, payload_of, signed_bytes


async def store_attestation(version: SkillVersion, receipt: Receipt, repo_url: str | None, is_vendor: bool) -> str:
    """Its sha256; empty where this process has no key. Before the transaction that refers to it."""
    claims = _claims(version, receipt, repo_url, is_vendor)
    payload = payload_of(claims, {name: _digests(artifact) for name, artifact in version.artifacts.items()})
    signature = await sign_receipt(signed_bytes(payload))
    if signature is None:
        return ""
    body = envelope_of(payload, signature.keyid, signature.sig)
    sha256 = hashlib.sha256(body).hexdigest()
    await get_content().put_body(artifact_key(sha256), body)
    return sha256


async def read_attestation(version: SkillVersion) -> bytes:
    if not version.attestation:
        message = f"Version {version.version} of {version.name} has no signed receipt yet."
        raise NotFound(message, code="no_receipt")
    return await read_stored(version, "receipt", version.attestation)


def _digests(artifact: Artifact) -> dict[str, str]:
    """Every one that the record has: npm and Claude Code check the sha512."""
    if not artifact.integrity:
        return {"sha256": artifact.sha256}
    sha512 = base64.b64decode(artifact.integrity.removeprefix("sha512-")).hex()
    return {"sha256": artifact.sha256, "sha512": sha512, "sha1": artifact.shasum}


def _claims(version: SkillVersion, receipt: Receipt, repo_url: str | None, is_vendor: bool) -> ReceiptClaims:
    report = receipt.report
    is_certified = version.cert_tier == "CERTIFIED"
    return ReceiptClaims(
        skill=version.name,
        version=version.version,
        content_hash=version.content_hash,
        repo_url=repo_url,
        commit=version.commit,
        scanner_version=report.receipt.scanner_version,
        rule_set=receipt.rule_set,
        scanned_at=receipt.ended_at,
        verdict=report.verdict,
        score=report.score,
        judged=receipt.judgement.judged if receipt.judgement else "not_judged",
        approved_by=None if not is_certified else "vendor" if is_vendor else "reviewer",
        cert_tier=version.cert_tier,
        inconclusive=report.incomplete,
        findings=attested_findings(report.findings),
        findings_truncated=receipt.truncated,
        files=report.receipt.files,
    )
