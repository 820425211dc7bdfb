"""What people decide about published skills, each in one step, and what is left of it everywhere else."""

import asyncio

import pytest

from shared.errors import Conflict, NotFound, Unavailable
from shared.evidence.blocklist import add_block, entry_for, find_block, find_entry
from shared.marketplace.external_scan_store import find_external_scan
from shared.marketplace.owner_marks import withdraw_skill
from shared.marketplace.skill_admin import block_skill, delete_skill, unblock_skill, unyank_version, yank_version
from shared.marketplace.skill_index import index_skill
from shared.marketplace.skill_search import SkillQuery, list_skills, search_skills
from shared.marketplace.skill_store import find_skill, get_skill, get_versions
from shared.records.submissions import State, reopen
from shared.storage.kv import Key, Put
from shared.submissions import intake
from shared.submissions.counters import get_totals
from shared.submissions.submission_store import commit, get_history, get_submission, move_submission
from shared.verification.external_scan_results import on_critical
from tests.support.builders import a_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import Interrupted, MemoryKV, memory_env, within

NAME = "uploads/anonymous/greeter"
LONG = " ".join(f"In case {n} it greets guest {n} politely." for n in range(24))  # enough to be recognised by
AUDIT = Put(Key("audit:2026-01", "1"), "{}")


async def versions_of(env, *descriptions):
    """Publishes one version per description."""
    bundle = a_bundle(description=descriptions[0])
    first = await within(env, lambda: intake.submit_bundle("greeter", bundle["files"], None, None, None))
    await processed(env, first.submission)
    for text in descriptions[1:]:
        await resubmitted(env, first.upload_token, text)
    return first


