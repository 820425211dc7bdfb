"""What readers do: counts that equal the requests answered with yes, reports that reviewers settle, trust."""

import asyncio
from datetime import timedelta

import pytest

from shared.errors import ConditionFailed, Conflict, InvalidRequest, NotFound, Unavailable
from shared.marketplace.community import (
    MAX_NAMES,
    add_report,
    count_installs,
    get_report,
    list_reports,
    resolve_report,
    trust_of,
)
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import counts_key, read_skills, skill_key
from shared.records.decision import OFTEN_INSTALLED, OLD_ENOUGH
from shared.records.skills import SkillCounts
from shared.storage.kv import Key, Put
from shared.timing import time_limit
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import MemoryKV, Stored, memory_env, within
from tests.support.stored_skills import a_skill, put_skills, puts_of

NAME = "a/b/pdf"
AUDIT = Put(Key("audit:2026-01", "1"), "{}")


async def counts(env, name=NAME):
    return (await within(env, lambda: read_skills([name]))).counts[name.lower()]


async def installed(env, *names):
    return await within(env, lambda: count_installs(names))


async def test_installs_are_counted_and_order_the_list(env):
    await put_skills(env.kv, *(a_skill(f"a/b/s{n}", n) for n in range(3)))
    for names in (["a/b/s1"], ["a/b/s1", "A/B/S0"], ["a/b/s1"]):
        assert (await installed(env, *names)).unknown == []
    page = await within(env, lambda: list_skills(SkillQuery(sort="installs")))
    assert [(skill.name, page.counts_of(skill).installs) for skill in page.skills] == [
        ("a/b/s1", 3),
        ("a/b/s0", 1),
        ("a/b/s2", 0),
    ]


async def test_a_published_skill_is_in_the_order_by_installs_at_once(env):
    await processed(env, await submitted(env, a_bundle("greeter")))
    page = await within(env, lambda: list_skills(SkillQuery(sort="installs")))
    assert [skill.name for skill in page.skills] == ["uploads/anonymous/greeter"]


async def test_unknown_names_are_reported_and_the_others_counted(env):
    await put_skills(env.kv, a_skill(NAME), a_skill("a/b/blocked", 1, is_blocked=True))
    counted = await installed(env, NAME, "a/b/none", "a/b/blocked")
    assert counted == ([NAME], ["a/b/blocked", "a/b/none"])
    assert (await counts(env)).installs == 1


async def test_a_skill_of_an_older_release_without_a_count_starts_at_one(env):
    await put_skills(env.kv, a_skill(NAME))
    del env.kv.items[counts_key(NAME)]
    await installed(env, NAME)
    assert (await counts(env)).installs == 1


@pytest.mark.requirement("R19")
async def test_installs_of_one_moment_are_all_counted(env):
    await put_skills(env.kv, a_skill(NAME))
    await asyncio.gather(*(installed(env, NAME) for _ in range(20)))
    assert (await counts(env)).installs == 20


@pytest.mark.requirement("R18")
async def test_what_is_refused_counts_nothing():
    class Contended(MemoryKV):
        async def transact(self, build):
            if any(write.key == counts_key("a/b/hot") for write in build()):
                raise ConditionFailed([0])
            return await super().transact(build)

    env = memory_env(Contended)
    for skill in (a_skill(NAME), a_skill("a/b/hot", 1)):
        env.kv.items |= {put.key: Stored(put.doc, dict(put.attrs)) for put in puts_of(skill)}
    with time_limit(timedelta(milliseconds=50)), pytest.raises(Unavailable):
        await installed(env, NAME, "a/b/hot")
    assert (await counts(env)).installs == 0


async def test_more_skills_than_a_transaction_takes_are_refused(env):
    with pytest.raises(InvalidRequest):
        await installed(env, *(f"a/b/s{n}" for n in range(MAX_NAMES + 1)))


