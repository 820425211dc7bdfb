"""The marketplace at rest: names that lead to one skill, lists that show what is published."""

import msgspec
import pytest

from shared.errors import Conflict, NotFound, Unavailable
from shared.marketplace.skill_search import get_published_skills_list
from shared.marketplace.skill_store import enumerate_published_skills, find_skill, get_skill, skill_key, skill_put
from shared.storage.documents import encode
from shared.storage.kv import Key, Put
from tests.support.builders import processed, submitted
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.stored_skills import a_skill, put_bare

FULL = "uploads/anonymous/greeter"


async def published(env):
    await processed(env, await submitted(env))


async def block(env, name):
    skill = await within(env, lambda: find_skill(name))
    await env.kv.put(
        skill_put(msgspec.structs.replace(skill, is_blocked=True), {"recordVersion": skill.record_version})
    )


# --- names ----------------------------------------------------------------------------------------------------------


async def test_a_short_name_leads_to_its_skill_when_only_one_has_it(env):
    await put_bare(env.kv, a_skill("a/b/pdf", at=env.clock()))
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
        await put_bare(env.kv, a_skill(name, at=env.clock()))
    assert await pages(env, limit) == await pages(env, 100) == names[::-1]


async def test_an_empty_marketplace_is_an_empty_page(env):
    assert await within(env, lambda: get_published_skills_list(10)) == ([], None, [], {})


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_blocked_skills_are_not_shown(env, limit):
    for n in range(6):
        await put_bare(env.kv, a_skill(f"o/r/s{n}", at=env.clock()))
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
        await put_bare(env.kv, a_skill(f"o/r/s{n}", at=env.clock()))
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