async def resubmitted(env, token, description):
    files = a_bundle(description=description)["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, token, None, None))
    await processed(env, again.submission)
    return await within(env, lambda: get_submission(again.submission.id))


def skill(env):
    return within(env, lambda: find_skill(NAME))


async def listed(env):
    found = [await within(env, lambda q=q: list_skills(q)) for q in (SkillQuery(), SkillQuery(q="greeter"))]
    assert found[0].skills == found[1].skills
    return [one.name for one in found[0].skills]


# --- yank -----------------------------------------------------------------------------------------------------------


async def test_yanking_the_current_version_makes_the_newest_other_one_current_with_all_it_says(env):
    await versions_of(env, "Greets zebras.", "Greets horses.")
    before = await skill(env)
    after = await within(env, lambda: yank_version(NAME, "1.0.1", "does not greet", [AUDIT]))
    assert (after.current_version, after.description, after.is_yanked) == ("1.0.0", "Greets zebras.", False)
    assert after.content_hash != before.content_hash
    versions = await within(env, lambda: get_versions(NAME))
    assert [(v.version, v.is_yanked, v.yank_reason) for v in versions] == [
        ("1.0.1", True, "does not greet"),
        ("1.0.0", False, None),
    ]
    assert AUDIT.key in env.kv.items
    assert len((await within(env, lambda: search_skills("zebras"))).skills) == 1
    assert (await within(env, lambda: search_skills("horses"))).skills == []
    check_invariants(env.kv)


async def test_yanking_an_older_version_leaves_the_current_one(env):
    await versions_of(env, "One.", "Two.")
    after = await within(env, lambda: yank_version(NAME, "1.0.0", "old"))
    assert (after.current_version, after.description) == ("1.0.1", "Two.")
    assert await listed(env) == [NAME]


async def test_a_skill_whose_versions_are_all_yanked_is_in_no_list_and_can_still_be_seen(env):
    await versions_of(env, "One.")
    await within(env, lambda: yank_version(NAME, "1.0.0", "bad"))
    assert await listed(env) == []
    seen = await within(env, lambda: get_skill(NAME))
    assert (seen.is_yanked, seen.current_version) == (True, "1.0.0")


@pytest.mark.requirement("I5")
async def test_skills_and_versions_are_counted_with_every_decision_about_them(env):
    async def counted(*expected):
        check_invariants(env.kv)
        assert (await within(env, get_totals))[1] == expected

    await submitted(env, a_bundle("waits"))
    await counted(0, 0)
    first = await versions_of(env, "One.", "Two.")
    await counted(1, 2)
    await processed(env, await submitted(env, a_bundle("other")))
    await counted(2, 3)
    for version, skills in (("1.0.1", 2), ("1.0.0", 1)):  # a yanked version is still shown, and counted
        await within(env, lambda v=version: yank_version(NAME, v, "bad"))
        await counted(skills, 3 if skills == 2 else 1)
    await within(env, lambda: unyank_version(NAME, "1.0.1"))
    await counted(2, 3)
    await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann"))
    await counted(1, 1)
    await within(env, lambda: unblock_skill(NAME, "it does not", "admin:ann"))
    await resubmitted(env, first.upload_token, "Three.")
    await counted(2, 4)
    await within(env, lambda: delete_skill(NAME, "asked for", "admin:ann"))
    await counted(1, 1)


async def test_unyanking_brings_everything_back(env):
    await versions_of(env, "One.", "Two.")
    before = await skill(env)
    for version in ("1.0.1", "1.0.0"):
        await within(env, lambda v=version: yank_version(NAME, v, "bad"))
    for version in ("1.0.0", "1.0.1"):
        await within(env, lambda v=version: unyank_version(NAME, v))
    after = await skill(env)
    kept = (
        "current_version",
        "content_hash",
        "description",
        "is_yanked",
        "yanked_content",
        "latest_version",
        "verdict",
    )
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert await listed(env) == [NAME]


async def test_a_version_after_a_yank_never_takes_a_number_that_was_given(env):
    first = await versions_of(env, "One.", "Two.")
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    await resubmitted(env, first.upload_token, "Three.")
    assert [v.version for v in await within(env, lambda: get_versions(NAME))] == ["1.0.2", "1.0.1", "1.0.0"]
    assert (await skill(env)).current_version == "1.0.2"
    check_invariants(env.kv)


async def test_yanked_content_is_not_restored_by_verifying_it_again(env):
    first = await versions_of(env, "One.", "Two.")
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    current = await within(env, lambda: get_submission(first.submission.id))
    moved = await within(env, lambda: commit(lambda at: reopen(current, "admin:ann", at, "look again")))
    await processed(env, moved)
    after = await within(env, lambda: get_submission(moved.id))
    assert after.state == State.REJECTED
    assert "yanked" in after.reason
    assert (await skill(env)).current_version == "1.0.0"


@pytest.mark.parametrize(
    ("verb", "error", "code"),
    [
        (lambda: yank_version(NAME, "9.9.9", "x"), NotFound, "version_not_found"),
        (lambda: unyank_version(NAME, "1.0.0"), Conflict, "nothing_to_change"),
        (lambda: yank_version("a/b/none", "1.0.0", "x"), NotFound, "skill_not_found"),
        (lambda: unblock_skill(NAME, "x", "admin:ann"), Conflict, "not_blocked"),
    ],
)
async def test_what_cannot_be_done_says_so_and_changes_nothing(env, verb, error, code):
    await versions_of(env, "One.")
    before = {key: item.doc for key, item in env.kv.items.items()}
    with pytest.raises(error) as refusal:
        await within(env, verb)
    assert refusal.value.code == code
    assert {key: item.doc for key, item in env.kv.items.items()} == before


@pytest.mark.parametrize(
    "verb",
    [
        lambda: yank_version(NAME, "1.0.0", "bad", [AUDIT]),
        lambda: block_skill(NAME, "bad", "admin:ann", also=[AUDIT]),
        lambda: delete_skill(NAME, "bad", "admin:ann", [AUDIT]),
        lambda: withdraw(NAME, [AUDIT]),
    ],
)
async def test_no_decision_is_refused_because_the_platform_indexed_the_skill_meanwhile(verb):
    env = memory_env(Interrupted)
    await versions_of(env, "One.", "Two.")
    before = (await skill(env)).record_version
    env.kv.meanwhile = indexed_now
    await within(env, verb)
    assert AUDIT.key in env.kv.items
    assert (await skill(env)).record_version >= before + 2
    check_invariants(env.kv)


async def withdraw(name, also):
    return await withdraw_skill(await get_skill(name), "bad", also)


async def indexed_now():
    await index_skill(await get_skill(NAME))


async def test_of_two_people_at_once_one_decides_and_the_other_looks_again(env):
    await versions_of(env, "One.", "Two.", "Three.")
    verbs = [yank_version(NAME, version, "bad") for version in ("1.0.0", "1.0.2")]
    outcomes = await within(env, lambda: asyncio.gather(*verbs, return_exceptions=True))
    lost = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert [error.code for error in lost] == ["changed_meanwhile"]


# --- block ----------------------------------------------------------------------------------------------------------


async def test_blocking_takes_a_skill_out_and_keeps_it_and_its_copies_out(env):
    first = await versions_of(env, LONG)
    await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann", also=[AUDIT]))
    assert await listed(env) == []
    after = await skill(env)
    assert (after.is_blocked, after.was_blocked, after.block_reason) == (True, True, "steals keys")
    assert AUDIT.key in env.kv.items
    entry = await within(env, lambda: find_block(NAME, "uploads/anonymous"))
    assert (entry.reason, entry.source_url) == ("steals keys", "uploads/anonymous")
    assert await within(env, lambda: find_block("other/repo/greeter", "https://github.com/other/repo")) is None
    again = await resubmitted(env, first.upload_token, "Mended.")
    assert (again.state, again.reason) == (State.BLOCKED, "steals keys")
    copy = await submitted(env, a_bundle("another", LONG))
    await processed(env, copy)
    assert (await within(env, lambda: get_submission(copy.id))).state == State.ON_HOLD
    check_invariants(env.kv)


async def test_unblocking_publishes_it_again_and_remembers_that_it_was_blocked(env):
    first = await versions_of(env, LONG)
    await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann"))
    await within(env, lambda: unblock_skill(NAME, "it did not", "admin:ann", [AUDIT]))
    assert await listed(env) == [NAME]
    after = await skill(env)
    assert (after.is_blocked, after.was_blocked, after.block_reason) == (False, True, None)
    submission = await within(env, lambda: get_submission(first.submission.id))
    assert (submission.state, submission.parked_by) == (State.PUBLISHED, None)
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history[-3:]] == ["BLOCKED", "AUTO_APPROVED", "PUBLISHED"]
    assert await within(env, lambda: find_block(NAME, "uploads/anonymous")) is None
    assert AUDIT.key in env.kv.items
    moved = await within(env, lambda: move_submission(submission, State.RECEIVED, "admin:ann", "look again"))
    await processed(env, moved)
    assert (await within(env, lambda: get_submission(moved.id))).state == State.PUBLISHED  # not a copy of itself
    check_invariants(env.kv)


