"""Skills stored under a bare slug get their full name, with all versions, and nothing is lost in between."""

from dataclasses import replace

import pytest

from shared.errors import Unavailable
from shared.marketplace import skill_store
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import enumerate_published_skills, find_skill, get_skill, get_versions
from shared.moderation.maintenance import migrate_skill_slugs
from shared.records.skills import SkillVersion
from tests.support.memory import MemoryKV, within
from tests.support.stored_skills import a_skill, put_bare


async def old_skill(env, slug, repo_url=None, versions=2):
    skill = a_skill(slug, at=env.clock(), repo_url=repo_url, versions=versions, record_version=versions)
    numbers = [f"1.0.{n}" for n in range(versions)]
    made = [
        SkillVersion(name=slug, version=v, content_hash="0", submission_id="sub_1", created_at=env.clock())
        for v in numbers
    ]
    await put_bare(env.kv, skill, *made)


async def test_migrated_skills_have_full_names_all_versions_and_their_old_slug(env):
    await old_skill(env, "pdf", "https://github.com/owner/repo")
    await old_skill(env, "docx")
    await put_bare(env.kv, a_skill("a/b/new", at=env.clock()))
    assert await within(env, migrate_skill_slugs) == ["owner/repo/pdf", "uploads/anonymous/docx"]
    assert await within(env, lambda: find_skill("pdf")) is None
    assert (await within(env, lambda: get_skill("pdf"))).name == "owner/repo/pdf"
    assert [v.version for v in await within(env, lambda: get_versions("owner/repo/pdf"))] == ["1.0.1", "1.0.0"]
    assert await within(env, lambda: get_versions("pdf")) == []
    assert sorted(skill.name for skill in (await within(env, enumerate_published_skills)).skills) == [
        "a/b/new",
        "owner/repo/pdf",
        "uploads/anonymous/docx",
    ]


async def test_skills_are_migrated_page_by_page(env, monkeypatch):
    monkeypatch.setattr(skill_store, "WALKED_AT_ONCE", 2)
    names = [f"tool-{n}" for n in range(7)]
    for name in names:
        await old_skill(env, name)
        await put_bare(env.kv, a_skill(f"a/b/{name}", at=env.clock()))
    assert await within(env, migrate_skill_slugs) == [f"uploads/anonymous/{name}" for name in names]
    assert await within(env, migrate_skill_slugs) == []


async def test_migrating_twice_changes_nothing(env):
    await old_skill(env, "pdf")
    await within(env, migrate_skill_slugs)
    before = {key: item.doc for key, item in env.kv.items.items()}
    assert await within(env, migrate_skill_slugs) == []
    assert {key: item.doc for key, item in env.kv.items.items()} == before


async def test_a_skill_published_meanwhile_under_the_full_name_is_not_overwritten(env):
    await put_bare(env.kv, a_skill("uploads/anonymous/pdf", at=env.clock()))
    await old_skill(env, "pdf")
    await old_skill(env, "docx")
    before = await within(env, lambda: find_skill("uploads/anonymous/pdf"))
    assert await within(env, migrate_skill_slugs) == ["uploads/anonymous/docx"]
    assert await within(env, lambda: find_skill("uploads/anonymous/pdf")) == before
    assert await within(env, lambda: find_skill("pdf")) is not None


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
