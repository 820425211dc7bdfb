"""What owners set on their skills: withdrawn, deprecated, transferred. Fields, not states: no submission moves. Each is
one transaction, guarded by the skill's version, with the event for its owner and the caller's own writes, such as the
audit entry."""

from collections.abc import Sequence

import msgspec

from shared.db import now
from shared.errors import ConditionFailed, Conflict, LostLease
from shared.marketplace.skill_admin import changed_meanwhile, despite_upkeep, next_record, transact_change
from shared.marketplace.skill_store import skill_writes
from shared.notifications.events import EventType, event_puts, skill_event
from shared.records.skills import Deprecation, Skill
from shared.records.submissions import ACTIVE_STATES, Submission, touch
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Key, Put, Write
from shared.submissions.submission_store import commit, find_submission

# Why something was undone is for the audit log: events are public.
RESTORED = "Its owner restored it."
UNDEPRECATED = "Its owner undid the deprecation."


class Transfer(msgspec.Struct, frozen=True, rename="camel"):
    """Under the new name: a skill that is published there first says where it comes from."""

    from_name: str
    to_name: str
    # Of the proven repository: a new owner of its name does not inherit the skill. None: of an older release.
    repo_id: int | None = None


async def withdraw_skill(skill: Skill, reason: str, also: Sequence[Write]) -> Skill:
    if skill.is_withdrawn:
        raise Conflict(f"The skill {skill.name} is withdrawn already.", code="nothing_to_change")
    return await _change(skill, EventType.WITHDRAWN, reason, also, withdrawn=reason)


async def restore_skill(skill: Skill, also: Sequence[Write]) -> Skill:
    if not skill.is_withdrawn:
        raise Conflict(f"The skill {skill.name} is not withdrawn.", code="nothing_to_change")
    return await _change(skill, EventType.RESTORED, RESTORED, also, withdrawn=None)


async def deprecate_skill(skill: Skill, sentence: str, successor: str | None, also: Sequence[Write]) -> Skill:
    """Again with another sentence or successor replaces them."""
    notice = f"{sentence.rstrip('.')}. Use {successor} instead." if successor else sentence
    deprecated = Deprecation(sentence, now(), successor)
    return await _change(skill, EventType.DEPRECATED, notice, also, deprecated=deprecated)


async def undeprecate_skill(skill: Skill, also: Sequence[Write]) -> Skill:
    if skill.deprecated is None:
        raise Conflict(f"The skill {skill.name} is not deprecated.", code="nothing_to_change")
    return await _change(skill, EventType.UNDEPRECATED, UNDEPRECATED, also, deprecated=None)


async def transfer_skill(
    skill: Skill, to_name: str, repo_id: int, target: Skill | None, also: Sequence[Write]
) -> Skill:
    """`target`: what is published under the new name already. The submission of the old name keeps its state; it is not
    reopened by new content any more."""
    return await despite_upkeep(skill, lambda skill: _transfer(skill, to_name, repo_id, target, also))


async def _transfer(skill: Skill, to_name: str, repo_id: int, target: Skill | None, also: Sequence[Write]) -> Skill:
    after = next_record(skill, transferred_to=to_name)
    events = event_puts(skill_event(after, EventType.TRANSFERRED, now(), f"Transferred to {to_name}."))
    transfer = _transfer_put(Transfer(skill.name, to_name, repo_id))
    writes: list[Write] = [*skill_writes(skill, after), *events, *also, transfer]
    if target:
        writes += skill_writes(target, next_record(target, transferred_from=skill.name))
    submission = await find_submission(skill.submission_id)
    if submission is None:
        await transact_change(writes)
        return after
    _refuse_active(submission)
    try:
        await commit(lambda _: touch(submission, transferred_to=to_name), lambda _: writes)
    except (ConditionFailed, LostLease) as error:
        raise changed_meanwhile() from error
    return after


def decode_transfer(doc: str) -> Transfer:
    return _TRANSFER.decode(doc)


_TRANSFER = msgspec.json.Decoder(Transfer)


async def _change(skill: Skill, type_: EventType, reason: str, also: Sequence[Write], **set_: object) -> Skill:
    async def change(before: Skill) -> Skill:
        after = next_record(before, **set_)
        events = event_puts(skill_event(after, type_, now(), reason))
        await transact_change([*skill_writes(before, after), *events, *also])
        return after

    return await despite_upkeep(skill, change)


def _refuse_active(submission: Submission) -> None:
    if submission.state in ACTIVE_STATES:
        raise Conflict(
            "New content of this skill is being verified. Transfer it when that is done.", code="in_progress"
        )


def transfer_key(name: str) -> Key:
    return Key(f"transfer:{name.lower()}")


def _transfer_put(transfer: Transfer) -> Put:
    """Two skills cannot be transferred to one name."""
    return Put(transfer_key(transfer.to_name), encode(transfer), expect=ABSENT)
