"""What owners do with their submissions and skills. Every action requires a reason and leaves an audit entry."""

from collections.abc import Awaitable, Callable

from functions.api.admin_skills import name_in
from functions.api.owner_schemas import (
    DeprecateBody,
    OwnedQuery,
    OwnedSkill,
    OwnedSubmission,
    OwnedSubmissions,
    OwnerReason,
    TransferBody,
    VersionOrSkill,
    owned_skill_of,
)
from functions.api.submission_schemas import SubmissionId
from functions.http.answer import Answer
from functions.http.operations import Operation, operation
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.access.owners import identify_owner
from shared.marketplace.owned import list_owned
from shared.moderation import owner_decisions
from shared.records.owners import Owner
from shared.records.skills import Skill
from shared.records.submissions import Submission, SubmissionRow, row_of
from shared.verification.rescan import Rescanned


@operation("List the submissions of your repository with their skills", gives=OwnedSubmissions, owned=True)
async def list_mine(request: Request, owner: Owner, query: OwnedQuery) -> Answer:
    """Ordered by path."""
    filter_ = f"owned by {owner.repo}"
    page = await list_owned(owner, query.limit, await read_cursor(query.cursor, filter_))
    rows = [OwnedSubmission(each.submission, owned_skill_of(each.skill) if each.skill else None) for each in page.owned]
    return Answer(OwnedSubmissions(owner.repo, rows, await make_cursor(page.next_position, filter_), page.failed))


def _on_submission(
    summary: str, decide: Callable[[Request, Owner, str], Awaitable[Submission]], details: str
) -> Operation:
    async def run(request: Request, owner: Owner, body: OwnerReason) -> Answer:
        return Answer(row_of(await decide(request, owner, body.reason)))

    run.__doc__ = details
    path = {"id": SubmissionId}
    return operation(summary, gives=SubmissionRow, owned=True, refuses=(404, 409), path=path)(run)


cancel = _on_submission(
    "Cancel a waiting submission",
    lambda request, owner, why: owner_decisions.cancel(request.path["id"], owner, why),
    "Only while it is RECEIVED; it becomes DEQUEUED. 409 `illegal_move` once a worker has it.",
)
reopen = _on_submission(
    "Reopen a cancelled submission",
    lambda request, owner, why: owner_decisions.reopen_cancelled(request.path["id"], owner, why, request.source_ip),
    "Only what an owner cancelled; what an operator took out of the queue stays there. Counts like a submission.",
)


def _on_skill(summary: str, run: Callable[..., Awaitable[Answer]]) -> Operation:
    return operation(summary, gives=OwnedSkill, owned=True, refuses=(404, 409))(run)


def _on_version(
    summary: str, decide: Callable[[str, Owner, str, str | None], Awaitable[Skill]], details: str
) -> Operation:
    async def run(request: Request, owner: Owner, body: VersionOrSkill) -> Answer:
        return Answer(owned_skill_of(await decide(name_in(request), owner, body.reason, body.version)))

    run.__doc__ = details
    return _on_skill(summary, run)


withdraw = _on_version(
    "Withdraw a skill, or one version of it",
    owner_decisions.withdraw,
    "It stays visible with your reason, but no client can install it any more. Withdrawing a version is a yank: the"
    " newest version that is left becomes the current one.",
)
restore = _on_version(
    "Undo a withdrawal", owner_decisions.restore, "409 `yanked_by_operator` for a version that an operator yanked."
)


async def _deprecate(request: Request, owner: Owner, body: DeprecateBody) -> Answer:
    """It can still be installed; clients and pages show the sentence and the successor."""
    skill = await owner_decisions.deprecate(name_in(request), owner, body.sentence, body.successor)
    return Answer(owned_skill_of(skill))


async def _undeprecate(request: Request, owner: Owner, body: OwnerReason) -> Answer:
    return Answer(owned_skill_of(await owner_decisions.undeprecate(name_in(request), owner, body.reason)))


async def _transfer(request: Request, owner: Owner, body: TransferBody) -> Answer:
    """The old name keeps its versions and points to the new one, under which new versions appear once the other
    repository is submitted. Neither name is used for anything else."""
    to = (await identify_owner(body.target_token, request.source_ip)).owner
    return Answer(
        owned_skill_of(await owner_decisions.transfer(name_in(request), owner, to, body.reason, body.skill_slug))
    )


deprecate = _on_skill("Deprecate a skill, with a successor", _deprecate)
undeprecate = _on_skill("Undo a deprecation", _undeprecate)
transfer = _on_skill("Transfer a skill to another repository of yours", _transfer)


@operation("Rescan your skill under the current rules", gives=Rescanned, owned=True, refuses=(404, 409))
async def rescan(request: Request, owner: Owner, body: OwnerReason) -> Answer:
    """Three times a day for each version (429 `rescans_used_up`). Scans the stored files. Only a worse verdict removes
    it from the marketplace."""
    return Answer(await owner_decisions.rescan_now(name_in(request), owner, body.reason))


SUBMISSION = "/api/v1/owner/submissions/{id}"
SKILL = "/api/v1/owner/skills/{owner}/{repo}/{skill}"
ROUTES: dict[str, Operation] = {
    "GET /api/v1/owner/submissions": list_mine,
    f"POST {SUBMISSION}/cancel": cancel,
    f"POST {SUBMISSION}/reopen": reopen,
    f"POST {SKILL}/rescan": rescan,
    f"POST {SKILL}/withdraw": withdraw,
    f"POST {SKILL}/restore": restore,
    f"POST {SKILL}/deprecate": deprecate,
    f"POST {SKILL}/undeprecate": undeprecate,
    f"POST {SKILL}/transfer": transfer,
}
