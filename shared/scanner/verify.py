"""python -m shared.scanner verify ARTIFACT RECEIPT --keys FILE [--rescan]: an artifact against its signed receipt,
without a network."""

import argparse
import base64
import binascii
import gzip
import hashlib
import io
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from shared.scanner.attestation import (
    AttestedFinding,
    Envelope,
    ReceiptClaims,
    Statement,
    read_envelope,
    read_statement,
    signed_bytes,
)
from shared.scanner.inventory import MAX_FILES, MAX_SKILL
from shared.scanner.report import Action, Finding, ScanReport, Severity

VERIFIED, NOT_SIGNED, OTHER_BYTES, OTHER_VERDICT, OTHER_RULES, USAGE_ERROR = 0, 1, 2, 3, 4, 64
EPILOG = (
    "exit code: 0 verified, 1 the receipt is not signed by one of the keys, 2 the receipt is about other bytes,"
    " 3 the rescan has another verdict, 4 this scanner has other rules than the receipt, 64 usage error"
)
# About a skill among others, or about its repository: no artifact shows them.
NOT_IN_FILES = (
    *("KNOWN-NEAR-DUPLICATE", "KNOWN-SHARED-TEXT", "KNOWN-CLONE", "NAME-LOOK-ALIKE"),
    *("FILE-SYMLINK", "FILE-UNSAFE-PATH"),
)


class VerificationError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _ListedKey(msgspec.Struct):
    keyid: str
    algorithm: str
    public_key: str = msgspec.field(name="publicKey")


class _Keys(msgspec.Struct):
    keys: list[_ListedKey]


class VerifyParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Not argparse's 2, which says here that the bytes are others."""
        self.exit(USAGE_ERROR, f"scanner: {message}. Try --help.\n")


def main(arguments: list[str]) -> int:
    parser = VerifyParser(prog="python -m shared.scanner verify", epilog=EPILOG)
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="the .zip, .tar.gz or npm .tgz")
    parser.add_argument("receipt", type=Path, metavar="RECEIPT", help="the signed receipt of its version")
    parser.add_argument("--keys", type=Path, required=True, help="a saved /.well-known/vskill-keys.json")
    parser.add_argument("--rescan", action="store_true", help="scan the files again and compare the verdicts")
    options = parser.parse_args(arguments)
    try:
        body = options.artifact.read_bytes()
        claims = verify(body, options.receipt.read_bytes(), options.keys.read_bytes())
        print(f"verified: {claims.skill} {claims.version}, {claims.verdict}, rule set {claims.rule_set}")
        if options.rescan:
            print(f"rescanned: {rescan(body, claims).verdict}")
    except VerificationError as error:
        print(f"scanner: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"scanner: cannot read {error.filename}: {error.strerror}.", file=sys.stderr)
        return USAGE_ERROR
    return VERIFIED


def verify(artifact: bytes, receipt: bytes, keys: bytes) -> ReceiptClaims:
    statement = _signed_statement(receipt, keys)
    digest = hashlib.sha256(artifact).hexdigest()
    if digest not in {subject.digest.get("sha256") for subject in statement.subject}:
        raise VerificationError(OTHER_BYTES, f"the receipt is about other bytes: the artifact has the sha256 {digest}.")
    return statement.predicate


def rescan(artifact: bytes, claims: ReceiptClaims) -> ScanReport:
    """With the receipt's rules the verdict must be the same."""
    from shared.scanner.pack import rule_set_version
    from shared.scanner.scan import scan_skill

    files = unpack_artifact(artifact)
    wanted = {file.path: file.sha256 for file in claims.files}
    if {path: hashlib.sha256(content).hexdigest() for path, content in files.items()} != wanted:
        raise VerificationError(OTHER_BYTES, "the files of the artifact are not those of the receipt.")
    scanned = scan_skill(files)
    extra = [_finding(finding) for finding in claims.findings if finding.rule in NOT_IN_FILES]
    report = scanned.adding(extra, [why for why in claims.inconclusive if why not in scanned.incomplete])
    if rule_set_version() != claims.rule_set:
        raise VerificationError(
            OTHER_RULES,
            f"this scanner has the rule set {rule_set_version()}, the receipt {claims.rule_set}: {report.verdict} now,"
            f" {claims.verdict} then.",
        )
    if report.verdict != claims.verdict:
        raise VerificationError(OTHER_VERDICT, f"the rescan says {report.verdict}, the receipt {claims.verdict}.")
    return report


def unpack_artifact(body: bytes) -> dict[str, bytes]:
    """In memory, the skill's files alone. No more than a skill may have: nothing else was published."""
    try:
        files = _unzipped(body) if body.startswith(b"PK") else _untarred(body)
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, ValueError) as error:
        raise VerificationError(OTHER_BYTES, f"the artifact cannot be unpacked: {error}.") from error
    if "package/package.json" not in files or "SKILL.md" in files:
        return files
    skill = {path: content for path, content in files.items() if path.startswith("package/skills/")}
    return {path.split("/", 3)[3]: content for path, content in skill.items()}


def _signed_statement(receipt: bytes, keys: bytes) -> Statement:
    try:
        envelope = read_envelope(receipt)
        if not any(_is_signed(envelope, *pair) for pair in _known(envelope, keys)):
            raise VerificationError(NOT_SIGNED, "the receipt is not signed by one of these keys.")
        return read_statement(envelope.statement)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise VerificationError(NOT_SIGNED, f"the receipt or the keys cannot be read: {error}.") from error


def _known(envelope: Envelope, keys: bytes) -> list[tuple[bytes, bytes]]:
    """Signatures with the public key that each names."""
    listed = msgspec.json.decode(keys, type=_Keys).keys
    public = {key.keyid: base64.b64decode(key.public_key) for key in listed if key.algorithm == "ed25519"}
    return [
        (base64.b64decode(signature.sig), public[signature.keyid])
        for signature in envelope.signatures
        if signature.keyid in public
    ]


def _is_signed(envelope: Envelope, sig: bytes, public: bytes) -> bool:
    try:  # an extra of the wheel: only this command needs it
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        message = "this needs the package cryptography: pip install 'vskill-scanner[verify]'."
        raise VerificationError(USAGE_ERROR, message) from error
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(sig, signed_bytes(envelope.statement, envelope.payload_type))
    except InvalidSignature:
        return False
    return True


def _finding(attested: AttestedFinding) -> Finding:
    return Finding(
        rule=attested.rule,
        title=attested.title,
        category="",
        severity=Severity(attested.severity),
        action=Action(attested.action),
        certain=attested.certain,
        path=attested.path,
        line=attested.line,
        column=1,
        excerpt="",
        context="",
        why="",
        fix="",
    )


def _unzipped(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        _refuse_large([member.file_size for member in archive.infolist()])
        return {name: archive.read(name) for name in archive.namelist()}


def _untarred(body: bytes) -> dict[str, bytes]:
    with gzip.open(io.BytesIO(body)) as packed:
        raw = packed.read(2 * MAX_SKILL + 1)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = [member for member in archive if member.isfile()]
        _refuse_large([member.size for member in members])
        return {member.name: _content(archive, member) for member in members}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    body = archive.extractfile(member)
    return body.read() if body else b""


def _refuse_large(sizes: Sequence[int]) -> None:
    if len(sizes) > MAX_FILES + 2 or sum(sizes) > 2 * MAX_SKILL:
        raise ValueError("it is larger than a skill may be")
