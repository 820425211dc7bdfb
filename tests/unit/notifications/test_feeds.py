"""Atom feeds: valid, stable, escaped, and with public facts only."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime

from shared.evidence.blocklist import add_block, entry_for
from shared.web.atom import FeedEntry, atom_feed
from tests.support.memory import within
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill, put_skills
from tests.unit.notifications.test_delivery import rejected

ATOM = "{http://www.w3.org/2005/Atom}"
OWNER_FEED = "GET /feeds/owners/{owner}/{repo}"


def parsed(response):
    """As RFC 4287 wants it: the elements that a feed and each entry must have, ids that are unique."""
    assert (response.status, response.headers["content-type"]) == (200, "application/atom+xml; charset=utf-8")
    feed = ET.fromstring(response.text)
    assert feed.tag == f"{ATOM}feed"
    assert feed.find(f"{ATOM}link").get("rel") == "self"
    entries = feed.findall(f"{ATOM}entry")
    for part in (feed, *entries):
        for name in ("id", "title", "updated", "author"):
            assert len(part.findall(f"{ATOM}{name}")) == 1, name
        datetime.strptime(part.findtext(f"{ATOM}updated"), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    ids = [entry.findtext(f"{ATOM}id") for entry in entries]
    assert len(set(ids)) == len(ids)
    return entries


async def test_the_feed_of_an_owner_has_what_was_decided_newest_first(env):
    await rejected(env, "First.", skill="one")
    await rejected(env, "Second <b>&amp; ]]> \x0b", skill="two")
    await rejected(env, "Another's.", repo="other/tools", repo_id=2)
    response = await call(env, OWNER_FEED, owner="Acme", repo="Skills")
    entries = parsed(response)
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == [
        "Rejected: acme/skills/two",
        "Rejected: acme/skills/one",
    ]
    assert entries[0].findtext(f"{ATOM}summary") == "Second <b>&amp; ]]>  "
    assert "Another" not in response.text


async def test_an_unchanged_feed_is_304_and_an_empty_one_stays_the_same(env):
    empty = await call(env, OWNER_FEED, owner="acme", repo="skills")
    assert parsed(empty) == []
    etag = {"if-none-match": empty.headers["etag"]}
    assert (await call(env, OWNER_FEED, headers=etag, owner="acme", repo="skills")).status == 304
    await rejected(env)
    assert (await call(env, OWNER_FEED, headers=etag, owner="acme", repo="skills")).status == 200


async def test_the_feeds_of_a_category_and_of_the_blocklist(env):
    await put_skills(env.kv, a_skill("acme/skills/pdf", 1, category="documents"), a_skill("acme/skills/csv", 2))
    entries = parsed(await call(env, "GET /feeds/categories/{category}", category="documents"))
    assert [entry.findtext(f"{ATOM}title") for entry in entries] == ["acme/skills/pdf 1.0.0"]
    await within(env, lambda: add_block(entry_for("bad/one/skill", "Steals <keys>", "https://github.com/bad/one")))
    [blocked] = parsed(await call(env, "GET /feeds/blocklist"))
    assert blocked.findtext(f"{ATOM}summary") == "Steals <keys>"


async def test_names_that_are_none_are_not_found(env):
    assert (await call(env, OWNER_FEED, owner="a b", repo="x")).status == 404
    assert (await call(env, "GET /feeds/categories/{category}", category="x" * 101)).status == 404


async def test_pages_name_their_feeds(env):
    await put_skills(env.kv, a_skill("acme/skills/pdf", 1, category="documents"))
    page = await call(env, "GET /skills/{proxy+}", proxy="acme/skills/pdf")
    assert 'type="application/atom+xml"' in page.text
    assert 'href="/feeds/owners/acme/skills"' in page.text
    assert 'href="/feeds/categories/documents"' in page.text


def test_no_text_breaks_a_feed():
    nasty = "".join(map(chr, [*range(0x20), 0xFFFE, 0xD800])) + "<>&\"'"
    feed = atom_feed("https://x.example", '/a"b', nasty, [FeedEntry(nasty, nasty, datetime.now(UTC), "/", nasty)])
    assert len(ET.fromstring(feed).findall(f"{ATOM}entry")) == 1
