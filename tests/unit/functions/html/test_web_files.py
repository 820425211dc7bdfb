"""Fixed addresses, and what a pasted link says."""

import json
import re
from datetime import datetime
from urllib.parse import urlsplit

import pytest

from functions.html import web_files
from tests.support.builders import a_bundle, processed, submitted
from tests.support.external_scans import published
from tests.support.memory import memory_env
from tests.support.route_calls import call

HOST = {"host": "skills.example", "x-forwarded-proto": "https"}


async def read(env, path: str):
    return await call(env, f"GET {urlsplit(path).path}", path, headers=HOST)


def locations(xml: str) -> list[str]:
    return [url.replace("&amp;", "&") for url in re.findall(r"<loc>([^<]+)</loc>", xml)]


async def test_every_skill_is_in_one_of_the_sitemaps_of_the_index(env, monkeypatch):
    monkeypatch.setattr(web_files, "PER_MAP", 2)
    names = [f"skill-{n}" for n in range(5)]
    for name in names:
        await published(env, name)
    index = await read(env, "/sitemap.xml")
    maps = locations(index.text)
    assert len(maps) > 3
    found = [
        url for each in maps for url in locations((await read(env, each.removeprefix("https://skills.example"))).text)
    ]
    assert sorted(url for url in found if "/skills/" in url) == [
        f"https://skills.example/skills/uploads/anonymous/{name}" for name in names
    ]
    assert {f"https://skills.example{path}" for path in web_files.PAGES} <= set(found)


async def test_the_sitemap_is_bounded(env, monkeypatch):
    monkeypatch.setattr(web_files, "PER_MAP", 1)
    monkeypatch.setattr(web_files, "MAX_MAPS", 2)
    for n in range(6):
        await published(env, f"skill-{n}")
    assert len(locations((await read(env, "/sitemap.xml")).text)) == 3  # the pages, and two


async def test_crawlers_are_kept_out_of_what_is_not_for_them_and_led_to_the_sitemap(env):
    text = (await read(env, "/robots.txt")).text
    assert "Disallow: /admin\n" in text
    assert "Disallow: /owner$\nDisallow: /owner/\n" in text  # and not the pages below /owners/
    assert text.endswith("Sitemap: https://skills.example/sitemap.xml\n")


async def test_security_txt_has_what_the_standard_requires_and_has_not_expired(env):
    text = (await read(env, "/.well-known/security.txt")).text
    fields = dict(line.split(": ", 1) for line in text.strip().split("\n"))
    assert fields["Contact"].startswith("https://")
    assert datetime.fromisoformat(fields["Expires"]) > env.clock()


async def test_security_txt_and_the_policies_name_the_contact_that_is_set():
    env = memory_env(security_contact="mailto:security@operator.example")
    assert "Contact: mailto:security@operator.example\n" in (await read(env, "/.well-known/security.txt")).text
    page = (await read(env, "/policies")).text
    assert '<a href="mailto:security@operator.example" rel="noopener noreferrer">security@operator.example</a>' in page
    assert "has not set a contact" not in page


async def test_without_a_contact_security_txt_leads_to_a_page_that_says_so(env):
    assert "Contact: https://skills.example/policies#report\n" in (await read(env, "/.well-known/security.txt")).text
    assert "has not set a contact (<code>SECURITY_CONTACT</code>)" in (await read(env, "/policies")).text


async def test_the_favicon_is_an_icon(env):
    answer = await read(env, "/favicon.ico")
    assert answer.body[:4] == b"\0\0\1\0"
    assert b"\x89PNG" in answer.body


async def test_a_pasted_link_of_a_skill_says_its_verdict_and_score(env):
    skill = await published(env, "greeter")
    name = skill.skill_name
    path = f"/skills/{name}"
    text = (await call(env, "GET /skills/{proxy+}", path, headers=HOST, proxy=name)).text
    described = re.search(r'<meta property="og:description" content="([^"]+)"', text)[1]
    score = re.search(r'class="score"><b>(\d+)<', text)[1]
    assert f"trust score {score} of 100." in described
    assert f'<link rel="canonical" href="https://skills.example{path}">' in text
    linked = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', text, re.DOTALL)[1])
    assert (linked["@type"], linked["identifier"]) == ("SoftwareSourceCode", name)
    assert f"trust score {score} of 100." in linked["abstract"]


async def test_what_an_author_wrote_cannot_leave_the_data_block(env):
    bundle = a_bundle("greeter", 'Ends it: \'</script><img src=x onerror="a">')
    await processed(env, await submitted(env, bundle))
    name = "uploads/anonymous/greeter"
    text = (await call(env, "GET /skills/{proxy+}", f"/skills/{name}", headers=HOST, proxy=name)).text
    assert "</script><img" not in text
    assert json.loads(re.search(r"ld\+json\">(.*?)</script>", text, re.DOTALL)[1])["url"].endswith(name)


@pytest.mark.parametrize("path", ["/guide", "/queue"])
async def test_every_page_has_a_canonical_address_and_a_title_for_links(env, path):
    text = (await read(env, f"{path}")).text
    assert f'<link rel="canonical" href="https://skills.example{path}">' in text
    assert re.search(r'<meta property="og:title" content="[^"]+">', text)


async def test_stamps_of_a_timeline_are_times_that_a_script_can_localize(env):
    submission = await submitted(env)
    text = (await call(env, "GET /submissions/{id}", f"/submissions/{submission.id}", id=submission.id)).text
    assert re.search(r'<time datetime="[^"]+" data-local>[\d-]+ [\d:]+ UTC</time>', text)
