"""The job that writes every index again from the records, and says what was missing."""

import pytest

from shared.marketplace.skill_search import SkillQuery, list_skills, search_skills
from shared.marketplace.skill_store import counts_put
from shared.moderation.index_rebuild import rebuild_index
from shared.records.skills import SkillCounts
from shared.submissions.submission_search import search_submissions
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import Stored, memory_env, within
from tests.support.stored_skills import a_skill, put_skills

INDEXES = ("find", "named", "facet", "alike", "installs", "findsub")


async def rebuilt(env, limit=100):
    """All pages: how many entries were missing in each index, and how many pages it took."""
    missing, pages, position = dict.fromkeys(INDEXES, 0), 0, None
    while True:
        progress = await within(env, lambda p=position: rebuild_index(p, limit))
        assert progress.failed == []
        for name, count in progress.missing.items():
            missing[name] += count
        pages += 1
        if progress.next_position is None:
            return missing, pages
        position = progress.next_position


async def a_platform(env, size=7):
    for n in range(size):
        await processed(env, await submitted(env, a_bundle(f"skill-{n}", f"Helps with topic{n}.")))


def indexes(env):
    return {key: item.doc for key, item in env.kv.items.items() if key.pk.partition(":")[0] in INDEXES}


@pytest.mark.requirement("I14")
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_what_was_lost_is_written_again_and_counted(env, limit):
    await a_platform(env)
    before = indexes(env)
    assert {key.pk.partition(":")[0] for key in before} == set(INDEXES)
    for key in before:
        del env.kv.items[key]
    missing, pages = await rebuilt(env, limit)
    assert indexes(env) == before
    assert missing == {name: sum(key.pk.startswith(f"{name}:") for key in before) for name in INDEXES}
    assert pages == {1: 14, 3: 6, 100: 2}[limit]
    assert len((await within(env, lambda: search_skills("topic3"))).skills) == 1
    assert len((await within(env, lambda: search_submissions("skill", 50))).rows) == 7
    assert len((await within(env, lambda: list_skills(SkillQuery(sort="installs")))).skills) == 7


async def test_names_that_an_older_release_did_not_index_are_found_by_their_words_until_they_are(env):
    await a_platform(env, 2)
    for key in [key for key in env.kv.items if key.pk.startswith("named:")]:
        del env.kv.items[key]
    found = await within(env, lambda: search_skills("skill"))
    assert [one.name for one in found.skills] == ["uploads/anonymous/skill-0", "uploads/anonymous/skill-1"]


async def test_skills_that_an_older_release_counted_get_into_the_order_of_their_category(env):
    await put_skills(env.kv, a_skill("a/b/one", 1), a_skill("a/b/two", 2), installs={"a/b/two": 5})
    for name, installs in (("a/b/one", 0), ("a/b/two", 5)):
        old = counts_put(SkillCounts(name=name, installs=installs, daily=(installs,), record_version=3), None)
        env.kv.items[old.key] = Stored(old.doc, dict(old.attrs))
    by_installs = SkillQuery(category="other", sort="installs")
    assert (await within(env, lambda: list_skills(by_installs))).skills == []
    assert (await rebuilt(env))[0]["installs"] == 2
    page = await within(env, lambda: list_skills(by_installs))
    found = [(skill.name, counts.installs, counts.daily) for skill in page.skills if (counts := page.counts_of(skill))]
    assert found == [("a/b/two", 5, (5,)), ("a/b/one", 0, (0,))]


async def test_an_index_that_is_whole_has_no_drift_and_is_not_written(env):
    await a_platform(env)
    before = dict(env.kv.items)
    assert (await rebuilt(env))[0] == dict.fromkeys(INDEXES, 0)
    assert env.kv.items == before


async def test_a_record_that_cannot_be_read_is_reported_and_the_others_are_mended():
    env = memory_env()
    await put_skills(env.kv, a_skill("a/b/one", 1), a_skill("a/b/two", 2))
    env.kv.items[next(key for key in env.kv.items if key.pk == "skill:a/b/one")].doc = "{"
    for key in [key for key in env.kv.items if key.pk.startswith("find:")]:
        del env.kv.items[key]
    progress = await within(env, rebuild_index)
    assert progress.failed == ["a/b/one"]
    assert [skill.name for skill in (await within(env, lambda: search_skills("two"))).skills] == ["a/b/two"]


@pytest.mark.requirement("S11")
async def test_of_two_names_that_look_alike_the_older_one_is_kept(env):
    await put_skills(env.kv, a_skill("acme/skills/pdf", 1), a_skill("acme/ski1ls/pdf", 2))
    alike = [key for key in env.kv.items if key.pk.startswith("alike:")]
    assert len(alike) == 2  # each name has two forms, and they have both in common
    for key in alike:
        del env.kv.items[key]
    await rebuilt(env, 1)
    assert all("acme/skills/pdf" in env.kv.items[key].doc for key in alike)
