"""One loop for the life of the process, and nothing of one invocation in the next."""

import asyncio
from datetime import timedelta

import pytest

from shared import runtime
from shared.errors import Unavailable
from shared.timing import seconds_left

LIMIT = timedelta(seconds=5)


def test_every_invocation_runs_on_the_same_loop():
    async def loop():
        return asyncio.get_running_loop()

    assert runtime.run(loop, LIMIT) is runtime.run(loop, LIMIT)


def test_a_call_that_a_failed_gather_left_behind_does_not_run_on_into_the_next_invocation():
    woken = []

    async def slow():
        await asyncio.sleep(0.01)
        woken.append("after its invocation was over")

    async def failing():
        raise Unavailable("down")

    async def gathered():
        await asyncio.gather(slow(), failing())

    with pytest.raises(Unavailable):
        runtime.run(gathered, LIMIT)
    runtime.run(lambda: asyncio.sleep(0.05), LIMIT)
    assert woken == []


def test_the_time_limit_of_one_invocation_is_not_that_of_the_next():
    async def left():
        return seconds_left(timedelta(seconds=100))

    assert runtime.run(left, timedelta(seconds=1)) <= 1
    assert runtime.run(left, timedelta(seconds=50)) > 1
