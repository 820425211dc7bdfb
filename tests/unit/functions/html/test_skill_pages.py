"""The marketplace as the first HTML says it: search, filters and order in the address, and a skill's standing."""

import re

import pytest

from shared.evidence.blocklist import add_block, entry_for
from shared.marketplace.skill_admin import block_skill
from shared.submissions import intake
from tests.support.builders import a_bundle, processed
from tests.support.memory import within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills

MD = """---
name: {name}
description: {description}
metadata:
  category: {category}
  tags: [{tag}]
---

# {name}
"""
CATALOGUE = {
    "pdf-forms": ("Fills in forms.", "documents", "pdf"),
    "pdf-reader": ("Reads what came back.", "documents", "pdf"),
    "csv-cleaner": ("Finds shifted columns.", "data", "csv"),
}


async def fill(env) -> None:
    for name, (description, category, tag) in CATALOGUE.items():
        text = MD.format(name=name, description=description, category=category, tag=tag)
        accepted = await within(
            env, lambda n=name, t=text: intake.submit_bundle(n, [("SKILL.md", t)], None, None, None)
        )
        await processed(env, accepted.submission)


def names(page: str) -> list[str]:
    return re.findall(r'<li data-id="uploads/anonymous/([\w-]+)"', page)


async def test_a_version_whose_content_is_banned_is_marked_and_not_shown(env):
    accepted = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, accepted.submission)
    files = a_bundle(description="Greets people twice.")["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, accepted.upload_token, None, None))
    await processed(env, again.submission)
    name, old = accepted.submission.skill_name, accepted.submission.content_hash
    changes = f"/skills/{name}?from=1.0.0&to=1.0.1"
    assert "Changes since 1.0.0" in (await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)).text
    assert (await call(env, "GET /skills/{proxy+}", changes, proxy=name)).status == 200
    await within(env, lambda: add_block(entry_for("greeter", "It steals keys.", None, "high", old)))
    page = (await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)).text
    assert "It steals keys." in page
    assert "Changes since 1.0.0" not in page
    refused = await call(env, "GET /skills/{proxy+}", changes, proxy=name)
    assert (refused.status, "Greets people by name" in refused.text) == (403, False)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["csv-cleaner", "pdf-reader", "pdf-forms"]),
        ("q=pdf", ["pdf-forms", "pdf-reader"]),
        ("q=pdf+reader", ["pdf-reader"]),
        ("q=shifted", ["csv-cleaner"]),
        ("category=documents", ["pdf-reader", "pdf-forms"]),
        ("category=data&q=pdf", []),
        ("tier=SCANNED&author=uploads&sort=installs", ["pdf-reader", "pdf-forms", "csv-cleaner"]),
        ("tier=CERTIFIED", []),
        ("q=&category=&tier=&author=&sort=", ["csv-cleaner", "pdf-reader", "pdf-forms"]),  # a form with nothing in it
    ],
)
async def test_a_search_is_in_the_url_and_on_the_page(env, query, shown):
    await fill(env)
    page = await call(env, "GET /skills", f"/skills?{query}")
    assert (page.status, names(page.text)) == (200, shown)
    assert ("No skills found" in page.text) == (not shown)


async def test_the_form_keeps_the_search(env):
    await fill(env)
    page = await call(env, "GET /skills", "/skills?q=pdf&category=documents&tier=SCANNED&author=uploads&sort=newest")
    for field in ('name="q" type="search" maxlength="200" value="pdf"', 'value="documents"', 'value="uploads"'):
        assert field in page.text
    assert 'value="SCANNED" selected' in page.text
    assert 'value="newest" selected' in page.text
    assert "2 results, newest first" in page.text


@pytest.mark.parametrize("query", ["tier=GOLD", "sort=name", "page=2", f"q={'x' * 201}", "cursor=x", "q=a&q=b"])
async def test_a_query_that_cannot_be_served_is_an_error_and_never_ignored(env, query):
    page = await call(env, "GET /skills", f"/skills?{query}")
    assert page.status == 400
    assert "Bad request" in page.text


async def test_a_cursor_fits_only_the_search_it_was_made_for(env, monkeypatch):
    monkeypatch.setattr("functions.html.skill_pages.SHOWN", 1)
    await fill(env)
    first = await call(env, "GET /skills", "/skills?q=pdf&sort=newest")
    following = re.search(r'href="([^"]+)" rel="next"', first.text)[1].replace("&amp;", "&")
    second = await call(env, "GET /skills", following)
    assert names(first.text) + names(second.text) == ["pdf-reader", "pdf-forms"]
    assert (await call(env, "GET /skills", following.replace("q=pdf", "q=csv"))).status == 400


async def test_the_points_of_a_skill_add_up_to_its_trust(env):
    await fill(env)
    name = "uploads/anonymous/pdf-forms"
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)
    total = re.search(r'<p class="score"><b>(\d+)</b> of 100', page.text)[1]
    points = re.findall(r'title="Points of the trust score">([\d.]+) of (\d+)<', page.text)
    assert int(total) == round(sum(float(earned) for earned, _ in points)) == 40
    assert [int(most) for _, most in points] == [30, 30, 20, 20]
    assert "Submit its public repository instead." in page.text
    assert "5 more points each: over 90 days old (in 90 days), over 100 installs." in page.text
    assert "Community: never blocked, no confirmed reports, under 90 days old, 0 installs" in page.text