async def test_what_another_entry_of_the_blocklist_names_is_not_unblocked(env):
    from shared.evidence.blocklist import add_block

    await versions_of(env, "One.")
    await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann"))
    await within(env, lambda: add_block(entry_for("greeter", "banned everywhere", None)))
    with pytest.raises(Conflict) as refusal:
        await within(env, lambda: unblock_skill(NAME, "it did not", "admin:ann"))
    assert refusal.value.code == "blocklisted"
    assert (await skill(env)).is_blocked


@pytest.mark.requirement("R01")
async def test_a_block_that_broke_off_let_nothing_in_and_is_done_by_the_next_try():
    class Breaking(MemoryKV):
        is_down = False

        async def transact(self, build):
            if self.is_down:
                raise Unavailable("The store does not answer.")
            return await super().transact(build)

    env = memory_env(Breaking)
    await versions_of(env, LONG)
    env.kv.is_down = True
    with pytest.raises(Unavailable):
        await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann"))
    env.kv.is_down = False
    assert not (await skill(env)).is_blocked  # not half: neither entry nor field
    assert await within(env, lambda: find_entry(entry_for(NAME, "x", "uploads/anonymous").id)) is None
    await within(env, lambda: block_skill(NAME, "steals keys", "admin:ann"))
    assert (await skill(env)).is_blocked


async def test_blocking_twice_is_blocking(env):
    first = await versions_of(env, "One.")
    for reason in ("steals keys", "and more"):
        await within(env, lambda r=reason: block_skill(NAME, r, "admin:ann"))
    history = await within(env, lambda: get_history(first.submission.id))
    assert [entry.to_state for entry in history].count("BLOCKED") == 1


