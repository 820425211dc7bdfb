"""Reads of many records happen at once, and one bad record costs its own row."""

import asyncio
import re
from datetime import timedelta

import pytest

from shared.db import now
from shared.errors import Unavailable
from shared.marketplace import skill_store
from shared.records.submissions import STUCK_STATES, STUCK_THRESHOLD, State
from shared.storage.kv import Key, Put
from shared.submissions import submission_store
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.timing import FEED_WINDOW
from tests.support import naive_versions
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.probes import BarrierKV, reads_all_at_once
from tests.support.route_calls import call


@pytest.fixture
def barrier_env():
    return memory_env(BarrierKV)


async def several(env, n: int) -> list[str]:
    return [(await submitted(env, a_bundle(f"skill-{k}"))).id for k in range(n)]


async def published(env, n: int) -> None:
    for k in range(n):
        await processed(env, await submitted(env, a_bundle(f"skill-{k}")))


def fresh(ids):
    return lambda: submission_store.get_submissions_fresh(ids)


def stuck():
    return submission_store.get_stuck_submissions(now())


@pytest.mark.requirement("TC-050", "AC-0281-US1-01", "AC-0281-US1-03", "FR-0281-001")
@pytest.mark.parametrize("n", [2, 10, 250])
async def test_get_submissions_fresh_reads_all_at_once(barrier_env, n):
    ids = await several(barrier_env, n)
    assert await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, n, fresh(ids)))


@pytest.mark.requirement("TC-050")
async def test_the_probe_rejects_a_sequential_reader(barrier_env):
    ids = await several(barrier_env, 2)
    naive = lambda: naive_versions.get_submissions_one_by_one(ids)  # noqa: E731
    assert not await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 2, naive))


@pytest.mark.requirement("TC-070", "TC-056", "AC-0310-US1-01", "AC-SPEC-US1-01", "AC-SPEC-US1-03")
async def test_stuck_are_read_at_once(barrier_env):
    await several(barrier_env, 5)
    barrier_env.clock.forward(minutes=30)
    assert await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 5, stuck))
    found = await within(barrier_env, stuck)
    assert len(found.submissions) == 5


@pytest.mark.requirement("TC-056")
async def test_the_probe_rejects_a_sequential_scan(barrier_env):
    await several(barrier_env, 2)
    naive = naive_versions.get_stuck_submissions_one_by_one
    assert not await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 2, naive))


@pytest.mark.requirement("TC-075", "TC-057", "AC-0310-US2-01", "AC-SPEC-US2-01", "AC-SPEC-US2-03")
async def test_skills_are_read_at_once(barrier_env):
    await published(barrier_env, 4)
    everything = skill_store.enumerate_published_skills
    assert await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 4, everything))


@pytest.mark.requirement("TC-057")
async def test_the_probe_rejects_a_sequential_enumeration(barrier_env):
    await published(barrier_env, 2)
    naive = naive_versions.enumerate_published_skills_one_by_one
    assert not await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 2, naive))


@pytest.mark.requirement("TC-077", "AC-0310-US2-03")
async def test_aliases_are_never_read(barrier_env):
    await published(barrier_env, 2)
    barrier_env.kv.loaded = []
    await within(barrier_env, skill_store.enumerate_published_skills)
    names = {f"skill:uploads/anonymous/skill-{k}" for k in range(2)}
    assert {key.pk for key in barrier_env.kv.loaded} == names
    assert any(key.pk.startswith("skill:alias:") for key in barrier_env.kv.items)  # there were some to skip


class PartlyBrokenKV(MemoryKV):
    unreadable: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()  # an index still has them

    async def load(self, key: Key):
        if key.pk in self.gone:
            return None
        if key.pk in self.unreadable:
            raise Unavailable("throttled")
        return await super().load(key)


@pytest.fixture
def broken_env():
    return memory_env(PartlyBrokenKV)


async def break_one(env, key: Key) -> None:
    stored = env.kv.items[key]
    await env.kv.put(Put(key, "{not json", stored.attrs))


