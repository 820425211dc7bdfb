"""Owners are told of decisions about their skills and appeals: in the transaction that decides, or not at all."""

from pathlib import Path

import pytest

from shared.errors import Unavailable
from shared.marketplace import skill_admin
from shared.moderation import owner_decisions as decide
from shared.moderation.appeals import Objection, answer_appeal, open_appeal
from shared.notifications.events import EventType, get_events_of_repo
from shared.records.owners import Owner
from shared.records.submissions import State
from shared.storage.secret_store import AdminToken
from shared.web.labels import EVENT_LABELS
from tests.support.memory import FillsUp, memory_env, within
from tests.support.owners import owned_skill, owned_submission
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills

OWNER, OTHER = Owner("acme/skills", 1000), Owner("other/skills", 2000)
REVIEWER = AdminToken("rita", "reviewer", "1" * 64)
NAME, WHY = "acme/skills/pdf", "it is broken"
API = Path(__file__).parents[3] / "docs/api.md"

ACTS = {  # what is decided, after what, and what is told: type, version, reason
    "withdraw": (
        lambda: decide.withdraw(NAME, OWNER, WHY),
        None,
        ("skill.withdrawn", "1.0.0", WHY),
    ),
    "restore": (
        lambda: decide.restore(NAME, OWNER, "a secret plan"),
        lambda: decide.withdraw(NAME, OWNER, WHY),
        ("skill.restored", "1.0.0", "Its owner restored it."),
    ),
    "withdraw a version": (
        lambda: decide.withdraw(NAME, OWNER, WHY, "1.0.0"),
        None,
        ("version.withdrawn", "1.0.0", "Withdrawn by its owner: it is broken"),
    ),
    "restore a version": (
        lambda: decide.restore(NAME, OWNER, "a secret plan", "1.0.0"),
        lambda: decide.withdraw(NAME, OWNER, WHY, "1.0.0"),
        ("version.restored", "1.0.0", "It can be installed again."),
    ),
    "yank by an operator": (
        lambda: skill_admin.yank_version(NAME, "1.0.0", "harmful"),
        None,
        ("version.withdrawn", "1.0.0", "Withdrawn by an operator: harmful"),
    ),
    "deprecate": (
        lambda: decide.deprecate(NAME, OWNER, "It is slow.", "acme/skills/pdf2"),
        None,
        ("skill.deprecated", "1.0.0", "It is slow. Use acme/skills/pdf2 instead."),
    ),
    "undeprecate": (
        lambda: decide.undeprecate(NAME, OWNER, "a secret plan"),
        lambda: decide.deprecate(NAME, OWNER, "It is slow."),
        ("skill.undeprecated", "1.0.0", "Its owner undid the deprecation."),
    ),
    "transfer": (
        lambda: decide.transfer(NAME, OWNER, OTHER, "a secret plan"),
        None,
        ("skill.transferred", "1.0.0", "Transferred to other/skills/pdf."),
    ),
}


@pytest.fixture
def env():
    return memory_env(FillsUp)


async def told(env, kind: str = ""):
    stored = await within(env, lambda: get_events_of_repo(OWNER.repo, 100))
    return [one.event for one in stored if one.event.type.startswith(kind)]


async def done_in_one_transaction(env, act):
    """First it fails, and nothing is told."""
    known = await told(env)
    env.kv.left = 0
    with pytest.raises(Unavailable):
        await within(env, act)
    assert await told(env) == known
    env.kv.left = 1
    return await within(env, act)


@pytest.mark.parametrize("name", ACTS)
async def test_a_decision_about_a_skill_is_an_event_and_one_that_fails_is_none(env, name):
    act, before, (type_, version, reason) = ACTS[name]
    submission = await owned_submission(env, state=State.PUBLISHED)
    await owned_skill(env, submission_id=submission.id)
    await put_skills(env.kv, a_skill("acme/skills/pdf2", 1))
    if before:
        await within(env, before)
        env.clock.forward(seconds=1)
    known = await told(env)
    await done_in_one_transaction(env, act)
    [event] = [one for one in await told(env) if one not in known]
    assert (event.type, event.version, event.reason) == (type_, version, reason)
    assert (event.repo_id, event.repo, event.skill_name) == (1000, OWNER.repo, NAME)


async def test_blocking_and_deleting_are_events_also_while_the_submission_is_in_another_state(env):
    submission = await owned_submission(env)  # waits with new content
    await owned_skill(env, submission_id=submission.id)
    await done_in_one_transaction(env, lambda: skill_admin.block_skill(NAME, "It steals.", "admin:anna"))
    env.clock.forward(seconds=1)
    await done_in_one_transaction(env, lambda: skill_admin.unblock_skill(NAME, "It does not.", "admin:anna"))
    env.clock.forward(seconds=1)
    await done_in_one_transaction(env, lambda: skill_admin.delete_skill(NAME, "Spam.", "admin:anna"))
    events = [(event.type, event.reason) for event in reversed(await told(env))]
    deleted = "The skill was deleted: Spam. Its name is not used again."
    restored = "It is no longer blocked."
    assert events == [("skill.blocked", "It steals."), ("skill.restored", restored), ("skill.deleted", deleted)]


async def test_an_appeal_is_an_event_when_it_is_opened_and_when_it_is_answered(env):
    submission = await owned_submission(env, state=State.REJECTED, reason="no")
    objections = [Objection("The decision is wrong.")]
    appeal = await done_in_one_transaction(env, lambda: open_appeal(submission.id, OWNER, objections))
    env.clock.forward(seconds=1)
    await done_in_one_transaction(env, lambda: answer_appeal(submission.id, appeal.id, REVIEWER, [], "It is right."))
    answered, opened = await told(env, "appeal.")
    assert (opened.type, opened.state, opened.reason) == ("appeal.opened", "open", None)
    assert (answered.type, answered.state, answered.reason) == ("appeal.answered", "upheld", "It is right.")
    assert {(event.submission_id, event.repo_id) for event in (opened, answered)} == {(submission.id, 1000)}


async def test_the_answer_and_what_follows_from_it_are_events_of_one_transaction(env):
    submission = await owned_submission(env, state=State.REJECTED, reason="no")
    appeal = await within(env, lambda: open_appeal(submission.id, OWNER, [Objection("The decision is wrong.")]))
    env.kv.left = 1
    admin = AdminToken("anna", "admin", "0" * 64)
    await within(env, lambda: answer_appeal(submission.id, appeal.id, admin, [0], "You are right."))
    assert sorted(event.state for event in await told(env, "appeal.")) == ["open", "overturned"]


async def test_an_upload_has_no_owner_to_notify(env):
    await owned_skill(env, repo_url=None)
    await within(env, lambda: skill_admin.yank_version(NAME, "1.0.0", "harmful"))
    assert not [key for key in env.kv.items if key.pk.startswith("event:")]


async def test_every_type_of_event_has_a_label_and_is_documented(env):
    assert set(EVENT_LABELS) == set(EventType)
    described = API.read_text(encoding="utf-8")
    assert [type_ for type_ in EventType if f"`{type_}`" not in described] == []
    await owned_skill(env)
    await within(env, lambda: decide.deprecate(NAME, OWNER, "It is slow."))
    feed = await call(env, "GET /feeds/owners/{owner}/{repo}", owner="acme", repo="skills")
    assert "Deprecated: acme/skills/pdf 1.0.0" in feed.text
