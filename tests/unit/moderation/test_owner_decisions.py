"""What owners do with what is theirs, and that nobody else does. S44: another owner, an operator's decision."""

import json
from datetime import timedelta

import msgspec
import pytest

from shared.access import owners
from shared.errors import Conflict, Forbidden, InvalidRequest, ShareUsedUp, TooManyRequests
from shared.marketplace.installable import get_installable
from shared.marketplace.skill_admin import yank_version
from shared.marketplace.skill_store import find_skill, get_skill
from shared.moderation import owner_decisions as decide
from shared.moderation import submission_decisions
from shared.records.owners import Owner
from shared.records.submissions import State
from shared.settings import Limit
from shared.storage.secret_store import AdminToken
from shared.submissions.submission_store import get_history, get_submission
from tests.support.memory import memory_env, within
from tests.support.owners import call_json, owned_skill, owned_submission, stored_owner_token
from tests.support.stored_skills import a_skill, put_skills

OWNER, OTHER = Owner("acme/skills", 1000), Owner("other/skills", 2000)
RECREATED = Owner("acme/skills", 3000)  # a repository of the same name with another id
HOUR = timedelta(hours=1)
NAME, WHY = "acme/skills/pdf", "it is broken"
ADMIN = AdminToken("anna", "admin", "0" * 64)


@pytest.fixture
def env():
    return memory_env()


def audited(env) -> list[str]:
    entries = [json.loads(item.doc) for key, item in env.kv.items.items() if key.pk.startswith("audit:")]
    return [f"{entry['by']} {entry['action']} {entry['subject']}" for entry in entries]


async def skill(env):
    return await within(env, lambda: get_skill(NAME))


async def test_a_cancelled_submission_is_dequeued_by_its_owner_who_may_reopen_it(env):
    waiting = await owned_submission(env)
    cancelled = await within(env, lambda: decide.cancel(waiting.id, OWNER, WHY))
    assert cancelled.state is State.DEQUEUED
    history = await within(env, lambda: get_history(waiting.id))
    assert history[-1].actor == "owner:acme/skills"
    reopened = await within(env, lambda: decide.reopen_cancelled(waiting.id, OWNER, WHY))
    assert (reopened.state, [sent for sent, _ in env.queue.sent]) == (State.RECEIVED, [waiting.id])
    assert audited(env) == [f"owner:acme/skills cancel {waiting.id}", f"owner:acme/skills reopen {waiting.id}"]


@pytest.mark.requirement("S44")
async def test_an_address_reopens_no_more_than_its_share_of_the_queue():
    """Cancelling gives a place back: submit, cancel, submit more, reopen all would fill the queue."""
    env = memory_env(limits={"submit": Limit(1000, HOUR), "skills": Limit(1000, HOUR)}, max_active=30)
    waiting = [await owned_submission(env, skill_path=f"skills/s{n}", skill_name=f"a/b/s{n}") for n in range(4)]
    for one in waiting:
        await within(env, lambda one=one: decide.cancel(one.id, OWNER, WHY))
    for one in waiting[:3]:
        await within(env, lambda one=one: decide.reopen_cancelled(one.id, OWNER, WHY, "192.0.2.1"))
    with pytest.raises(ShareUsedUp):
        await within(env, lambda: decide.reopen_cancelled(waiting[3].id, OWNER, WHY, "192.0.2.1"))


@pytest.mark.requirement("S44")
async def test_an_owner_cannot_flood_the_audit_log(monkeypatch):
    """Over the API and the pages together; reading is not counted."""
    monkeypatch.setattr(owners, "ACTIONS_AN_HOUR", 2)
    env = memory_env(limits={"submit": Limit(1000, HOUR)})
    token = await stored_owner_token(env, "acme/skills", 1000)
    body, path = {"url": "https://hooks.example.org/"}, "/api/v1/owner/notifications"
    sent = [await call_json(env, "POST /api/v1/owner/webhook", body, token) for _ in range(3)]
    assert [answer.get("error", {}).get("code") for answer in sent] == [None, None, "rate_limited"]
    assert len(audited(env)) == 2
    assert "deliveries" in await call_json(env, f"GET {path}", token=token, path=path)
    other = await stored_owner_token(env, "other/skills", 2000)
    assert "url" in await call_json(env, "POST /api/v1/owner/webhook", body, other)