@pytest.mark.requirement("AC-0281-US1-02", "FR-0281-001")
async def test_a_malformed_a_missing_and_a_throttled_key_cost_their_own_rows(broken_env):
    good, malformed, throttled = await several(broken_env, 3)
    await break_one(broken_env, Key(f"sub:{malformed}"))
    broken_env.kv.unreadable = frozenset({f"sub:{throttled}"})
    missing = "sub_" + "0" * 26
    read = await within(broken_env, fresh([good, malformed, throttled, missing]))
    assert [submission.id for submission in read.submissions] == [good]
    assert read.missing == [missing]
    assert sorted(read.failed) == sorted([malformed, throttled])


@pytest.mark.requirement("TC-071", "AC-0310-US1-02", "AC-SPEC-US1-02", "FR-0310-001")
async def test_the_scan_skips_what_it_cannot_read_and_says_so(broken_env):
    good, malformed, throttled, missing = await several(broken_env, 4)
    await break_one(broken_env, Key(f"sub:{malformed}"))
    broken_env.kv.unreadable = frozenset({f"sub:{throttled}"})
    attrs = broken_env.kv.items.pop(Key(f"sub:{missing}")).attrs
    assert attrs["duePk"].startswith("due:waiting")
    broken_env.clock.forward(minutes=30)
    found = await within(broken_env, stuck)
    assert [submission.id for submission in found.submissions] == [good]
    assert sorted(found.failed) == sorted([malformed, throttled])


@pytest.mark.requirement("TC-076", "AC-0310-US2-02", "AC-SPEC-US2-02", "FR-0310-001")
async def test_a_malformed_or_unreadable_skill_costs_its_own_row(broken_env):
    await published(broken_env, 3)
    await break_one(broken_env, Key("skill:uploads/anonymous/skill-0"))
    broken_env.kv.unreadable = frozenset({"skill:uploads/anonymous/skill-1"})
    read = await within(broken_env, skill_store.enumerate_published_skills)
    assert [skill.name for skill in read.skills] == ["uploads/anonymous/skill-2"]
    assert sorted(read.failed) == ["uploads/anonymous/skill-0", "uploads/anonymous/skill-1"]


@pytest.mark.requirement("TC-072", "AC-0310-US1-03")
async def test_only_stuck_states_past_the_threshold_are_returned(env):
    waiting = await submitted(env, a_bundle("waiting"))
    await processed(env, await submitted(env, a_bundle("done")))
    env.clock.forward(seconds=STUCK_THRESHOLD.total_seconds() - 1)
    assert (await within(env, stuck)).submissions == []
    await submitted(env, a_bundle("young"))
    env.clock.forward(seconds=2)
    assert [submission.id for submission in (await within(env, stuck)).submissions] == [waiting.id]


@pytest.mark.requirement("TC-072", "AC-0310-US1-03")
async def test_the_record_decides_about_state_and_threshold_when_the_due_index_is_old(env):
    """The index still lists three: one has ended, one has moved since, and only one is really stuck."""
    ended, moved, waiting = [await submitted(env, a_bundle(name)) for name in ("ended", "moved", "waiting")]
    old = {s.id: dict(env.kv.items[Key(f"sub:{s.id}")].attrs) for s in (ended, moved)}
    await processed(env, ended)
    env.clock.forward(seconds=STUCK_THRESHOLD.total_seconds() - 1)
    await within(env, lambda: submission_store.move_submission(moved, State.ON_HOLD, "tests", "looked at"))
    held = await within(env, lambda: submission_store.get_submission(moved.id))
    await within(env, lambda: submission_store.move_submission(held, State.RECEIVED, "tests", "again"))
    for submission_id, attrs in old.items():
        env.kv.items[Key(f"sub:{submission_id}")].attrs.update({name: attrs[name] for name in ("duePk", "dueSk")})
    env.clock.forward(seconds=2)
    assert [submission.id for submission in (await within(env, stuck)).submissions] == [waiting.id]


