"""Moderation of the marketplace: the blocklist, published skills, reader reports."""

from collections.abc import Awaitable, Callable

from functions.api.admin_schemas import (
    AdminSkill,
    BlockScope,
    BlockSkill,
    EntryAdded,
    EntryRemoved,
    NewEntry,
    ReportList,
    ReportQuery,
    ReportRow,
    VersionAction,
    WithReason,
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


@operation("Add to the blocklist, or raise the severity of an entry", gives=EntryAdded, role="admin", refuses=(409,))
async def add_entry(request: Request, body: NewEntry, by: AdminToken) -> Answer:
    """Published skills that match are removed from the marketplace at once (`takenOut`); `failed` lists those that
    could not be checked or removed: send the request again. Severity is never lowered."""
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
    """Name it as it was added. Skills it removed from the marketplace stay blocked (`stillBlocked`) until each is
    unblocked; `failed` lists those that could not be checked."""
    name, source, content_hash = _scope(body)
    named = BlockEntry(
        skill_name=name, source_url=source, content_hash=content_hash, reason=body.reason, discovered_at=now()
    )
    removed = await skill_decisions.remove_from_blocklist(named.id, by, body.reason)
    return Answer(EntryRemoved(entry_of(removed.entry), removed.still_blocked, removed.failed))


def _scope(body: BlockScope) -> tuple[str, str | None, str | None]:
    return skill_decisions.scoped(body.skill_name, body.source_url, body.content_hash, body.everywhere)


def _about_skill(summary: str, decide: Callable[[str, AdminToken, str], Awaitable[Skill]], details: str) -> Operation:
    async def run(request: Request, body: WithReason, by: AdminToken) -> Answer:
        return Answer(skill_of(await decide(name_in(request), by, body.reason)))

    return _on_skill(summary, run, details)


def _on_skill(summary: str, run: Callable[..., Awaitable[Answer]], details: str) -> Operation:
    run.__doc__ = details
    return operation(summary, gives=AdminSkill, role="admin", refuses=(404, 409))(run)


def name_in(request: Request) -> str:
    return "/".join(request.path[part] for part in ("owner", "repo", "skill"))


@operation("Block a published skill", gives=AdminSkill, role="admin", refuses=(404, 409))
async def block_skill(request: Request, body: BlockSkill, by: AdminToken) -> Answer:
    """Removes it from the marketplace, blocks its submission, and adds its name and content to the blocklist. Content
    that another skill published here first stays allowed: block that skill too if the content itself is harmful.
    `files` are the paths of the files that the block rests on: a near copy with one of them is refused, and one without
    it gets a review."""
    return Answer(skill_of(await skill_decisions.block_skill(name_in(request), by, body.reason, body.files)))


unblock_skill = _about_skill(
    "Unblock a skill",
    skill_decisions.unblock_skill,
    "Publishes its submission again and removes the entries that its block added. 409 `blocklisted` while another entry"
    " matches it, such as one added by a person. Findings of newer rules are cleared for this content and rule set.",
)
delete_skill = _about_skill(
    "Delete a skill permanently",
    skill_decisions.delete_skill,
    "Leaves a tombstone: nothing of it is served any more, and its name is never reused.",
)


def _about_version(
    summary: str, decide: Callable[[str, str, AdminToken, str], Awaitable[Skill]], details: str
) -> Operation:
    async def run(request: Request, body: VersionAction, by: AdminToken) -> Answer:
        return Answer(skill_of(await decide(name_in(request), body.version, by, body.reason)))

    return _on_skill(summary, run, details)


yank = _about_version(
    "Yank a version",
    skill_decisions.yank,
    "It stays visible, marked as yanked; the newest version that is not yanked becomes the current one.",
)
unyank = _about_version("Undo a yank", skill_decisions.unyank, "409 `nothing_to_change` if it is not yanked.")


@operation("Rescan a published skill under the current rules", gives=Rescanned, role="admin", refuses=(404, 409))
async def rescan_skill(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """Scans the stored files. Only a worse verdict removes it from the marketplace."""
    return Answer(await submission_decisions.rescan_skill(name_in(request), by, body.reason))


@operation("Rescan everything published under older rules", gives=RescanReport, role="admin")
async def rescan_all(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """Continues the round of the schedule, or begins one, as far as time allows; `more`: something is left."""
    return Answer(await submission_decisions.rescan_all(by, body.reason))


@operation("Reader reports, newest first", gives=ReportList, role="reviewer")
async def get_reports(request: Request, query: ReportQuery) -> Answer:
    filter_ = f"reports {query.state}"
    page = await list_reports(query.limit, await read_cursor(query.cursor, filter_), query.state == "open")
    cursor = await make_cursor(page.next_position, filter_)
    return Answer(ReportList([report_of(report) for report in page.reports], cursor, page.failed))


@operation("Confirm a report", gives=ReportRow, role="reviewer", refuses=(404, 409))
async def confirm_report(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """It lowers the trust score until it is resolved. Before, it changes no score: anyone can send a report."""
    return Answer(report_of(await skill_decisions.confirm_report(request.path["id"], by, body.reason)))


@operation("Resolve a report", gives=ReportRow, role="admin", refuses=(404, 409))
async def resolve_report(request: Request, body: WithReason, by: AdminToken) -> Answer:
    """`reason` is the resolution. 409 `already_settled` if it is already resolved."""
    return Answer(report_of(await skill_decisions.resolve_report(request.path["id"], by, body.reason)))


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
    "POST /api/v1/admin/reports/{id}/confirm": confirm_report,
    "POST /api/v1/admin/reports/{id}/settle": resolve_report,
}
