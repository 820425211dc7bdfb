"""Maintenance of the platform itself: counters, indexes, names, tokens. Every change is audited."""

from collections.abc import Sequence

import msgspec

from shared.access.audit import audit_put, reason_of
from shared.access.auth import Revocation, get_tokens, require_role, revocation_key, token_id
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, NotFound
from shared.marketplace.skill_index import try_to_index
from shared.marketplace.skill_store import (
    alias_put,
    counts_put,
    find_skill,
    get_versions,
    new_counts,
    skill_key,
    skill_put,
    version_key,
    version_put,
    walk_skills,
)
from shared.moderation.artifact_backfill import BackfillProgress, build_artifacts
from shared.moderation.index_rebuild import WRITES_AT_ONCE, RebuildProgress, rebuild_index, write_in_chunks
from shared.moderation.recount import Progress, apply_repairs, continue_recount
from shared.records.skills import Skill, full_name
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Check, Delete, Put, Write
from shared.storage.secret_store import AdminToken
from shared.submissions.counters import count_skill
from shared.submissions.data_version import note_finished
from shared.telemetry import logger


async def recount(by: AdminToken, run_id: str | None = None) -> Progress:
    """As far as the time allows; continue with its run id while there is no result."""
    require_role(by, "reviewer")
    return await continue_recount(run_id)


async def repair_counters(by: AdminToken, why: str, run_id: str | None = None) -> Progress:
    """Repairs the drift that a finished recount found. Counters that were too busy to compare stay as they are."""
    require_role(by, "admin")
    reason = reason_of(why)
    progress = await continue_recount(run_id)
    if progress.recount is None:
        return progress
    drift = progress.recount.drift
    subject = ", ".join(f"{state} {-n:+d}" for state, n in drift.items()) or "nothing to repair"
    await apply_repairs(progress.recount, progress.repairs, [audit_put(by, "repair counters", subject, reason)])
    if not (progress.recount.unread or progress.recount.busy):
        await note_finished("recount")
    return progress


async def rebuild(by: AdminToken, why: str, after: str | None = None) -> RebuildProgress:
    """One page of the search indexes."""
    await _begin(by, "rebuild index", "the search indexes of skills and submissions", why, after)
    page = await rebuild_index(after)
    await _note_end("rebuild-index", page)
    return page


async def package_versions(by: AdminToken, why: str, after: str | None = None) -> BackfillProgress:
    """One page of what an older release published."""
    await _begin(by, "build artifacts", "versions of an older release", why, after)
    page = await build_artifacts(after)
    await _note_end("build-artifacts", page)
    return page


async def _note_end(job: str, page: RebuildProgress | BackfillProgress) -> None:
    if page.next_position is None and not page.failed:
        await note_finished(job)


async def migrate_slugs(by: AdminToken, why: str) -> list[str]:
    """Skills under a bare slug of an older release get their full name. Returns those names."""
    await _begin(by, "migrate skill slugs", "skills under a bare slug", why)
    return await migrate_skill_slugs()


async def migrate_skill_slugs() -> list[str]:
    """Skills that an older release stored under a bare slug get their full name; the slug still resolves to them."""
    renamed: list[str] = []
    async for page in walk_skills():
        old = [skill for skill in page.skills if skill.is_listed and "/" not in skill.name]
        renamed += [full_name(skill) for skill in old if await _rename(skill, full_name(skill))]
    return sorted(renamed)


async def revoke_token(wanted: str, by: AdminToken, why: str, even_mine: bool = False) -> Revocation:
    """Refused from now on, in sessions too. Never the last admin: an admin must remain to undo things."""
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
        raise Conflict("This is the token of this request. Send `evenMine` to revoke it anyway.", code="own_token")
    admins = [other for other, gone in tokens if other.role == "admin" and not gone and other.sha256 != token.sha256]
    if token.role == "admin" and not admins:
        raise Conflict("This is the last admin token. Add another one first.", code="last_admin")
    revocation = Revocation(at=now(), by=by.name, why=reason)
    put = Put(revocation_key(token.sha256), encode(revocation), expect=ABSENT)
    audit = audit_put(by, "revoke token", f"{token.name} ({token.role}, {token_id(token)})", reason)
    # Two admins may revoke each other at the same moment: another admin token must still be valid.
    remaining = [Check(revocation_key(admins[0].sha256), ABSENT)] if admins else []
    try:
        await get_kv().transact(lambda: [put, *remaining, audit])
    except ConditionFailed as error:
        raise Conflict("The tokens have just changed. Review them again.", code="changed_meanwhile") from error
    return revocation


async def _begin(by: AdminToken, action: str, subject: str, why: str, after: str | None = None) -> None:
    """Audited where it starts, not page by page."""
    require_role(by, "admin")
    audit = audit_put(by, action, subject, reason_of(why))
    if after is None:
        await get_kv().transact(lambda: [audit])


async def _rename(skill: Skill, name: str) -> bool:
    """In one transaction if it fits. More versions are copied first and deleted last: in between, and after a crash,
    the skill is under one name or the other with all its versions."""
    versions = await get_versions(skill.name)
    copies = [version_put(msgspec.structs.replace(version, name=name)) for version in versions]
    old_keys = [version_key(skill.name, version.version) for version in versions]
    leftovers = [Delete(key, {"pk": key.pk}) for key in old_keys]
    renamed = msgspec.structs.replace(skill, name=name, unindexed_since=now())
    writes: list[Write] = [
        skill_put(renamed, ABSENT),
        alias_put(name),
        counts_put(new_counts(renamed), expect=None),
        Delete(skill_key(skill.name), {"recordVersion": skill.record_version}),
        *count_skill(skill, renamed),
    ]
    try:
        if len(writes) + len(copies) + len(leftovers) <= WRITES_AT_ONCE:
            await get_kv().transact(lambda: [*writes, *copies, *leftovers])
        else:
            await _rename_in_steps(name, writes, copies, leftovers)
    except ConditionFailed:
        logger.warning("skill not renamed: it changed, or its full name is taken", extra={"skill": skill.name})
        return False
    await try_to_index(renamed)
    return True


async def _rename_in_steps(
    name: str, writes: Sequence[Write], copies: Sequence[Put], leftovers: Sequence[Delete]
) -> None:
    if await find_skill(name):
        raise ConditionFailed([0])
    await write_in_chunks([Put(copy.key, copy.doc) for copy in copies])  # unguarded: a crash may have left some
    await get_kv().transact(lambda: writes)
    await write_in_chunks(leftovers)
