"""The page of an owner: its skills, what they add up to, and whether it was proven, at the same cost in any market."""

import re

import pytest

from shared.access.owners import issue_token
from shared.access.proven_owners import get_proven_repos
from shared.marketplace.community import count_installs
from shared.marketplace.skill_admin import block_skill
from shared.marketplace.skill_store import get_skill
from shared.records.owners import Owner
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills

ROUTE = "GET /owners/{owner}"


async def shown(env, owner: str, query: str = ""):
    return await call(env, ROUTE, f"/owners/{owner}{query}", owner=owner)


def facts(page: str) -> dict[str, str]:
    found = re.search(r'<dl class="facts owner-facts">(.*?)</dl>', page, re.DOTALL)[1]
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", found, re.DOTALL)
    return {name: " ".join(re.sub("<[^>]+>", "", text).split()) for name, text in pairs}


async def test_an_owner_has_its_listed_skills_and_what_they_add_up_to(env):
    one, two = a_skill("Acme/a/one", 1, versions=3), a_skill("Acme/b/two", 2)
    await put_skills(env.kv, one, two, a_skill("other/a/three", 3), a_skill("Acme/a/yanked", 4, is_yanked=True))
    await within(env, lambda: count_installs(["acme/a/one", "acme/a/one", "acme/b/two"]))
    page = await shown(env, "acme")
    assert re.findall(r'<li data-id="([^"]+)"', page.text) == ["Acme/b/two", "Acme/a/one"]
    assert "<h1>Acme</h1>" in page.text
    assert facts(page.text) | {"Proven": ""} == {
        "Skills": "2",
        "Versions": "4",
        "Installs": "3 · 3 in the last 7 days",
        "On GitHub": "Acme",
        "Proven": "",
    }
    assert "Ownership not proven" in page.text
    skill = await call(env, "GET /skills", "/skills")
    assert '<a href="/owners/acme">Acme</a>/a' in skill.text


async def test_a_proof_is_shown_with_its_repository_and_survives_its_token(env):
    await put_skills(env.kv, a_skill("acme/a/one"))
    await within(env, lambda: issue_token(Owner("acme/a", 7), "", False, "by a file"))
    env.clock.forward(days=200)
    page = await shown(env, "acme")
    assert "Ownership proven" in page.text
    assert facts(page.text)["Proven"] == "a, 6 months ago"
    assert await within(env, lambda: get_proven_repos("other")) == []


async def test_an_owner_of_blocked_skills_has_a_warning_and_an_unknown_one_no_page(env):
    await put_skills(env.kv, a_skill("acme/a/one"))
    skill = await within(env, lambda: get_skill("acme/a/one"))
    await within(env, lambda: block_skill(skill.name, "It steals keys.", "admin:anna"))
    assert "1 skill of this owner is blocked" in (await shown(env, "acme")).text
    assert (await shown(env, "nobody")).status == 404
    assert (await shown(env, "Acme")).headers["location"] == "/owners/acme"


async def test_uploads_have_no_owner(env):
    await put_skills(env.kv, a_skill("uploads/anonymous/one", repo_url=None))
    page = (await shown(env, "uploads")).text
    assert "Anyone can upload here" in page
    assert "Ownership" not in page
    assert set(facts(page)) == {"Skills", "Versions", "Installs"}


@pytest.mark.slow
async def test_the_pages_cost_the_same_among_10000_skills():
    taken = []
    for size in (200, 10_000):
        env = memory_env(CountingKV)
        stored = await env.content.put_files({"SKILL.md": b"---\nname: x\n---\n"})
        owners, known = size // 150, {"category": "data", "content_hash": stored, "description": "Common words of all."}
        skills = (a_skill(f"a{n % owners}/b/s{n}", n, **known, repo_url=None) for n in range(size))
        await put_skills(env.kv, *skills)
        requests = []
        for route, path, more in (
            (ROUTE, "/owners/a0", {"owner": "a0"}),
            ("GET /skills", "/skills", {}),
            ("GET /skills", "/skills?category=data&sort=installs", {}),
            ("GET /skills/{proxy+}", "/skills/a0/b/s0", {"proxy": "a0/b/s0"}),
        ):
            env.kv.forget()
            page = await call(env, route, path, **more)
            assert page.text.count("<li data-id=") == (0 if more.get("proxy") else 30)
            requests.append(env.kv.requests)
        taken.append(requests)
        assert "more than 100" in (await shown(env, "a0")).text
    assert taken[0] == taken[1]
    assert max(taken[0]) <= 20
