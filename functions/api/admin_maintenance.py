"""Maintenance by operators: audit log, counters, indexes, names, tokens."""

import re

from functions.api.admin_schemas import (
    ArtifactsBuilt,
    AuditList,
    AuditQuery,
    Migrated,
    Rebuild,
    Rebuilt,
    RecountAnswer,
    Repair,
    RevokeToken,
    Token,
    TokenList,
    WithReason,
    recount_of,
)
from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.audit import get_audit_of
from shared.access.auth import Revocation, get_tokens, token_id
from shared.access.cursor import make_cursor, read_cursor
from shared.db import now
from shared.errors import InvalidRequest
from shared.moderation import maintenance
from shared.storage.secret_store import AdminToken


@operation("The audit log of a month, newest first", gives=AuditList, role="reviewer")
async def list_audit(request: Request, query: AuditQuery) -> Answer:
    """`month` like 2026-01; the current one by default."""
    month = query.month or f"{now():%Y-%m}"
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
        raise InvalidRequest("`month` must be a month like 2026-01.", code="invalid_month")
    before = await read_cursor(query.cursor, f"audit {month}")
    page = await get_audit_of(month, query.limit, before)
    return Answer(AuditList(month, page.entries, await make_cursor(page.next_position, f"audit {month}")))


@operation("Count the records and compare with the counters", gives=RecountAnswer, role="reviewer", refuses=(403, 409))
async def recount(request: Request, body: Repair, by: AdminToken) -> Answer:
    """Runs as long as the request may take: continue with `cursor` until it is null. With `repair` (admins, with a
    reason) the drift is subtracted from the counters at the end, even if they change meanwhile. 409 `recount_expired`
    after 40 idle minutes."""
    run_id = await read_cursor(body.cursor, "recount")
    if body.repair:
        progress = await maintenance.repair_counters(by, body.reason or "", run_id)
    else:
        progress = await maintenance.recount(by, run_id)
    return Answer(recount_of(progress, body.repair, await make_cursor(progress.run_id, "recount")))


@operation("Rebuild the indexes of skills and submissions", gives=Rebuilt, role="admin")
async def rebuild_index(request: Request, body: Rebuild, by: AdminToken) -> Answer:
    """One page; continue with `cursor` until it is null. Repeating a page is harmless. `missing` is the drift."""
    after = await read_cursor(body.cursor, "rebuild")
    page = await maintenance.rebuild(by, body.reason, after)
    return Answer(Rebuilt(page.checked, page.missing, page.failed, await make_cursor(page.next_position, "rebuild")))


@operation("Build the artifacts of versions that an older release published", gives=ArtifactsBuilt, role="admin")
async def build_artifacts(request: Request, body: Rebuild, by: AdminToken) -> Answer:
    """Runs as long as the request may take: continue with `cursor` until it is null. What is built is not built again,
    so it can be repeated for what `failed` names."""
    after = await read_cursor(body.cursor, "artifacts")
    page = await maintenance.package_versions(by, body.reason, after)
    cursor = await make_cursor(page.next_position, "artifacts")
    return Answer(ArtifactsBuilt(page.checked, page.built, page.failed, cursor))


@operation("Rename skills stored under a bare slug to their full name", gives=Migrated, role="admin")
async def migrate_skill_slugs(request: Request, body: WithReason, by: AdminToken) -> Answer:
    renamed = await maintenance.migrate_slugs(by, body.reason)
    return Answer(Migrated(renamed, len(renamed)))


@operation("Admin tokens, by name and role", gives=TokenList, role="reviewer")
async def list_tokens(request: Request, by: AdminToken) -> Answer:
    """`id` is a prefix of the token's hash: it identifies the token and grants nothing."""
    tokens = [_token(token, revoked, by) for token, revoked in await get_tokens()]
    return Answer(TokenList(tokens, len(tokens)))


@operation("Revoke a token, effective at once", gives=Token, role="admin", refuses=(404, 409))
async def revoke_token(request: Request, body: RevokeToken, by: AdminToken) -> Answer:
    """Its sessions end too. 409 `last_admin`, and 409 `own_token` for the token of this request unless `evenMine`."""
    await maintenance.revoke_token(request.path["id"], by, body.reason, body.even_mine)
    return Answer(next(_token(t, r, by) for t, r in await get_tokens() if token_id(t) == request.path["id"]))


def _token(token: AdminToken, revoked: Revocation | None, by: AdminToken) -> Token:
    return Token(
        id=token_id(token),
        name=token.name,
        role=token.role,
        is_yours=token.sha256 == by.sha256,
        revoked=revoked is not None,
        revoked_at=revoked.at if revoked else None,
        revoked_by=revoked.by if revoked else None,
    )


ROUTES = {
    "GET /api/v1/admin/audit": list_audit,
    "POST /api/v1/admin/recount": recount,
    "POST /api/v1/admin/rebuild-index": rebuild_index,
    "POST /api/v1/admin/build-artifacts": build_artifacts,
    "POST /api/v1/admin/migrate-skill-slugs": migrate_skill_slugs,
    "GET /api/v1/admin/tokens": list_tokens,
    "POST /api/v1/admin/tokens/{id}/revoke": revoke_token,
}