# --- delete ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S12")
async def test_a_deleted_skill_is_gone_and_its_name_is_never_used_again(env):
    first = await versions_of(env, "One.")
    await within(env, lambda: delete_skill(NAME, "asked for by its author", "admin:ann", [AUDIT]))
    assert await listed(env) == []
    assert AUDIT.key in env.kv.items
    for name in (NAME, "greeter"):
        with pytest.raises(NotFound) as gone:
            await within(env, lambda n=name: get_skill(n))
        assert gone.value.code == "skill_deleted"
    files = a_bundle(description="Another.")["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, first.upload_token, None, None))
    assert again.flag == "blocked"
    assert "deleted: asked for by its author" in again.submission.reason
    check_invariants(env.kv)


async def test_a_person_who_requeues_a_deleted_skill_gets_a_refusal_with_the_reason(env):
    first = await versions_of(env, "One.")
    parked = await within(env, lambda: delete_skill(NAME, "asked for by its author", "admin:ann"))
    moved = await within(env, lambda: commit(lambda at: reopen(parked, "admin:ann", at, "look again")))
    await processed(env, moved)
    after = await within(env, lambda: get_submission(first.submission.id))
    assert after.state == State.REJECTED
    assert after.reason == (
        f"The skill {NAME} was deleted (asked for by its author). Its name is not used again: choose another one."
    )
    assert await listed(env) == []


async def test_deleting_while_new_content_is_on_its_way_wins(env):
    first = await versions_of(env, "One.")
    files = a_bundle(description="Two.")["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, first.upload_token, None, None))
    await within(env, lambda: delete_skill(NAME, "gone", "admin:ann"))
    await processed(env, again.submission)
    assert (await within(env, lambda: get_submission(again.submission.id))).state == State.REJECTED
    assert await listed(env) == []
    check_invariants(env.kv)


async def test_yanking_never_makes_content_current_that_the_blocklist_names(env):
    await versions_of(env, "One.", "Two.")
    old = (await within(env, lambda: get_versions(NAME)))[1].content_hash
    await within(env, lambda: add_block(entry_for("other", "It steals keys.", None, "high", old)))
    with pytest.raises(Conflict) as refusal:
        await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    assert refusal.value.code == "blocklisted"
    assert (await skill(env)).current_version == "1.0.1"
    await within(env, lambda: yank_version(NAME, "1.0.0", "it is on the blocklist"))
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    with pytest.raises(Conflict):
        await within(env, lambda: unyank_version(NAME, "1.0.0"))
    assert await listed(env) == []


async def test_an_entry_made_at_the_moment_of_a_yank_is_not_walked_past():
    env = memory_env(Interrupted)
    await versions_of(env, "One.", "Two.")
    old = (await within(env, lambda: get_versions(NAME)))[1].content_hash
    env.kv.meanwhile = lambda: add_block(entry_for("other", "It steals keys.", None, "high", old))
    with pytest.raises(Conflict):
        await within(env, lambda: yank_version(NAME, "1.0.1", "bad", [AUDIT]))
    assert (await skill(env)).current_version == "1.0.1"


async def test_external_scans_are_requested_for_the_version_that_becomes_current():
    env = memory_env(external_scanners=("bandit",))
    await versions_of(env, "One.", "Two.")
    new, old = [version.content_hash for version in await within(env, lambda: get_versions(NAME))]

    def asked():
        return within(env, lambda: find_external_scan(NAME, "bandit"))

    before = await asked()
    assert before.content_hash == new
    await within(env, lambda: yank_version(NAME, "1.0.0", "old"))
    assert await asked() == before  # the current one is the same: nothing is asked twice
    await within(env, lambda: unyank_version(NAME, "1.0.0"))
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    assert (await asked()).content_hash == old
    await within(env, lambda: unyank_version(NAME, "1.0.1"))
    assert (await asked()).content_hash == new


async def test_a_critical_result_about_another_version_bans_that_content_and_leaves_the_current_one(env):
    await versions_of(env, "One.", "Two.")
    new, old = [version.content_hash for version in await within(env, lambda: get_versions(NAME))]
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    await within(env, lambda: on_critical(NAME, new, "It steals keys.", "system"))
    assert await listed(env) == [NAME]
    assert await within(env, lambda: find_block("x", "y", new))
    assert await within(env, lambda: find_block("x", "y", old)) is None


async def test_what_was_deleted_while_it_was_verified_again_is_not_published_again():
    class DeletedMeanwhile(MemoryKV):
        delete = None

        async def transact(self, build):
            if self.delete and any(w.key.pk.startswith("stats:") for w in build()) and "PUBLISHED" in str(build()[0]):
                delete, self.delete = self.delete, None
                await delete()
            return await super().transact(build)

    env = memory_env(DeletedMeanwhile)
    first = await versions_of(env, "One.")
    current = await within(env, lambda: get_submission(first.submission.id))
    reopened = await within(env, lambda: commit(lambda at: reopen(current, "system", at, "again")))
    env.kv.delete = lambda: delete_skill(NAME, "asked for", "admin:anna")
    await processed(env, reopened)
    assert (await within(env, lambda: get_submission(reopened.id))).state is not State.PUBLISHED
    assert await listed(env) == []
