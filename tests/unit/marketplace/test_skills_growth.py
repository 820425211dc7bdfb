"""The marketplace costs as many requests among 2,000 skills as among 100, and no more round trips."""

import asyncio
import json

import pytest

from shared.db import get_kv
from shared.marketplace.artifacts import store_artifacts
from shared.marketplace.skill_store import version_put
from shared.records.skills import SkillVersion
from tests.support.builders import WHEN
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills

pytestmark = pytest.mark.slow

LIST = "GET /api/v1/skills"
READ = "GET /api/v1/skills/{proxy+}"
POST_SKILLS = "POST /api/v1/skills/{proxy+}"
SKILL = "author-7/tools/skill-7"
DOWNLOADED = "author-8/tools/skill-8"

HAVE = [{"name": f"author-{n}/tools/skill-{n}", "currentVersion": "0.1.0"} for n in range(50)]
SHORT = [{"name": f"skill-{n}", "currentVersion": "0.1.0"} for n in range(50)]
INSTALLED = [{"skillName": f"skill-{n}"} for n in range(20)]


async def a_market(size: int):
    env = memory_env(CountingKV)
    content_hash = await env.content.put_files({"SKILL.md": b"---\nname: x\n---\n"})
    skills = [
        a_skill(f"author-{n % 100}/tools/skill-{n}", n, content_hash=content_hash, description=f"Common word{n % 50}")
        for n in range(size)
    ]
    await put_skills(env.kv, *skills)
    await within(env, lambda: _add_version(content_hash))
    return env


async def _add_version(content_hash: str) -> None:
    stored = await store_artifacts(DOWNLOADED, "1.0.0", "", {"SKILL.md": b"---\nname: x\n---\n"})
    version = SkillVersion(
        name=DOWNLOADED,
        version="1.0.0",
        content_hash=content_hash,
        submission_id="sub",
        created_at=WHEN,
        artifacts=stored.artifacts,
    )
    await get_kv().put(version_put(version))


@pytest.fixture(scope="module")
def markets():
    """For all tests that ask both of them for the same."""
    markets = [asyncio.run(a_market(size)) for size in (100, 2000)]
    for env in markets:
        env.kv.freeze()
    return markets


async def ask(env, route, path, body=None):
    proxy = path.partition("?")[0].removeprefix("/api/v1/skills").removeprefix("/")
    headers = {"content-type": "application/json"} if body is not None else {}
    sent = b"" if body is None else json.dumps(body).encode()
    return await call(env, route, path, body=sent, headers=headers, proxy=proxy)


@pytest.mark.parametrize(
    ("route", "path", "body", "round_trips"),
    [
        (LIST, "/api/v1/skills?limit=100", None, 3),
        (LIST, "/api/v1/skills?limit=100&sort=installs", None, 3),
        (LIST, "/api/v1/skills?limit=50&sort=installs&category=other", None, 3),
        (LIST, "/api/v1/skills?limit=20&author=author-7", None, 3),
        (LIST, "/api/v1/skills?limit=20&q=common&category=other", None, 3),
        (READ, "/api/v1/skills/search?q=common&limit=20", None, 3),
        (READ, "/api/v1/skills/search?q=skill", None, 3),
        (READ, "/api/v1/skills/search?q=skill-7", None, 3),
        (READ, f"/api/v1/skills/{SKILL}", None, 2),
        (READ, "/api/v1/skills/skill-7", None, 3),
        (READ, f"/api/v1/skills/{SKILL}/versions", None, 2),
        (READ, f"/api/v1/skills/{DOWNLOADED}/versions/latest/download", None, 6),  # of these three to count it
        (READ, f"/api/v1/skills/{DOWNLOADED}/versions/1.0.0/files", None, 3),
        (READ, f"/api/v1/skills/{DOWNLOADED}/versions/1.0.0/files/SKILL.md", None, 3),
        (READ, f"/api/v1/skills/{SKILL}/badge", None, 1),
        (READ, f"/api/v1/skills/{SKILL}/security", None, 2),
        (POST_SKILLS, "/api/v1/skills/check-updates", {"skills": HAVE}, 1),
        (POST_SKILLS, "/api/v1/skills/check-updates", {"skills": SHORT}, 2),
        (POST_SKILLS, f"/api/v1/skills/{SKILL}/installs", {}, 3),
        (POST_SKILLS, "/api/v1/skills/installs", {"skills": INSTALLED}, 4),
        (POST_SKILLS, f"/api/v1/skills/{SKILL}/reports", {"type": "other", "description": "x"}, 3),
    ],
)
async def test_as_many_requests_among_2000_skills_as_among_100(markets, route, path, body, round_trips):
    taken = []
    for env in markets:
        env.kv.forget()
        answer = await ask(env, route, path, body)
        assert answer.status in (200, 201), answer.text
        assert env.kv.round_trips <= round_trips
        taken.append(env.kv.requests)
    assert taken[0] == taken[1]


async def test_a_page_read_one_by_one_is_the_whole_page():
    env = await a_market(30)
    whole = (await ask(env, LIST, "/api/v1/skills?limit=100")).json
    names, cursor = [], ""
    while cursor is not None:
        page = (await ask(env, LIST, f"/api/v1/skills?limit=1{cursor and f'&cursor={cursor}'}")).json
        names += [skill["name"] for skill in page["skills"]]
        cursor = page["cursor"]
    assert names == [skill["name"] for skill in whole["skills"]]
    assert len(names) == 30


async def test_skills_published_while_a_list_is_read_lose_and_repeat_nothing_that_was_there():
    env = await a_market(30)
    before = {skill["name"] for skill in (await ask(env, LIST, "/api/v1/skills?limit=100")).json["skills"]}
    names, cursor, n = [], "", 0
    while cursor is not None:
        page = (await ask(env, LIST, f"/api/v1/skills?limit=4{cursor and f'&cursor={cursor}'}")).json
        names += [skill["name"] for skill in page["skills"]]
        cursor, n = page["cursor"], n + 1
        new = a_skill(f"new/tools/skill-{n}", 1000 + n)
        await within(env, lambda new=new: put_skills(env.kv, new))
    assert sorted(names) == sorted(before)
