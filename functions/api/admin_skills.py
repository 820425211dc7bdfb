"""What operators do with the marketplace: the blocklist, published skills, readers' reports."""

from collections.abc import Awaitable, Callable

from functions.api.admin_schemas import (
    AdminSkill,
    Because,
    BlockScope,
    EntryAdded,
    EntryRemoved,
    NewEntry,
    OfVersion,
    ReportList,
    ReportQuery,
    ReportRow,
    report_of,
    skill_of,
)
from functions.api.blocklist import entry_of
from functions.http.answer import Answer
from functions.http.operations import Operation, operation
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.db import now
from shared.evidence.blocklist import BlockEntry
from shared.marketplace.community import list_reports
from shared.moderation import skill_decisions, submission_decisions
from shared.records.skills import Skill
from shared.storage.secret_store import AdminToken
from shared.verification.rescan import Rescanned, RescanReport


@operation("Add to the blocklist, or sharpen an entry", gives=EntryAdded, role="admin", refuses=(409,))
async def add_entry(request: Request, body: NewEntry, by: AdminToken) -> Answer:
    """Published skills that it names are out of the marketplace at once (`takenOut`); `failed` names those that could
    not be taken out or looked at: ask again. Severity only rises."""
    name, source, content_hash = _scope(body)
    entry = BlockEntry(
        skill_name=name,
        source_url=source,
        content_hash=content_hash,
        threat_type=body.threat_type,
        severity=body.severity,
        reason=" ".join(body.reason.split()),
        evidence_urls=tuple(body.evidence_urls),
        discovered_at=now(),
    )
    added = await skill_decisions.add_to_blocklist(entry, by, body.reason)
    return Answer(EntryAdded(entry_of(added.entry), added.taken_out, added.failed))


@operation("Remove from the blocklist", gives=EntryRemoved, role="admin", refuses=(404, 409))
async def remove_entry(request: Request, body: BlockScope, by: AdminToken) -> Answer:
    """Named as it was added. Skills that it took out stay out (`stillBlocked`) until their block is lifted;
    `failed` names those that could not be looked at."""
    name, source, content_hash = _scope(body)
    named = BlockEntry(
        skill_name=name, source_url=source, content_hash=content_hash, reason=body.reason, discovered_at=now()
    )
    removed = await skill_decisions.remove_from_blocklist(named.id, by, body.reason)
    return Answer(EntryRemoved(entry_of(removed.entry), removed.still_blocked, removed.failed))


def _scope(body: BlockScope) -> tuple[str, str | None, str | None]:
    return skill_decisions.scoped(body.skill_name, body.source_url, body.content_hash, body.everywhere)


def _about_skill(summary: str, decide: Callable[[str, AdminToken, str], Awaitable[Skill]], details: str) -> Operation:
    async def run(request: Request, body: Because, by: AdminToken) -> Answer:
        return Answer(skill_of(await decide(skill_named(request), by, body.reason)))

    run.__doc__ = details
    return operation(summary, gives=AdminSkill, role="admin", refuses=(404, 409))(run)


def skill_named(request: Request) -> str:
    return "/".join(request.path[part] for part in ("owner", "repo", "skill"))


block_skill = _about_skill(
    "Take a skill out of the marketplace",
    skill_decisions.block_skill,
    "Its submission is blocked with it, its name and content are on the blocklist, copies are caught.",
)
unblock_skill = _about_skill(
    "Put a blocked skill back",
    skill_decisions.unblock_skill,
    "Its submission is published again, and the entries that its block made are gone. 409 `blocklisted` while another"
    " one names it, like one that a person made. What newer rules found is cleared for this content and these rules.",
)
delete_skill = _about_skill(
    "Delete a skill for good",
    skill_decisions.delete_skill,
    "A tombstone: nothing of it is served any more, and its name is never used again.",
)


def _about_version(
    summary: str, decide: Callable[[str, str, AdminToken, str], Awaitable[Skill]], details: str
) -> Operation:
    async def run(request: Request, body: OfVersion, by: AdminToken) -> Answer:
        return Answer(skill_of(await decide(skill_named(request), body.version, by, body.reason)))

    run.__doc__ = details
    return operation(summary, gives=AdminSkill, role="admin", refuses=(404, 409))(run)


yank = _about_version(
    "Yank a version",
    skill_decisions.yank,
    "It stays to be seen, marked; the newest version that is not yanked is the current one.",
)
unyank = _about_version("Take back a yank", skill_decisions.unyank, "409 `nothing_to_change` when it is not yanked.")


@operation("Scan a published skill again, under the rules of today", gives=Rescanned, role="admin", refuses=(404, 409))
async def rescan_skill(request: Request, body: Because, by: AdminToken) -> Answer:
    """From the stored files. Only a worse verdict takes it out of the marketplace."""
    return Answer(await submission_decisions.rescan_skill(skill_named(request), by, body.reason))


@operation("Scan everything again that was published under older rules", gives=RescanReport, role="admin")
async def rescan_all(request: Request, body: Because, by: AdminToken) -> Answer:
    """What the daily schedule does, as far as there is time now; `more` tells whether something is left."""
    return Answer(await submission_decisions.rescan_all(by, body.reason))


@operation("What readers reported, newest first", gives=ReportList, role="reviewer")
async def get_reports(request: Request, query: ReportQuery) -> Answer:
    filter_ = f"reports {query.state}"
    page = await list_reports(query.limit, await read_cursor(query.cursor, filter_), query.state == "open")
    cursor = await make_cursor(page.next_position, filter_)
    return Answer(ReportList([report_of(report) for report in page.reports], cursor, page.failed))


@operation("Settle a report", gives=ReportRow, role="admin", refuses=(404, 409))
async def settle_report(request: Request, body: Because, by: AdminToken) -> Answer:
    """`reason` says what came of it. 409 `already_settled` when somebody was faster."""
    return Answer(report_of(await skill_decisions.settle_report(request.path["id"], by, body.reason)))


SKILL = "/api/v1/admin/skills/{owner}/{repo}/{skill}"
ROUTES = {
    "POST /api/v1/admin/blocklist": add_entry,
    "POST /api/v1/admin/blocklist/remove": remove_entry,
    "POST /api/v1/admin/skills/rescan": rescan_all,
    f"POST {SKILL}/block": block_skill,
    f"POST {SKILL}/unblock": unblock_skill,
    f"POST {SKILL}/yank": yank,
    f"POST {SKILL}/unyank": unyank,
    f"POST {SKILL}/rescan": rescan_skill,
    f"POST {SKILL}/delete": delete_skill,
    "GET /api/v1/admin/reports": get_reports,
    "POST /api/v1/admin/reports/{id}/settle": settle_report,
}
