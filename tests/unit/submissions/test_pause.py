"""A pause always ends by itself."""

from datetime import timedelta

import pytest

from shared.errors import InvalidRequest
from shared.submissions.pause import find_pause, pause_queue, resume_queue
from tests.support.memory import within


async def test_a_queue_is_not_paused_by_default(env):
    assert await within(env, find_pause) is None


async def test_a_pause_says_who_why_and_until_when(env):
    paused = await within(env, lambda: pause_queue("admin:ann", "GitHub is down"))
    assert await within(env, find_pause) == paused
    assert (paused.by, paused.reason) == ("admin:ann", "GitHub is down")
    assert paused.until - env.clock.time <= timedelta(hours=1)


@pytest.mark.parametrize(("duration", "hours"), [(None, 1), (timedelta(hours=24), 24), (timedelta(minutes=3), 0.05)])
async def test_a_pause_ends_by_itself(env, duration, hours):
    more = () if duration is None else (duration,)
    await within(env, lambda: pause_queue("admin:ann", "why", *more))
    env.clock.forward(hours=hours, seconds=-1)
    assert await within(env, find_pause) is not None
    env.clock.forward(seconds=2)
    assert await within(env, find_pause) is None


@pytest.mark.parametrize("duration", [timedelta(), timedelta(seconds=-1), timedelta(hours=24, seconds=1)])
async def test_a_pause_of_no_time_or_of_more_than_a_day_is_refused(env, duration):
    with pytest.raises(InvalidRequest):
        await within(env, lambda: pause_queue("admin:ann", "why", duration))
    assert await within(env, find_pause) is None


async def test_resuming_ends_it_at_once_and_pausing_again_works(env):
    await within(env, lambda: pause_queue("admin:ann", "why"))
    await within(env, lambda: resume_queue("admin:bob", "fixed"))
    assert await within(env, find_pause) is None
    await within(env, lambda: pause_queue("admin:ann", "again"))
    assert (await within(env, find_pause)).reason == "again"