@pytest.mark.parametrize("state", State)
def test_only_active_states_can_be_stuck(state):
    assert (state in STUCK_STATES) == (state in ("RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "AUTO_APPROVED"))


@pytest.mark.requirement("AC-0281-US3-01", "AC-0281-US3-02", "FR-0281-003")
@pytest.mark.parametrize("age", [timedelta(), FEED_WINDOW + timedelta(minutes=1)], ids=["just changed", "long ago"])
async def test_a_list_shows_records_not_what_an_old_index_says(env, age):
    """The index of one record is turned back to what it was: the list must not believe it. What has just changed is
    in the feed; later only reading active rows again can tell."""
    old, other = await submitted(env, a_bundle("old")), await submitted(env, a_bundle("other"))
    stale = dict(env.kv.items[Key(f"sub:{old.id}")].attrs)
    await processed(env, old)
    item = env.kv.items[Key(f"sub:{old.id}")]
    item.attrs.update({name: stale[name] for name in ("row", "statePk", "stateSk")})
    env.clock.forward(seconds=age.total_seconds())
    states = {old.id: State.PUBLISHED, other.id: State.RECEIVED}
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert {row.id: row.state for row in listing.rows} == states
    active = await within(env, lambda: list_submissions(ListQuery(states=(State.RECEIVED,))))
    assert [row.id for row in active.rows] == [other.id]
    shown = (await call(env, "GET /api/v1/submissions")).json["submissions"]
    assert {row["id"]: row["state"] for row in shown} == states
    page = (await call(env, "GET /queue")).text
    assert dict(re.findall(r'<tr data-id="(\w+)" data-version="\d+" data-state="(\w+)"', page)) == states


@pytest.mark.requirement("AC-0281-US3-01")
async def test_what_the_index_does_not_know_yet_is_listed(env):
    new = await submitted(env)
    for name in ("listPk", "listSk", "statePk", "stateSk"):
        del env.kv.items[Key(f"sub:{new.id}")].attrs[name]
    for query in (ListQuery(), ListQuery(by_update=True), ListQuery(states=(State.RECEIVED,))):
        listing = await within(env, lambda q=query: list_submissions(q))
        assert [row.id for row in listing.rows] == [new.id]


@pytest.mark.requirement("AC-0281-US3-02")
async def test_a_row_that_cannot_be_read_again_is_kept_and_named(broken_env):
    good, throttled = await several(broken_env, 2)
    broken_env.kv.unreadable = frozenset({f"sub:{throttled}"})
    listing = await within(broken_env, lambda: list_submissions(ListQuery()))
    assert {row.id for row in listing.rows} == {good, throttled}
    assert listing.stale == [throttled]
    assert listing.degraded


@pytest.mark.requirement("AC-0281-US3-02")
async def test_a_row_without_a_record_is_not_listed(broken_env):
    there, gone = await several(broken_env, 2)
    broken_env.kv.gone = frozenset({f"sub:{gone}"})
    listing = await within(broken_env, lambda: list_submissions(ListQuery()))
    assert [row.id for row in listing.rows] == [there]


@pytest.mark.requirement("AC-0281-US3-03")
async def test_counts_are_true_with_the_first_answer(env):
    for n in range(3):
        await submitted(env, a_bundle(f"waits-{n}"))
    await processed(env, await submitted(env, a_bundle("done")))
    stats = (await within(env, lambda: list_submissions(ListQuery(limit=1)))).stats
    assert (stats.total, stats.active, stats.published, stats.rejected) == (4, 3, 1, 0)
    assert stats.total == stats.active + stats.published + stats.rejected + stats.blocked + stats.on_hold


@pytest.mark.requirement("AC-0281-US3-03")
async def test_unknown_counts_are_null_never_zero(broken_env):
    await several(broken_env, 1)
    broken_env.kv.unreadable = frozenset({"stats:3"})
    listing = await within(broken_env, lambda: list_submissions(ListQuery()))
    assert (listing.stats.total, listing.stats.active, listing.total) == (None, None, None)
    assert listing.degraded


@pytest.mark.requirement("R25")
async def test_a_blocking_call_in_a_coroutine_is_found_by_the_barrier(barrier_env):
    ids = await several(barrier_env, 3)

    async def blocking():
        for submission_id in ids:
            await asyncio.gather(submission_store.get_submissions_fresh([submission_id]))

    assert not await within(barrier_env, lambda: reads_all_at_once(barrier_env.kv, 3, blocking))