@pytest.mark.requirement("S44")
async def test_what_an_operator_took_out_of_the_queue_stays_out_also_after_an_owner_once_cancelled_it(env):
    waiting = await owned_submission(env)
    await within(env, lambda: decide.cancel(waiting.id, OWNER, WHY))
    await within(env, lambda: decide.reopen_cancelled(waiting.id, OWNER, WHY))
    await within(env, lambda: submission_decisions.dequeue(waiting.id, ADMIN, "spam"))
    with pytest.raises(Conflict):
        await within(env, lambda: decide.reopen_cancelled(waiting.id, OWNER, WHY))
    assert (await within(env, lambda: get_submission(waiting.id))).state is State.DEQUEUED


async def test_only_what_waits_is_cancelled(env):
    held = await owned_submission(env, state=State.ON_HOLD, reason="held")
    with pytest.raises(Conflict):
        await within(env, lambda: decide.cancel(held.id, OWNER, WHY))


@pytest.mark.requirement("S44")
@pytest.mark.parametrize("stranger", [OTHER, RECREATED], ids=["another repository", "the same name, another id"])
async def test_no_owner_acts_on_what_belongs_to_another_id(env, stranger):
    waiting = await owned_submission(env)
    before = await owned_skill(env)
    for act in (
        lambda: decide.cancel(waiting.id, stranger, WHY),
        lambda: decide.withdraw(NAME, stranger, WHY),
        lambda: decide.withdraw(NAME, stranger, WHY, "1.0.0"),
        lambda: decide.deprecate(NAME, stranger, WHY),
        lambda: decide.rescan_now(NAME, stranger, WHY),
        lambda: decide.transfer(NAME, stranger, OTHER, WHY),
    ):
        with pytest.raises(Forbidden) as refused:
            await within(env, act)
        assert refused.value.code == "not_the_owner"
    assert await skill(env) == before
    assert audited(env) == []


@pytest.mark.requirement("S44")
async def test_a_skill_whose_repository_id_was_never_stored_does_not_belong_to_its_name(env):
    """Whoever registers the name of a deleted repository anew can prove that name."""
    await owned_skill(env, repo_id=None, repo_url="https://github.com/acme/skills")
    with pytest.raises(Forbidden):
        await within(env, lambda: decide.withdraw(NAME, RECREATED, WHY))


async def test_a_withdrawn_skill_can_be_seen_but_not_installed_until_it_is_restored(env):
    await owned_skill(env)
    withdrawn = await within(env, lambda: decide.withdraw(NAME, OWNER, WHY))
    assert (withdrawn.withdrawn, withdrawn.is_listed) == (WHY, False)
    with pytest.raises(Forbidden) as refused:
        await within(env, lambda: get_installable(NAME))
    assert refused.value.code == "skill_withdrawn"
    assert (await within(env, lambda: decide.restore(NAME, OWNER, WHY))).is_listed
    assert await within(env, lambda: get_installable(NAME))
    assert audited(env) == [f"owner:acme/skills {action} {NAME}" for action in ("withdraw", "restore")]


@pytest.mark.requirement("S44")
async def test_an_owner_restores_what_an_owner_withdrew_and_not_what_an_operator_yanked(env):
    await owned_skill(env)
    assert (await within(env, lambda: decide.withdraw(NAME, OWNER, WHY, "1.0.0"))).is_yanked
    assert not (await within(env, lambda: decide.restore(NAME, OWNER, WHY, "1.0.0"))).is_yanked
    await within(env, lambda: decide.withdraw(NAME, OWNER, WHY, "1.0.0"))  # before the operator can
    await within(env, lambda: yank_version(NAME, "1.0.0", "harmful"))
    with pytest.raises(Conflict) as refused:
        await within(env, lambda: decide.restore(NAME, OWNER, WHY, "1.0.0"))
    assert refused.value.code == "yanked_by_operator"


