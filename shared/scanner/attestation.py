"""The signed receipt of a version as a document: an in-toto statement in a DSSE envelope. Pure: without keys."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from shared.scanner.report import ScannedFile

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:vskill:receipt:v1"


class AttestedFinding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    rule: str
    title: str
    severity: str
    action: str
    certain: bool
    path: str
    line: int


class ReceiptClaims(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is signed about a version, beside the digests of its artifacts."""

    skill: str
    version: str
    content_hash: str
    repo_url: str | None
    commit: str | None
    scanner_version: str
    rule_set: str
    scanned_at: datetime
    verdict: str
    score: int | None
    judged: str
    approved_by: str | None  # `reviewer`: a person with that role; `vendor`: its owner is trusted
    cert_tier: str
    inconclusive: tuple[str, ...]  # what could not be read
    findings: tuple[AttestedFinding, ...]
    findings_truncated: bool
    files: tuple[ScannedFile, ...]


class Subject(msgspec.Struct, frozen=True):
    name: str
    digest: dict[str, str]


_NAMES = {"type_": "_type", "predicate_type": "predicateType"}


class Statement(msgspec.Struct, frozen=True, kw_only=True, rename=_NAMES):
    type_: str = STATEMENT_TYPE
    subject: Sequence[Subject]
    predicate_type: str = PREDICATE_TYPE
    predicate: ReceiptClaims


class EnvelopeSignature(msgspec.Struct, frozen=True):
    keyid: str
    sig: str  # base64


class Envelope(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    payload_type: str
    payload: str  # base64
    signatures: list[EnvelopeSignature]

    @property
    def statement(self) -> bytes:
        return base64.b64decode(self.payload, validate=True)


def payload_of(claims: ReceiptClaims, digests: Mapping[str, dict[str, str]]) -> bytes:
    """`digests`: of each packaging, in hexadecimal by algorithm."""
    title = f"{claims.skill}@{claims.version}"
    subjects = [Subject(f"{title}.{name}", digests[name]) for name in sorted(digests)]
    return msgspec.json.encode(Statement(subject=subjects, predicate=claims))


def signed_bytes(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The pre-authentication encoding of DSSE: type and payload cannot be taken for each other."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


def envelope_of(payload: bytes, keyid: str, sig: bytes) -> bytes:
    signature = EnvelopeSignature(keyid, base64.b64encode(sig).decode())
    encoded = base64.b64encode(payload).decode()
    return msgspec.json.encode(Envelope(payload_type=PAYLOAD_TYPE, payload=encoded, signatures=[signature]))


def read_envelope(body: bytes) -> Envelope:
    return msgspec.json.decode(body, type=Envelope)


def read_statement(payload: bytes) -> Statement:
    statement = msgspec.json.decode(payload, type=Statement)
    if (statement.type_, statement.predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise msgspec.ValidationError("it is another kind of statement")
    return statement


def attested_findings(findings: Sequence[Any]) -> tuple[AttestedFinding, ...]:
    """Without excerpts: what a blocked skill says is not served."""
    fields = AttestedFinding.__struct_fields__
    return tuple(AttestedFinding(**{name: getattr(finding, name) for name in fields}) for finding in findings)
