"""Closed hours are one record a day: a view reads that instead of ten counters for each hour."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from bench.cost import metered_env
from shared.records.submissions import State
from shared.storage.kv import Add
from shared.submissions import counters
from shared.submissions.counters import COUNTER_KEYS, get_hours, get_stats, roll_up_hours
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within


@pytest.fixture
def metered():
    env, dynamo = metered_env()
    env.clock.time = env.clock.time.replace(minute=30)
    return env, dynamo


async def test_hours_are_the_same_before_and_after_they_are_rolled_up(metered):
    env, dynamo = metered
    for name in ("one", "two"):
        await processed(env, await submitted(env, a_bundle(name)))
        env.clock.time += timedelta(hours=2)
    before = await within(env, partial(get_hours, env.clock()))
    assert await within(env, partial(roll_up_hours, env.clock())) == 25  # 26 looked at, one is open
    dynamo.forget()
    assert await within(env, partial(get_hours, env.clock())) == before
    assert dynamo.reads_by_family == {"stats": 10, "stats:day": 2}
    assert sum(hour.counts.get("created", 0) for hour in before) == 2


async def test_a_second_roll_up_finds_nothing_to_do(metered):
    env, _ = metered
    await within(env, partial(roll_up_hours, env.clock()))
    assert await within(env, partial(roll_up_hours, env.clock())) == 0


async def test_an_hour_that_may_still_be_counted_into_is_left_open(metered):
    env, _ = metered
    env.clock.time = env.clock.time.replace(minute=9)
    await within(env, partial(roll_up_hours, env.clock()))
    await processed(env, await submitted(env, a_bundle()))
    env.clock.time = env.clock.time.replace(minute=59)
    *_, this_hour = await within(env, partial(get_hours, env.clock()))
    assert this_hour.counts["created"] == 1


async def test_hours_that_no_scan_has_rolled_up_are_read_one_by_one(metered):
    env, dynamo = metered
    await processed(env, await submitted(env, a_bundle()))
    env.clock.time += timedelta(hours=3)
    dynamo.forget()
    hours = await within(env, partial(get_hours, env.clock()))
    assert [hour.counts.get("created", 0) for hour in hours[-4:]] == [1, 0, 0, 0]
    assert dynamo.reads_by_family["stats:hour"] == 23 * 20  # where earlier releases counted


async def test_an_hour_leaves_the_counters_once_it_is_stored_and_the_states_stay(metered):
    env, dynamo = metered
    for hour in range(5):
        await processed(env, await submitted(env, a_bundle(f"skill-{hour}")))
        env.clock.time += timedelta(hours=1)
    hours = await within(env, partial(get_hours, env.clock()))
    counters_of = lambda: [dynamo.items[key].attrs for key in COUNTER_KEYS if key in dynamo.items]  # noqa: E731
    kept = lambda: {name[:8] for attrs in counters_of() for name in attrs if "." in name}  # noqa: E731
    for left in (5, 0):  # the first scan stores them, the next one removes what is stored
        await within(env, partial(roll_up_hours, env.clock()))
        assert len(kept()) == left
    assert await within(env, partial(get_hours, env.clock())) == hours
    assert (await within(env, get_stats)).by_state[State.PUBLISHED] == 5


async def test_a_scan_that_read_the_days_late_overwrites_no_hour(metered):
    """It read the counters before another scan removed the hour, and the days after it was stored."""
    env, _ = metered
    await processed(env, await submitted(env))
    env.clock.time += timedelta(hours=3)
    hours = await within(env, partial(get_hours, env.clock()))
    scans = [within(env, partial(roll_up_hours, env.clock())) for _ in range(3)]
    await asyncio.gather(*scans)
    assert await within(env, partial(get_hours, env.clock())) == hours


@pytest.mark.parametrize("release", [0, 1])
async def test_what_an_earlier_release_counted_is_carried_over(metered, release):
    env, _ = metered
    former = counters._former_hour_keys(env.clock())[release]
    await env.kv.transact(lambda: [Add(former, {"created": 1})])
    await processed(env, await submitted(env, a_bundle("two")))
    await within(env, partial(roll_up_hours, env.clock()))
    *_, open_hour = await within(env, partial(get_hours, env.clock()))
    assert open_hour.counts["created"] == 2
    env.clock.time += timedelta(hours=1)
    *_, unrolled, _ = await within(env, partial(get_hours, env.clock()))
    assert unrolled.counts["created"] == 2
    await within(env, partial(roll_up_hours, env.clock()))
    *_, rolled_up, _ = await within(env, partial(get_hours, env.clock()))
    assert rolled_up.counts == unrolled.counts
