"""What keeps the platform itself in order: counters, indexes, names, tokens. Every action is audited."""

from shared.access.audit import audit_put, reason_of
from shared.access.auth import Revocation, get_tokens, require_role, revocation_key, token_id
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, NotFound
from shared.marketplace.skill_store import migrate_skill_slugs
from shared.moderation.index_rebuild import RebuildProgress, rebuild_index
from shared.moderation.recount import Progress, apply_repairs, continue_recount
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Check, Put
from shared.storage.secret_store import AdminToken


async def recount(by: AdminToken, run_id: str | None = None) -> Progress:
    """As far as the time allows; go on with its run id while there is no result."""
    require_role(by, "reviewer")
    return await continue_recount(run_id)


async def repair_counters(by: AdminToken, why: str, run_id: str | None = None) -> Progress:
    """Sets right what a recount finds, once it is done. What was too busy for a verdict is left as it is."""
    require_role(by, "admin")
    reason = reason_of(why)
    progress = await continue_recount(run_id)
    if progress.recount is None:
        return progress
    drift = progress.recount.drift
    subject = ", ".join(f"{state} {-n:+d}" for state, n in drift.items()) or "nothing to set right"
    await apply_repairs(progress.recount, progress.repairs, [audit_put(by, "repair counters", subject, reason)])
    return progress


async def rebuild(by: AdminToken, why: str, after: str | None = None) -> RebuildProgress:
    """One page of everything that finds skills and submissions. Audited where it starts, not page by page."""
    require_role(by, "admin")
    reason = reason_of(why)
    if after is None:
        audit = audit_put(by, "rebuild index", "everything that finds skills and submissions", reason)
        await get_kv().transact(lambda: [audit])
    return await rebuild_index(after)


async def migrate_slugs(by: AdminToken, why: str) -> list[str]:
    """Skills under a bare slug of an older release get their full name. Which ones did."""
    require_role(by, "admin")
    audit = audit_put(by, "migrate skill slugs", "skills under a bare slug", reason_of(why))
    await get_kv().transact(lambda: [audit])
    return await migrate_skill_slugs()


async def revoke_token(wanted: str, by: AdminToken, why: str, even_mine: bool = False) -> Revocation:
    """Refused from this moment on, in sessions too. Somebody must stay who can undo things: never the last admin."""
    require_role(by, "admin")
    reason = reason_of(why)
    tokens = await get_tokens()
    found = [(token, revoked) for token, revoked in tokens if token_id(token) == wanted]
    if not found:
        raise NotFound("There is no such token.", code="token_not_found")
    token, revoked = found[0]
    if revoked:
        return revoked
    if token.sha256 == by.sha256 and not even_mine:
        raise Conflict("This is the token you ask with. Say `evenMine` if you mean it.", code="own_token")
    admins = [other for other, gone in tokens if other.role == "admin" and not gone and other.sha256 != token.sha256]
    if token.role == "admin" and not admins:
        raise Conflict("This is the last admin token. Add another one first.", code="last_admin")
    revocation = Revocation(at=now(), by=by.name, why=reason)
    put = Put(revocation_key(token.sha256), encode(revocation), expect=ABSENT)
    audit = audit_put(by, "revoke token", f"{token.name} ({token.role}, {token_id(token)})", reason)
    # Two admins who revoke each other at the same moment: the one whom this counts on must still be there.
    rely_on = [Check(revocation_key(admins[0].sha256), ABSENT)] if admins else []
    try:
        await get_kv().transact(lambda: [put, *rely_on, audit])
    except ConditionFailed as error:
        raise Conflict("The tokens changed at the same moment. Look again.", code="changed_meanwhile") from error
    return revocation