@pytest.mark.requirement("S44")
async def test_the_sentence_of_a_deprecation_controls_no_terminal(env):
    await owned_skill(env)
    sentence = "Old.\x1b]0;title\x07\x1b[2J \u202eTxen\x00 \x9b1m"
    after = await within(env, lambda: decide.deprecate(NAME, OWNER, sentence))
    assert after.deprecated.sentence == "Old. ]0;title [2J Txen 1m"


async def test_a_deprecation_names_a_successor_that_is_published_here(env):
    await owned_skill(env)
    await put_skills(env.kv, a_skill("acme/skills/pdf2", 1))
    deprecated = await within(env, lambda: decide.deprecate(NAME, OWNER, "It is slow.", "acme/skills/pdf2"))
    assert deprecated.is_listed
    assert deprecated.notice == "Deprecated by its owner: It is slow. Use acme/skills/pdf2 instead."
    with pytest.raises(InvalidRequest):
        await within(env, lambda: decide.deprecate(NAME, OWNER, "It is slow.", NAME))
    assert (await within(env, lambda: decide.undeprecate(NAME, OWNER, WHY))).notice is None


async def test_a_version_is_rescanned_three_times_a_day(env):
    await owned_skill(env)
    for _ in range(3):
        assert (await within(env, lambda: decide.rescan_now(NAME, OWNER, WHY))).verdict == "PASS"
    with pytest.raises(TooManyRequests) as refused:
        await within(env, lambda: decide.rescan_now(NAME, OWNER, WHY))
    assert refused.value.code == "rescans_used_up"
    env.clock.forward(days=1)
    assert await within(env, lambda: decide.rescan_now(NAME, OWNER, WHY))


async def test_a_transferred_skill_keeps_its_versions_and_points_to_its_new_name(env):
    submission = await owned_submission(env, state=State.PUBLISHED)
    await owned_skill(env, submission_id=submission.id)
    moved = await within(env, lambda: decide.transfer(NAME, OWNER, OTHER, WHY))
    assert (moved.transferred_to, moved.successor) == ("other/skills/pdf", "other/skills/pdf")
    assert await within(env, lambda: get_installable(NAME, "1.0.0"))
    kept = await within(env, lambda: get_submission(submission.id))
    assert (kept.state, kept.transferred_to) == (State.PUBLISHED, "other/skills/pdf")
    with pytest.raises(Conflict) as again:
        await within(env, lambda: decide.transfer(NAME, OWNER, OTHER, WHY))
    assert again.value.code == "already_transferred"


async def test_a_transfer_to_a_published_skill_is_known_there(env):
    await owned_skill(env)
    await put_skills(env.kv, a_skill("other/skills/pdf", 1, repo_id=2000))
    await within(env, lambda: decide.transfer(NAME, OWNER, OTHER, WHY))
    target = await within(env, lambda: find_skill("other/skills/pdf"))
    assert target.transferred_from == NAME


@pytest.mark.requirement("S44")
async def test_no_skill_is_transferred_to_a_name_of_another_owner(env):
    await owned_skill(env)
    await put_skills(env.kv, a_skill("other/skills/pdf", 1, repo_id=9))
    with pytest.raises(Conflict):
        await within(env, lambda: decide.transfer(NAME, OWNER, OTHER, WHY))


async def test_nothing_is_transferred_while_new_content_is_verified(env):
    submission = await owned_submission(env)
    await owned_skill(env, submission_id=submission.id)
    with pytest.raises(Conflict) as refused:
        await within(env, lambda: decide.transfer(NAME, OWNER, OTHER, WHY))
    assert refused.value.code == "in_progress"


async def test_what_an_owner_set_outlives_a_new_version(env):
    from shared.records.skills import set_by_owner

    stored = msgspec.structs.replace(a_skill(NAME), withdrawn="gone", transferred_from="a/b/c")
    assert set_by_owner(stored) == {
        "withdrawn": "gone",
        "deprecated": None,
        "transferred_to": None,
        "transferred_from": "a/b/c",
    }
