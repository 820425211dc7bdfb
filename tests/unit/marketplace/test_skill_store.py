"""The marketplace at rest: published in one step, versions that only rise, names that lead to one skill."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from shared.errors import Conflict, LostLease, NotFound, Unavailable
from shared.evidence.blocklist import block_put, entry_for
from shared.marketplace.skill_index import skill_put
from shared.marketplace.skill_search import SkillQuery, get_published_skills_list, list_skills
from shared.marketplace.skill_store import (
    enumerate_published_skills,
    find_skill,
    get_skill,
    get_versions,
    migrate_skill_slugs,
    publish,
    skill_key,
    version_put,
)
from shared.records.skills import Skill, SkillVersion
from shared.records.submissions import State, reopen
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Key, Put
from shared.submissions import intake
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import claim_submission, commit, get_submission, move_submission
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


def skill_of(env, name=FULL):
    return within(env, lambda: find_skill(name))


def stored_skill(name, at, **more):
    return Skill(
        name=name,
        display_name=name,
        description="d",
        current_version="1.0.0",
        content_hash="0" * 64,
        submission_id="sub_1",
        published_at=at,
        updated_at=at,
        **{"repo_url": None, **more},
    )


async def put_skill(env, skill, *versions):
    await env.kv.put(skill_put(skill, ABSENT))
    for version in versions:
        await env.kv.put(version_put(version))


async def block(env, name):
    skill = await skill_of(env, name)
    await env.kv.put(
        skill_put(msgspec.structs.replace(skill, is_blocked=True), {"recordVersion": skill.record_version})
    )


# --- publish --------------------------------------------------------------------------------------------------------


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
    """Somebody writes one of the records between the read and the transaction."""

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
    """Nobody could take it out of the marketplace yet, so the transaction that publishes asks once more."""

    class NamedMeanwhile(MemoryKV):
        async def transact(self, build):
            publishes = any(write.key.pk.startswith("version:") for write in build())
            if publishes and not self.items.get(entry.key):
                await self.put(entry)
            return await super().transact(build)

    env = memory_env(NamedMeanwhile)
    _, entry = await within(env, lambda: block_put(entry_for("uploads/anonymous/greeter", "It steals keys.", UPLOADS)))
    submission = await submitted(env)
    await processed(env, submission)
    after = await within(env, lambda: get_submission(submission.id))
    assert (after.state, after.parked_by) == (State.BLOCKED, "blocklist")
    assert after.reason == "It steals keys. (blocklist, high)"
    assert not [key for key in env.kv.items if key.pk.startswith(("skill:", "version:"))]
    check_invariants(env.kv)


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
    await block(env, FULL)
    await resubmitted(env, first.upload_token, "New.")
    assert (await skill_of(env)).is_blocked


# --- names ----------------------------------------------------------------------------------------------------------


async def test_a_short_name_leads_to_its_skill_when_only_one_has_it(env):
    await put_skill(env, stored_skill("a/b/pdf", env.clock()))
    await env.kv.put(Put(Key("skill:alias:pdf", "a/b/pdf"), encode({"name": "a/b/pdf"})))
    assert (await within(env, lambda: get_skill("pdf"))).name == "a/b/pdf"


async def test_a_short_name_of_several_is_a_409_with_the_candidates(env):
    for name in ("a/b/pdf", "c/d/pdf"):
        await env.kv.put(Put(Key("skill:alias:pdf", name), encode({"name": name})))
    with pytest.raises(Conflict) as conflict:
        await within(env, lambda: get_skill("pdf"))
    assert conflict.value.code == "ambiguous_name"
    assert conflict.value.details == {"candidates": ["a/b/pdf", "c/d/pdf"]}


LONG = "x" * 3000


@pytest.mark.parametrize(
    "name", ["none", "a/b/none", "a/b", "", "/", "//", "alias:pdf", LONG, f"a/b/{LONG}", "\ud800", "a\0b"]
)
async def test_a_name_that_no_skill_has_is_not_found(env, name):
    await published(env)
    with pytest.raises(NotFound) as missing:
        await within(env, lambda: get_skill(name))
    assert missing.value.code == "skill_not_found"
    assert len(str(missing.value)) < 200


# --- lists ----------------------------------------------------------------------------------------------------------


async def pages(env, limit):
    shown, position = [], None
    while True:
        page = await within(env, lambda p=position: get_published_skills_list(limit, p))
        assert len(page.skills) <= limit
        shown += [skill.name for skill in page.skills]
        if page.next_position is None:
            return shown
        position = page.next_position


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 99])
async def test_every_page_size_shows_the_same_skills_newest_first(env, limit):
    names = [f"o/r/skill-{n:02}" for n in range(23)]
    for name in names:
        await put_skill(env, stored_skill(name, env.clock()))
    assert await pages(env, limit) == await pages(env, 100) == names[::-1]


async def test_an_empty_marketplace_is_an_empty_page(env):
    assert await within(env, lambda: get_published_skills_list(10)) == ([], None, [], {})


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_blocked_skills_are_not_shown(env, limit):
    for n in range(6):
        await put_skill(env, stored_skill(f"o/r/s{n}", env.clock()))
    for n in (0, 3, 5):
        await block(env, f"o/r/s{n}")
    assert await pages(env, limit) == ["o/r/s4", "o/r/s2", "o/r/s1"]
    assert sorted(s.name for s in (await within(env, enumerate_published_skills)).skills) == [
        "o/r/s1",
        "o/r/s2",
        "o/r/s4",
    ]


async def test_an_unreadable_skill_is_reported_and_the_others_are_shown():
    class OneBad(MemoryKV):
        async def load(self, key):
            if key == skill_key("o/r/s1"):
                raise Unavailable("throttled")
            return await super().load(key)

    env = memory_env(OneBad)
    for n in range(3):
        await put_skill(env, stored_skill(f"o/r/s{n}", env.clock()))
    env.kv.items[skill_key("o/r/s2")].doc = '{"name": "half'
    for read in (
        await within(env, lambda: get_published_skills_list(10)),
        await within(env, enumerate_published_skills),
    ):
        assert [skill.name for skill in read.skills] == ["o/r/s0"]
        assert sorted(read.failed) == ["o/r/s1", "o/r/s2"]


async def test_aliases_are_in_no_list(env):
    await published(env)
    assert [skill.name for skill in (await within(env, enumerate_published_skills)).skills] == [FULL]


# --- migration ------------------------------------------------------------------------------------------------------


async def old_skill(env, slug, repo_url=None, versions=2):
    skill = stored_skill(slug, env.clock(), repo_url=repo_url, versions=versions, record_version=versions)
    numbers = [f"1.0.{n}" for n in range(versions)]
    made = [
        SkillVersion(name=slug, version=v, content_hash="0", submission_id="sub_1", created_at=env.clock())
        for v in numbers
    ]
    await put_skill(env, skill, *made)


async def test_migrated_skills_have_full_names_all_versions_and_their_old_slug(env):
    await old_skill(env, "pdf", "https://github.com/owner/repo")
    await old_skill(env, "docx")
    await put_skill(env, stored_skill("a/b/new", env.clock()))
    assert await within(env, migrate_skill_slugs) == ["owner/repo/pdf", "uploads/anonymous/docx"]
    assert await skill_of(env, "pdf") is None
    assert (await within(env, lambda: get_skill("pdf"))).name == "owner/repo/pdf"
    assert [v.version for v in await within(env, lambda: get_versions("owner/repo/pdf"))] == ["1.0.1", "1.0.0"]
    assert await within(env, lambda: get_versions("pdf")) == []
    assert sorted(await pages(env, 100)) == ["a/b/new", "owner/repo/pdf", "uploads/anonymous/docx"]


async def test_migrating_twice_changes_nothing(env):
    await old_skill(env, "pdf")
    await within(env, migrate_skill_slugs)
    before = {key: item.doc for key, item in env.kv.items.items()}
    assert await within(env, migrate_skill_slugs) == []
    assert {key: item.doc for key, item in env.kv.items.items()} == before


async def test_a_skill_published_meanwhile_under_the_full_name_is_not_overwritten(env):
    await put_skill(env, stored_skill("uploads/anonymous/pdf", env.clock()))
    await old_skill(env, "pdf")
    await old_skill(env, "docx")
    before = await skill_of(env, "uploads/anonymous/pdf")
    assert await within(env, migrate_skill_slugs) == ["uploads/anonymous/docx"]
    assert await skill_of(env, "uploads/anonymous/pdf") == before
    assert await skill_of(env, "pdf") is not None


@pytest.mark.parametrize("versions", [1, 47, 49, 230])
async def test_a_skill_with_any_number_of_versions_is_migrated_whole_and_can_be_found(env, versions):
    await old_skill(env, "pdf", "https://github.com/owner/repo", versions)
    assert await within(env, migrate_skill_slugs) == ["owner/repo/pdf"]
    assert len(await within(env, lambda: get_versions("owner/repo/pdf"))) == versions
    assert await within(env, lambda: get_versions("pdf")) == []
    for query in (SkillQuery(q="pdf"), SkillQuery(author="owner"), SkillQuery(sort="installs")):
        assert [s.name for s in (await within(env, lambda q=query: list_skills(q))).skills] == ["owner/repo/pdf"]


@pytest.mark.requirement("R01")
async def test_a_migration_that_broke_off_is_finished_by_the_next_one(env):
    await old_skill(env, "pdf", versions=120)

    class Breaking(MemoryKV):
        left = 2

        async def transact(self, build):
            if self.left == 0:
                raise Unavailable("The store does not answer.")
            self.left -= 1
            return await super().transact(build)

    broken = replace(env, kv=Breaking(env.clock.seconds))
    broken.kv.items = env.kv.items
    with pytest.raises(Unavailable):
        await within(broken, migrate_skill_slugs)
    assert len(await within(env, lambda: get_versions("pdf"))) == 120  # nothing is lost in between
    assert await within(env, migrate_skill_slugs) == ["uploads/anonymous/pdf"]
    assert len(await within(env, lambda: get_versions("uploads/anonymous/pdf"))) == 120
