"""Closed hours are one record a day: a view reads that instead of ten counters for each hour."""

from datetime import timedelta
from functools import partial

import msgspec
import pytest

from bench.cost import cost_of_submission, cost_of_view, metered_env
from shared.records.submissions import new_id
from shared.storage.documents import encode
from shared.storage.kv import Put
from shared.submissions import counters
from shared.submissions.counters import get_hours, roll_up_hours
from shared.submissions.feed_store import feed_put
from shared.submissions.submission_store import submission_key
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
    assert dynamo.reads_by_family == {"stats:hour": 10, "stats:day": 2}
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
    assert dynamo.reads_by_family["stats:hour"] == 10 + 23 * 20  # under both keys


async def test_the_queue_reads_at_most_40_units_when_nothing_is_active(metered):
    env, dynamo = metered
    await cost_of_submission(env, dynamo)
    env.clock.time += timedelta(hours=3)
    await within(env, partial(roll_up_hours, env.clock()))
    assert (await cost_of_view(env, dynamo))["read units"] <= 40


async def test_a_published_submission_writes_no_more_than_it_did(metered):
    """The target is 90; docs/aws.md says which families are above it."""
    env, dynamo = metered
    assert (await cost_of_submission(env, dynamo))["write units"] <= 142


async def test_what_an_earlier_release_counted_is_carried_over(metered, monkeypatch):
    env, _ = metered
    with monkeypatch.context() as earlier:
        earlier.setattr(counters, "hour_key", counters._former_hour_key)
        await processed(env, await submitted(env, a_bundle("one")))
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


async def test_the_counters_of_an_hour_are_in_partitions_of_their_own():
    now = metered_env()[0].clock()
    assert len({counters.hour_key(now, shard).pk for shard in range(counters.COUNTER_SHARDS)}) == 10


@pytest.mark.parametrize(("moves", "most"), [(100, 71), (10_000, 970)])
async def test_a_view_reads_a_limited_number_of_units_however_much_has_just_moved(metered, moves, most):
    """Ten rows of the feed are a unit, and each record that is read again takes one. Without limits: 3,378."""
    env, dynamo = metered
    await within(env, partial(roll_up_hours, env.clock()))
    at, first = env.clock(), await submitted(env, a_bundle())
    for n in range(moves // 4):
        one = msgspec.structs.replace(first, id=new_id(at - timedelta(milliseconds=n)))
        await env.kv.put(Put(submission_key(one.id), encode(one)))
        for version in range(4):
            moved = at - timedelta(seconds=(n + version) % 110)
            await env.kv.put(feed_put(msgspec.structs.replace(one, version=version + 1, updated_at=moved)))
    assert (await cost_of_view(env, dynamo))["read units"] <= most
