"""Published in one step from what was scanned, versions that only rise."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from shared.errors import LostLease, Unavailable
from shared.evidence.blocklist import add_block, block_puts, entry_for
from shared.marketplace.publishing import publish
from shared.marketplace.skill_index import first_key
from shared.marketplace.skill_search import search_skills
from shared.marketplace.skill_store import find_skill, get_skill, get_versions, skill_key, skill_put
from shared.records.submissions import State, reopen
from shared.storage.kv import Key
from shared.submissions import intake
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import (
    claim_submission,
    commit,
    get_history,
    get_last_entry,
    get_submission,
    move_submission,
)
from tests.support.builders import a_bundle, a_receipt, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within

FULL = "uploads/anonymous/greeter"


async def published(env, name="greeter", description="Greets people."):
    submission = await submitted(env, a_bundle(name, description))
    await processed(env, submission)
    return await within(env, lambda: get_submission(submission.id))


async def resubmitted(env, token, description, name="greeter", version=None):
    bundle = a_bundle(name, description if version is None else f"{description}\nversion: {version}")
    accepted = await within(env, lambda: intake.submit_bundle(name, bundle["files"], token, None, None))
    assert accepted.flag == "requeued"
    await processed(env, accepted.submission)
    return await within(env, lambda: get_submission(accepted.submission.id))


def skill_of(env):
    return within(env, lambda: find_skill(FULL))


async def block(env):
    skill = await skill_of(env)
    await env.kv.put(
        skill_put(msgspec.structs.replace(skill, is_blocked=True), {"recordVersion": skill.record_version})
    )


async def test_publishing_makes_the_skill_its_version_and_its_short_name(env):
    submission = await published(env)
    skill = await skill_of(env)
    assert (submission.state, submission.published_version) == (State.PUBLISHED, "1.0.0")
    assert (skill.name, skill.current_version, skill.versions) == (FULL, "1.0.0", 1)
    assert (skill.content_hash, skill.submission_id) == (submission.content_hash, submission.id)
    assert [v.version for v in await within(env, lambda: get_versions(FULL))] == ["1.0.0"]
    assert await within(env, lambda: get_skill("greeter")) == skill
    check_invariants(env.kv)


@pytest.mark.parametrize("in_the_way", [skill_key(FULL), Key(f"version:{FULL}", "000001.000000.000000")])
async def test_publishing_is_all_or_nothing(in_the_way):
    """Another worker writes one of the records between the read and the transaction."""

    class Racing(MemoryKV):
        async def transact(self, build):
            if any(write.key == in_the_way for write in build()):
                self.items.setdefault(in_the_way, type(next(iter(self.items.values())))("{}", {}))
            return await super().transact(build)

    env = memory_env(Racing)
    submission = await submitted(env)
    await processed(env, submission)
    after = await within(env, lambda: get_submission(submission.id))
    assert after.state == State.RECEIVED  # to be tried again
    left = {key.pk.partition(":")[0] for key in env.kv.items if key.pk.startswith(("skill:", "version:"))}
    assert left == {in_the_way.pk.partition(":")[0]}
    del env.kv.items[in_the_way]
    check_invariants(env.kv)


async def test_what_the_blocklist_named_during_the_scan_is_not_published():
    """It could not be removed from the marketplace yet, so the transaction that publishes asks once more."""

    class NamedMeanwhile(MemoryKV):
        async def transact(self, build):
            publishes = any(write.key.pk.startswith("version:") for write in build())
            if publishes and not self.items.get(entries[0].key):
                await self.put_all(entries)
            return await super().transact(build)

    env = memory_env(NamedMeanwhile)
    _, entries = await within(
        env, lambda: block_puts(entry_for("uploads/anonymous/greeter", "It steals keys.", UPLOADS))
    )
    submission = await submitted(env)
    await processed(env, submission)
    after = await within(env, lambda: get_submission(submission.id))
    assert (after.state, after.parked_by) == (State.BLOCKED, "blocklist")
    assert after.reason == "It steals keys. (blocklist, high)"
    assert not [key for key in env.kv.items if key.pk.startswith(("skill:", "version:"))]
    check_invariants(env.kv)


async def test_what_was_blocked_lately_under_another_name_stops_nothing(env):
    """The last part of the name is the same, so all entries are checked, and none is about this skill."""
    await within(
        env, lambda: add_block(entry_for("acme/tools/greeter", "It steals keys.", "https://github.com/acme/t"))
    )
    submission = await published(env)
    assert submission.state == State.PUBLISHED
    assert first_key(submission.content_hash) in env.kv.items
    check_invariants(env.kv)


async def test_what_was_written_ahead_of_a_failed_publication_finds_nothing_and_holds_no_one():
    class Refused(MemoryKV):
        is_down = True

        async def transact(self, build):
            if self.is_down and any(write.key.pk.startswith("version:") for write in build()):
                raise Unavailable("The store does not answer.")
            return await super().transact(build)

    env = memory_env(Refused)
    text = "Greets people: " + ", ".join(f"at hour {n} those who come home from place {n}" for n in range(20))
    first = await published(env, "one", text)
    assert first.state == State.RECEIVED
    assert any(key.pk.startswith("like:") for key in env.kv.items)
    assert any(key.pk.startswith("find:") for key in env.kv.items)
    assert (await within(env, lambda: search_skills("greets people"))).skills == []
    env.kv.is_down = False
    again = await published(env, "two", text)
    assert (again.state, again.verdict) == (State.PUBLISHED, "PASS")
    assert not again.has_own_findings
    check_invariants(env.kv)


async def test_both_moves_of_one_transaction_are_in_the_history(env):
    submission = await published(env)
    history = await within(env, lambda: get_history(submission.id))
    assert [(entry.seq, entry.from_state, entry.to_state) for entry in history] == [
        (1, None, "RECEIVED"),
        (2, "RECEIVED", "TIER1_SCANNING"),
        (3, "TIER1_SCANNING", "AUTO_APPROVED"),
        (4, "AUTO_APPROVED", "PUBLISHED"),
    ]
    assert len([key for key in env.kv.items if key.pk.startswith("hist:")]) == 2


async def test_the_history_of_a_submission_at_work_has_its_claim(env):
    submission = await submitted(env)
    held = await within(env, lambda: claim_submission(submission, "worker", timedelta(seconds=60)))
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history] == ["RECEIVED", "TIER1_SCANNING"]
    assert await within(env, lambda: get_last_entry(held)) == history[-1]
    check_invariants(env.kv)


async def test_a_history_that_is_written_between_its_two_reads_is_whole():
    class WrittenMeanwhile(MemoryKV):
        before = None
        written = asyncio.Event()
        written.set()

        async def query(self, query):
            page = await super().query(query)
            if self.before and query.pk.startswith("hist:"):
                before, self.before = self.before, None
                await before()
                self.written.set()
            return page

        async def load(self, key):
            if key.pk.startswith("sub:"):
                await self.written.wait()
            return await super().load(key)

    env = memory_env(WrittenMeanwhile)
    submission = await submitted(env)
    held = await within(env, lambda: claim_submission(submission, "worker", timedelta(seconds=60)))
    env.kv.written.clear()
    env.kv.before = lambda: move_submission(held, State.ON_HOLD, "worker", "look at it")
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history] == ["RECEIVED", "TIER1_SCANNING", "ON_HOLD"]


async def test_a_worker_that_lost_its_lease_publishes_nothing(env):
    submission = await submitted(env)

    async def zombie():
        held = await claim_submission(submission, "slow", timedelta(seconds=1))
        approved = await move_submission(held, State.AUTO_APPROVED, "worker")
        env.clock.forward(seconds=2)
        await claim_submission(approved, "fast", timedelta(seconds=60))
        await publish(approved, a_receipt(approved.content_hash), None)

    with pytest.raises(LostLease):
        await within(env, zombie)
    assert await skill_of(env) is None


async def test_the_same_content_again_makes_no_new_version(env):
    first = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, first.submission)
    skill = await skill_of(env)
    await resubmitted(env, first.upload_token, "Other.")
    back = await resubmitted(env, first.upload_token, "Third.")
    assert (await skill_of(env)).versions == 3

    async def reopened_with_the_same_content():
        moved = await commit(lambda at: reopen(back, "admin:ann", at, "look again"))
        await processed(env, moved)
        return await get_submission(moved.id)

    again = await within(env, reopened_with_the_same_content)
    assert (again.state, again.published_version) == (State.PUBLISHED, "1.0.2")
    assert (await skill_of(env)).versions == 3
    assert (await skill_of(env)).published_at == skill.published_at
    check_invariants(env.kv)


async def test_a_version_says_what_it_has_otherwise_than_the_one_before(env):
    first = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, first.submission)
    await resubmitted(env, first.upload_token, "Other.")
    bundle = a_bundle(description="Third.", **{"notes.md": "x", "more.md": "y"})
    await within(env, lambda: intake.submit_bundle("greeter", bundle["files"], first.upload_token, None, None))
    await processed(env, first.submission)
    lost = await skill_of(env)
    del env.content.files[lost.content_hash]
    await resubmitted(env, first.upload_token, "Fourth.")
    versions = await within(env, lambda: get_versions(FULL))
    assert [version.diff_summary for version in versions] == [
        "changed since 1.0.2",  # whose files are lost
        "1 file changed, 2 files added since 1.0.1",
        "1 file changed since 1.0.0",
        "first version",
    ]


async def test_new_content_bumps_the_patch_unless_the_author_names_a_higher_version(env):
    first = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, first.submission)
    for description, wanted in (("B.", None), ("C.", "1.2.0"), ("D.", "1.1.0"), ("E.", "2.0.0"), ("F.", None)):
        await resubmitted(env, first.upload_token, description, version=wanted)
    versions = await within(env, lambda: get_versions(FULL))
    assert [v.version for v in versions] == ["2.0.1", "2.0.0", "1.2.1", "1.2.0", "1.0.1", "1.0.0"]
    assert len({v.content_hash for v in versions}) == 6
    skill = await skill_of(env)
    assert (skill.current_version, skill.versions, skill.content_hash) == ("2.0.1", 6, versions[0].content_hash)


async def test_a_new_version_of_a_blocked_skill_is_blocked_too(env):
    first = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, first.submission)
    await block(env)
    await resubmitted(env, first.upload_token, "New.")
    assert (await skill_of(env)).is_blocked
