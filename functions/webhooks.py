"""Scanners elsewhere: they claim work, read its files and report what they found. Every request is signed."""

from typing import Annotated, Any

import msgspec

from functions.http import Answer, Request, http_handler
from shared.errors import Forbidden, InvalidRequest
from shared.external_scan_dispatch import claim_scan, get_claimed_files
from shared.external_scan_results import report_result
from shared.external_scans import ExternalScan, Outcome, problem_of
from shared.webhook_auth import authenticate

CLAIM = "POST /api/v1/internal/scans/claim"
FILES = "POST /api/v1/internal/scans/files"
RESULTS = "POST /api/v1/webhooks/scan-results"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Nonce = Annotated[str, msgspec.Meta(min_length=8, max_length=128)]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    nonce: Nonce  # makes two requests of one second different: the same one is refused


class FilesBody(ClaimBody, frozen=True, kw_only=True):
    skill_name: Name
    claim_id: Name
    after: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class ResultBody(Outcome, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nonce: Nonce
    provider: Name
    skill_name: Name
    claim_id: Name
    content_hash: Name


async def claim(request: Request) -> Answer:
    provider = await authenticate(CLAIM, request.headers, request.body)
    request.allow_query()
    request.json(ClaimBody)
    scan = await claim_scan(provider)
    return Answer({"claim": None if scan is None else _claim(scan)})


async def files(request: Request) -> Answer:
    provider = await authenticate(FILES, request.headers, request.body)
    request.allow_query()
    body = request.json(FilesBody)
    page = await get_claimed_files(provider, body.skill_name, body.claim_id, body.after)
    return Answer({"files": page.files, "nextAfter": page.next_after})


async def scan_results(request: Request) -> Answer:
    provider = await authenticate(RESULTS, request.headers, request.body)
    request.allow_query()
    body = request.json(ResultBody)
    if body.provider != provider:
        raise Forbidden("A scanner reports in its own name only.", code="wrong_provider")
    outcome = _outcome(body)
    if problem := problem_of(outcome):
        raise InvalidRequest(problem, code="invalid_body")
    scan = await report_result(provider, body.skill_name, body.claim_id, body.content_hash, outcome)
    return Answer({"ok": True, "skillName": scan.skill_name, "status": outcome.status})


ROUTES = {CLAIM: claim, FILES: files, RESULTS: scan_results}
handler = http_handler(ROUTES)


def _claim(scan: ExternalScan) -> dict[str, Any]:
    return {
        "claimId": scan.claim_id,
        "provider": scan.provider,
        "skillName": scan.skill_name,
        "contentHash": scan.content_hash,
        "leaseUntil": scan.lease_until,
        "filesPath": FILES.partition(" ")[2],
    }


def _outcome(body: ResultBody) -> Outcome:
    return Outcome(**{name: getattr(body, name) for name in Outcome.__struct_fields__})