async def test_installs_are_shown_and_an_upload_has_no_repository(env):
    accepted = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, accepted.submission)
    name = "uploads/anonymous/greeter"
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)
    assert "<dt>Installs</dt><dd>0</dd>" in page.text
    assert "<dt>Repository</dt>" not in page.text  # an upload has none


async def test_a_badge_is_shown_and_its_snippet_leads_back_here(env):
    await fill(env)
    name = "uploads/anonymous/pdf-forms"
    headers = {"host": "skills.example", "x-forwarded-proto": "https"}
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name, headers=headers)
    badge = re.search(r'<img src="([^"]+)" alt="Badge of pdf-forms"', page.text)[1]
    answer = await call(env, "GET /api/v1/skills/{proxy+}", badge, proxy=badge.removeprefix("/api/v1/skills/"))
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml; charset=utf-8")
    snippet = f"[![pdf-forms](https://skills.example{badge})](https://skills.example/skills/{name})"
    assert snippet in page.text


async def test_a_blocked_skill_of_the_same_owner_is_a_warning(env):
    await put_skills(env.kv, a_skill("acme/tools/good", 1), a_skill("acme/tools/bad", 2))
    await within(env, lambda: block_skill("acme/tools/bad", "it steals", "admin:anna"))
    page = await call(env, "GET /skills/{proxy+}", "/skills/acme/tools/good", proxy="acme/tools/good")
    assert "Other skills by this author have been blocked" in page.text
    assert "The text is temporarily unavailable" in page.text  # and a page without its files is still a page
    blocked = await call(env, "GET /skills/{proxy+}", "/skills/acme/tools/bad", proxy="acme/tools/bad")
    assert "This skill is blocked. Do not install it; uninstall existing copies. Reason: it steals" in blocked.text
    assert "npx" not in blocked.text
    assert "The text of a blocked skill is not shown" in blocked.text


async def test_the_changes_of_a_blocked_skill_are_not_shown_either(env):
    first = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, first.submission)
    files = a_bundle(description="Greets zebras.")["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, first.upload_token, None, None))
    await processed(env, again.submission)
    name = first.submission.skill_name
    address = f"/skills/{name}?from=1.0.0&to=1.0.1"
    assert "Changes from 1.0.0" in (await call(env, "GET /skills/{proxy+}", address, proxy=name)).text
    await within(env, lambda: block_skill(name, "it steals keys", "admin:anna"))
    page = await call(env, "GET /skills/{proxy+}", address, proxy=name)
    assert page.status == 200
    assert "Changes from" not in page.text


async def test_released_follows_the_version_and_the_first_publication_is_apart(env):
    accepted = await within(env, lambda: intake.submit_bundle("greeter", a_bundle()["files"], None, None, None))
    await processed(env, accepted.submission)
    env.clock.forward(days=40)
    files = a_bundle(description="Greets people twice.")["files"]
    again = await within(env, lambda: intake.submit_bundle("greeter", files, accepted.upload_token, None, None))
    await processed(env, again.submission)
    env.clock.forward(days=2)
    name = accepted.submission.skill_name
    page = (await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)).text
    assert re.search(r"<dt>Released</dt><dd>1\.0\.1, <time [^>]+>2 days ago", page)
    assert re.search(r"<dt>First release</dt><dd><time [^>]+>1 month ago", page)
    assert ">2 days ago<" in (await call(env, "GET /", "/")).text


async def test_a_result_shows_its_score_and_what_it_may_do(env):
    able = a_skill("a/tools/able", 2, capabilities=("shell", "network"), judge_score=90)
    await put_skills(env.kv, a_skill("a/tools/plain", 1), able)
    able, plain = (await call(env, "GET /skills", "/skills")).text.split('<li data-id="')[1:]
    assert "<b>67</b>" in able
    assert "Runs shell commands" in able
    assert "Accesses the network" in able
    assert "<b>40</b>" in plain
    assert "No permissions detected" in plain


def options(page: str, facet: str) -> list[str]:
    select = re.search(rf'<select id="{facet}".*?</select>', page)[0]
    return re.findall(r"<option[^>]*>([^<]+)<", select)


async def test_filters_are_selects_with_the_number_of_skills_of_each_value(env):
    await fill(env)
    page = (await call(env, "GET /skills", "/skills")).text
    assert options(page, "category") == ["Any", "documents (2)", "data (1)"]
    assert options(page, "tier") == ["Any", "Scanned (3)", "Certified (0)", "Verified (0)"]
    await within(env, lambda: block_skill("uploads/anonymous/csv-cleaner", "It steals keys.", "admin:anna"))
    page = (await call(env, "GET /skills", "/skills?category=Data")).text
    assert options(page, "category") == ["Any", "documents (2)", "data (0)"]
    assert 'value="data" selected' in page


async def test_a_category_that_is_not_counted_can_be_chosen_too(env):
    await within(env, lambda: put_skills(env.kv, a_skill("a/b/c", category="falconry", license="MIT")))
    page = (await call(env, "GET /skills", "/skills")).text
    assert options(page, "category") == ["Any", "falconry (not counted)"]
    for query in ("category=falconry", "license=mit", "tool=hawk"):
        name, _, value = query.partition("=")
        assert f'<option value="{value}" selected>' in (await call(env, "GET /skills", f"/skills?{query}")).text, name