async def test_counts_that_cannot_be_read_are_not_taken_for_zero():
    class Bad(MemoryKV):
        async def load(self, key):
            if key == counts_key(NAME):
                raise Unavailable("throttled")
            return await super().load(key)

    env = memory_env(Bad)
    await put_skills(env.kv, a_skill(NAME), installs={NAME: 50})
    with pytest.raises(Unavailable):
        await installed(env, NAME)


# --- reports --------------------------------------------------------------------------------------------------------


async def reported(env, name=NAME, type_="malicious", text="It sends my keys away."):
    return await within(env, lambda: add_report(name, type_, text, env.clock()))


async def open_reports(env, limit=50):
    shown, after = [], None
    while True:
        page = await within(env, lambda a=after: list_reports(limit, a))
        shown += [report.id for report in page.reports]
        if page.next_position is None:
            return shown
        after = page.next_position


async def test_a_report_is_listed_newest_first_counted_and_settled_once(env):
    await put_skills(env.kv, a_skill(NAME))
    made = [await reported(env, NAME.upper() if n else NAME) for n in range(5)]
    ids = [report.id for report in reversed(made)]
    assert await open_reports(env) == await open_reports(env, 1) == await open_reports(env, 2) == ids
    assert (await counts(env)).open_reports == 5
    assert {report.skill_name for report in made} == {NAME}
    settled = await within(env, lambda: resolve_report(ids[0], "nothing found", "ann", env.clock(), [AUDIT]))
    assert (settled.is_open, settled.settled_by, settled.outcome) == (False, "ann", "nothing found")
    assert AUDIT.key in env.kv.items
    assert (await counts(env)).open_reports == 4
    with pytest.raises(Conflict) as before:
        await within(env, lambda: resolve_report(ids[0], "again", "bob", env.clock()))
    assert before.value.code == "already_settled"
    assert (await within(env, lambda: get_report(ids[0]))).settled_by == "ann"
    assert await open_reports(env) == ids[1:]
    everything = await within(env, lambda: list_reports(only_open=False))
    assert [report.id for report in everything.reports] == ids


async def test_installs_and_reports_of_one_moment_do_not_overwrite_each_other(env):
    await put_skills(env.kv, a_skill(NAME))
    await asyncio.gather(*(installed(env, NAME) for _ in range(8)), *(reported(env) for _ in range(8)))
    now = await counts(env)
    assert (now.installs, now.open_reports) == (8, 8)


@pytest.mark.parametrize(
    ("name", "type_", "text", "error"),
    [
        (NAME, "evil", "x", InvalidRequest),
        (NAME, "spam", "  ", InvalidRequest),
        (NAME, "spam", "x" * 2001, InvalidRequest),
        ("a/b/none", "spam", "x", NotFound),
    ],
)
async def test_a_report_that_says_nothing_usable_is_refused(env, name, type_, text, error):
    await put_skills(env.kv, a_skill(NAME))
    with pytest.raises(error):
        await reported(env, name, type_, text)
    assert await open_reports(env) == []


async def test_a_report_about_a_skill_that_is_gone_can_still_be_settled(env):
    await put_skills(env.kv, a_skill(NAME))
    report = await reported(env)
    del env.kv.items[skill_key(NAME)]
    assert not (await within(env, lambda: resolve_report(report.id, "gone", "ann", env.clock()))).is_open


# --- trust ----------------------------------------------------------------------------------------------------------


def test_trust_follows_installs_age_confirmed_reports_and_blocks(env):
    skill = a_skill(NAME)
    young, old = skill.published_at, skill.published_at + OLD_ENOUGH + timedelta(seconds=1)
    often = SkillCounts(name=NAME, installs=OFTEN_INSTALLED + 1)
    score = lambda counts, at=young: trust_of(skill, counts, at).score  # noqa: E731
    assert score(None) == 30 + 10
    assert score(often) - score(None) == 5
    assert score(SkillCounts(name=NAME, installs=OFTEN_INSTALLED)) == score(None)
    assert score(None, old) - score(None) == 5
    assert score(SkillCounts(name=NAME, open_reports=1, confirmed_reports=1)) - score(None) == -5
