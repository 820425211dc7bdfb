"""External scanners claim work, read its files and report findings. Every request is signed."""

from datetime import datetime
from typing import Annotated

import msgspec

from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.errors import Forbidden, InvalidRequest
from shared.marketplace.external_scan_dispatch import ScanFile, claim_scan, get_claimed_files
from shared.records.external_scans import ExternalOutcome, ExternalScan, problem_of
from shared.verification.external_scan_results import report_result

CLAIM = "POST /api/v1/internal/scans/claim"
FILES = "POST /api/v1/internal/scans/files"
RESULTS = "POST /api/v1/webhooks/scan-results"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Nonce = Annotated[str, msgspec.Meta(min_length=8, max_length=128)]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    nonce: Nonce  # distinguishes two requests of the same second; a repeated request is refused


class FilesBody(ClaimBody, frozen=True, kw_only=True):
    skill_name: Name
    claim_id: Name
    after: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class ResultBody(ExternalOutcome, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nonce: Nonce
    provider: Name
    skill_name: Name
    claim_id: Name
    content_hash: Name


class Claim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    claim_id: str | None
    provider: str
    skill_name: str
    content_hash: str
    lease_until: datetime | None
    files_path: str


class ClaimAnswer(msgspec.Struct, frozen=True):
    claim: Annotated[Claim | None, msgspec.Meta(description="Null if no scan is waiting.")]


class FilesAnswer(msgspec.Struct, frozen=True, rename="camel"):
    files: list[ScanFile]
    next_after: Annotated[
        str | None, msgspec.Meta(description="Send it as `after` for the next page; null on the last one.")
    ]


class ResultAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ok: bool
    skill_name: str
    status: str


@operation("Claim the oldest waiting scan", gives=ClaimAnswer, signed=CLAIM)
async def claim(request: Request, provider: str, body: ClaimBody) -> Answer:
    """The claim lasts 15 minutes; after that the scan can be claimed again."""
    scan = await claim_scan(provider)
    return Answer(ClaimAnswer(None if scan is None else _claim(scan)))


@operation("The files of a claimed scan, page by page", gives=FilesAnswer, signed=FILES, refuses=(404, 409))
async def files(request: Request, provider: str, body: FilesBody) -> Answer:
    page = await get_claimed_files(provider, body.skill_name, body.claim_id, body.after)
    return Answer(FilesAnswer(page.files, page.next_after))


@operation("Report the result of a claimed scan", gives=ResultAnswer, signed=RESULTS, refuses=(403, 404, 409))
async def scan_results(request: Request, provider: str, body: ResultBody) -> Answer:
    """A critical finding blocks the skill at once. Repeating a report has no further effect."""
    if body.provider != provider:
        raise Forbidden("A scanner may report only under its own name.", code="wrong_provider")
    outcome = _outcome(body)
    if problem := problem_of(outcome):
        raise InvalidRequest(problem, code="invalid_body")
    scan = await report_result(provider, body.skill_name, body.claim_id, body.content_hash, outcome)
    return Answer(ResultAnswer(ok=True, skill_name=scan.skill_name, status=outcome.status))


ROUTES = {CLAIM: claim, FILES: files, RESULTS: scan_results}


def _claim(scan: ExternalScan) -> Claim:
    return Claim(
        claim_id=scan.claim_id,
        provider=scan.provider,
        skill_name=scan.skill_name,
        content_hash=scan.content_hash,
        lease_until=scan.lease_until,
        files_path=FILES.partition(" ")[2],
    )


def _outcome(body: ResultBody) -> ExternalOutcome:
    return ExternalOutcome(**{name: getattr(body, name) for name in ExternalOutcome.__struct_fields__})
