"""Installs by day and what trends: from the counts that are there anyway, at the same cost in any market."""

import re

import msgspec
import pytest

from shared.marketplace.community import add_report, count_installs
from shared.marketplace.skill_index import index_skill
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import skill_put
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills

ROUTE = "GET /api/v1/skills/{proxy+}"


async def installed(env, *names):
    return await within(env, lambda: count_installs(names))


async def trending(env, **query):
    page = await within(env, lambda: list_skills(SkillQuery(sort="trending", **query)))
    assert page.next_position is None
    return [skill.name.rpartition("/")[2] for skill in page.skills]


async def test_what_was_installed_most_in_seven_days_comes_first(env):
    await put_skills(env.kv, *(a_skill(f"a/b/{name}", category="data") for name in ("once", "new", "none")))
    await installed(env, *["a/b/once"] * 5)
    env.clock.forward(days=6)
    await installed(env, "a/b/new", "a/b/new")
    assert await trending(env) == ["once", "new"]
    assert await trending(env, category="data", q="new") == ["new"]
    assert await trending(env, category="web") == []
    env.clock.forward(days=1)
    assert await trending(env) == ["new"]
    env.clock.forward(days=6)
    assert await trending(env) == []


async def test_what_is_in_no_list_does_not_trend(env):
    await put_skills(env.kv, a_skill("a/b/c"))
    await installed(env, "a/b/c")
    assert await trending(env) == ["c"]
    await put_skills(env.kv, a_skill("a/b/c", is_blocked=True), installs={"a/b/c": 1})
    assert await trending(env) == []


async def test_a_report_and_a_new_category_keep_the_days(env):
    content_hash = await env.content.put_files({"SKILL.md": b"---\nname: c\n---\n"})
    skill = a_skill("a/b/c", category="data", content_hash=content_hash)
    await put_skills(env.kv, skill)
    await installed(env, "a/b/c")
    env.clock.forward(days=1)
    await within(env, lambda: add_report("a/b/c", "other", "x", env.clock()))
    moved = msgspec.structs.replace(skill, category="web")
    await env.kv.put(skill_put(moved, None))
    await within(env, lambda: index_skill(moved))
    assert await trending(env, category="web") == ["c"]
    detail = await call(env, ROUTE, "/api/v1/skills/a/b/c", proxy="a/b/c")
    assert detail.json["skill"]["dailyInstalls"] == [0] * 88 + [1, 0]


async def test_the_page_draws_ninety_days(env):
    await put_skills(env.kv, a_skill("a/b/c"))
    page = await call(env, "GET /skills/{proxy+}", "/skills/a/b/c", proxy="a/b/c")
    assert "None since " in page.text
    await installed(env, "a/b/c", "a/b/c")
    env.clock.forward(days=89)
    await installed(env, "a/b/c")
    page = await call(env, "GET /skills/{proxy+}", "/skills/a/b/c", proxy="a/b/c")
    assert 'aria-label="3 installs in the last 90 days, at most 2 a day"' in page.text
    bars = re.findall(r'<rect class="bar-installs" x="(\d+)" width="3" y="([\d.]+)" height="([\d.]+)"', page.text)
    assert [(int(x), float(height)) for x, _, height in bars] == [(0, 96.0), (356, 48.0)]
    assert 'value="trending" selected' in (await call(env, "GET /skills", "/skills?sort=trending")).text


@pytest.mark.slow
async def test_trending_costs_the_same_among_10000_skills():
    taken = []
    for size in (100, 10_000):
        env = memory_env(CountingKV)
        await put_skills(env.kv, *(a_skill(f"a{n % 90}/b/s{n}", n) for n in range(size)))
        for start in range(0, 100, 50):
            await installed(env, *(f"a{n % 90}/b/s{n}" for n in range(start, start + 50)))
        env.kv.forget()
        assert len(await trending(env, limit=30)) == 30
        assert env.kv.round_trips <= 2
        taken.append(env.kv.requests)
    assert taken[0] == taken[1] <= 12
