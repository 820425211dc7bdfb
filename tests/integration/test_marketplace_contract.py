"""Searching, listing, counting and rebuilding mean the same on the in-memory store, on moto, ministack and
the store of one machine."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from shared.marketplace import skill_search
from shared.marketplace.community import add_report, count_installs, list_reports, resolve_report
from shared.marketplace.skill_admin import block_skill, unblock_skill, yank_version
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import get_skill, read_skills, skill_put
from shared.moderation.index_rebuild import rebuild_index
from shared.moderation.maintenance import migrate_skill_slugs
from shared.records.search_words import is_match, query_words, skill_words
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import ABSENT
from shared.submissions import word_index
from shared.submissions.submission_search import find_refused, search_submissions
from tests.support.aws_resources import create_resources
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.memory import memory_env, within
from tests.support.stored_skills import a_skill, put_skills


@pytest.fixture(params=["memory", "moto", "ministack", "store"])
async def env(request):
    env = memory_env()
    if request.param == "memory":
        yield env
        return
    settings = load_settings(create_resources(request.getfixturevalue(f"{request.param}_url")))
    aws = Aws(settings)
    yield replace(env, kv=DynamoKV(partial(aws.call, "dynamodb"), settings.table_name))
    await aws.close()


async def pages(env, query: SkillQuery) -> list[str]:
    shown = []
    while True:
        page = await within(env, lambda q=query: list_skills(q))
        shown += [skill.name for skill in page.skills]
        if page.next_position is None:
            return shown
        query = query._replace(after=page.next_position)


def a_market():
    kinds = ("pdf", "pdf-tools", "csv", "ångström-table")
    return [
        a_skill(
            f"{'Acme' if n % 2 else 'zed'}/r{n}/{kinds[n % 4]}",
            n,
            description="Turns a pdf into tables." if n % 3 else "Draws.",
            category="documents" if n % 5 else "other",
            is_blocked=n % 7 == 6,
        )
        for n in range(12)
    ]


@pytest.mark.requirement("I14")
@pytest.mark.parametrize("longest", [4, 1000])
async def test_every_order_and_page_size_shows_what_the_records_say(env, monkeypatch, longest):
    monkeypatch.setattr(word_index, "LONGEST_LIST", longest)
    monkeypatch.setattr(skill_search, "LONGEST_LIST", longest)
    skills = a_market()
    installs = {skill.name: n * 3 % 7 for n, skill in enumerate(skills)}
    await put_skills(env.kv, *skills, installs=installs)
    shown = [skill for skill in skills if not skill.is_blocked]
    newest = [skill.name for skill in reversed(shown)]
    by_installs = sorted(newest, key=lambda name: (installs[name], name.lower()), reverse=True)
    of_acme = [name for name in newest if name.startswith("Acme")]
    for limit in (3, 100):
        assert await pages(env, SkillQuery(limit=limit)) == newest
        assert await pages(env, SkillQuery(sort="installs", limit=limit)) == by_installs
        assert await pages(env, SkillQuery(author="acme", limit=limit)) == of_acme
        documents = [skill.name for skill in reversed(shown) if skill.category == "documents"]
        both = SkillQuery(author="acme", category="documents", limit=limit)
        assert await pages(env, both) == [name for name in of_acme if name in documents]
        for q in ("pdf", "tab pdf", "ÅNGSTRÖM"):
            found = await pages(env, SkillQuery(q=q, limit=limit))
            assert sorted(found) == sorted(s.name for s in shown if is_match(query_words(q), skill_words(s))), q


async def test_submissions_are_found_from_their_acceptance_to_their_end(env):
    submission = await submitted(env, an_unusable_bundle("broken-thing"))
    await submitted(env, a_bundle("other"))
    find = lambda: within(env, lambda: search_submissions("thing brok", 10))  # noqa: E731
    assert [row.id for row in (await find()).rows] == [submission.id]
    await processed(env, submission)
    assert [row.state for row in (await find()).rows] == ["REJECTED"]
    refused = await within(env, lambda: find_refused("broken-thing", "uploads/anonymous"))
    assert (refused.rejected.id, refused.blocked) == (submission.id, None)


@pytest.mark.requirement("R19")
async def test_installs_and_reports_of_one_moment_are_all_counted(env, request):
    movers = 3 if "moto" in request.node.name else 10  # moto copies the whole table for each transaction
    await put_skills(env.kv, a_skill("a/b/hot"), a_skill("a/b/cold", 1))
    installs = (within(env, lambda: count_installs(["a/b/hot", "a/b/cold"])) for _ in range(movers))
    reports = (within(env, lambda: add_report("a/b/hot", "spam", "It is spam.", env.clock())) for _ in range(3))
    await asyncio.gather(*installs, *reports)
    counts = (await within(env, lambda: read_skills(["a/b/hot", "a/b/cold"]))).counts
    assert [(c.installs, c.open_reports) for c in counts.values()] == [(movers, 3), (movers, 0)]
    page = await within(env, lambda: list_reports(2))
    await within(env, lambda: resolve_report(page.reports[0].id, "was spam", "ann", env.clock()))
    assert len((await within(env, list_reports)).reports) == 2
    assert len((await within(env, lambda: list_reports(only_open=False))).reports) == 3


async def test_publish_block_unblock_and_yank_go_through_the_store(env):
    submission = await submitted(env, a_bundle("greeter", "Greets llamas."))
    await processed(env, submission)
    assert await pages(env, SkillQuery(q="llamas")) == [submission.skill_name]
    await within(env, lambda: block_skill(submission.skill_name, "steals keys", "admin:ann"))
    assert await pages(env, SkillQuery(q="llamas")) == await pages(env, SkillQuery()) == []
    await within(env, lambda: unblock_skill(submission.skill_name, "it did not", "admin:ann"))
    assert await pages(env, SkillQuery(q="llamas")) == [submission.skill_name]
    await within(env, lambda: yank_version("greeter", "1.0.0", "bad"))
    assert await pages(env, SkillQuery()) == []
    assert (await within(env, lambda: get_skill("greeter"))).is_yanked


async def test_indexes_are_rebuilt_from_records_alone(env):
    for skill in a_market():
        await env.kv.put(skill_put(skill, ABSENT))
    assert await pages(env, SkillQuery(q="pdf")) == []
    position, missing = None, 0
    while True:
        progress = await within(env, lambda p=position: rebuild_index(p, 6))
        missing += sum(progress.missing.values())
        position = progress.next_position
        if position is None:
            break
    assert missing > 80
    assert await pages(env, SkillQuery(q="pdf"))
    assert (await within(env, rebuild_index)).missing == {}
    assert await within(env, migrate_skill_slugs) == []
