"""Numbers that must agree with each other, and time limits without waiting for them."""

import asyncio
import itertools
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from shared import timing
from shared.timing import attempts_within, seconds_left, time_limit

ROOT = Path(__file__).parents[2]


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self):
        super().__init__()
        self.elapsed = 0.0

    def time(self):
        return super().time() + self.elapsed

    def call_at(self, when, callback, *args, context=None):
        self.elapsed += max(0.0, when - self.time())
        return super().call_at(self.time(), callback, *args, context=context)


def in_no_time(coroutine):
    loop = FakeTimeLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_a_message_is_not_delivered_twice_while_a_slow_batch_runs():
    assert timing.VISIBILITY_TIMEOUT >= 6 * timing.CONSUMER_TIMEOUT


def test_a_lease_outlives_its_worker_and_ends_before_it_counts_as_stuck():
    assert timing.CONSUMER_TIMEOUT < timing.LONGEST_LEASE < timing.STUCK_THRESHOLD


def test_a_caller_that_waits_for_others_gives_up_before_its_own_time_is_over():
    """Otherwise an outage of another service would cost an attempt, at whatever pace time passes."""
    code = "from shared.timing import OVERRUN_TIME, SETTLE_TIME; assert SETTLE_TIME - OVERRUN_TIME > SETTLE_TIME / 2"
    for scale in ("1", "0.1", "0.01"):
        environment = {**os.environ, "STAGE": "local", "TIME_SCALE": scale}
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def test_a_scan_stops_by_itself_before_it_is_stopped_and_wall_time_comes_last():
    assert timing.SCAN_CPU_DEADLINE < timing.SCAN_CPU_LIMIT
    assert 3 * (timing.SCAN_CPU_LIMIT + timedelta(seconds=1)) / 0.58 <= timing.SCAN_WALL_LIMIT
    assert timing.CONSUMER_TIMEOUT - timedelta(seconds=40) >= timing.SCAN_WALL_LIMIT


def test_the_numbers_are_those_the_design_names():
    assert timedelta(seconds=120) == timing.CONSUMER_TIMEOUT
    assert timedelta(seconds=720) == timing.VISIBILITY_TIMEOUT
    assert timedelta(minutes=5) == timing.STUCK_THRESHOLD == timing.SCAN_PERIOD
    assert timedelta(minutes=15) == timing.RESEND_PERIOD == timing.LONGEST_DELAY
    assert (timedelta(), timedelta(minutes=3)) == timing.RECOVERY_DELAYS
    assert timedelta(hours=1) == timing.DEFAULT_PAUSE
    assert timedelta(hours=24) == timing.LONGEST_PAUSE == timing.DEFER_LIMIT
    assert (timing.MAX_ATTEMPTS, timing.MAX_RECEIVES, timing.SCAN_LIMIT) == (3, 5, 500)


def test_a_store_call_leaves_a_handler_time_to_answer():
    assert timing.STORE_BUDGET < timing.API_TIMEOUT
    assert timing.DEFAULT_PAUSE < timing.LONGEST_PAUSE
    assert timedelta(minutes=15) >= timing.LONGEST_DELAY  # SQS takes no longer one
    assert timing.FEED_WINDOW < timing.FEED_TTL


def _import_timing(**env):
    return subprocess.run(
        [sys.executable, "-c", "from shared import timing; print(timing.STUCK_THRESHOLD.total_seconds())"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_time_is_scaled_on_one_machine():
    assert _import_timing(STAGE="local", TIME_SCALE="0.01").stdout.strip() == "3.0"


@pytest.mark.parametrize("env", [{"STAGE": "prod"}, {"STAGE": "dev"}, {}])
def test_time_scale_is_refused_outside_stage_local(env):
    result = _import_timing(TIME_SCALE="0.01", **env)
    assert result.returncode != 0
    assert "TIME_SCALE is for stage local only" in result.stderr


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf", "fast", "\u0661"])
def test_a_time_scale_that_is_no_number_above_0_is_refused(scale):
    with pytest.raises(timing.InvalidSettings, match="above 0"):
        timing.time_scale({"STAGE": "local", "TIME_SCALE": scale})


@pytest.mark.parametrize("env", [{"STAGE": "prod"}, {"STAGE": "prod", "TIME_SCALE": ""}, {"TIME_SCALE": "1"}])
def test_time_runs_at_its_own_pace_by_default(env):
    assert timing.time_scale(env) == 1


def test_attempts_go_on_until_the_budget_is_used_up_and_not_longer():
    async def attempts():
        loop = asyncio.get_running_loop()
        started = loop.time()
        at = [loop.time() - started async for _ in attempts_within(timedelta(seconds=6))]
        return at, loop.time() - started

    at, took = in_no_time(attempts())
    assert took < 6.1
    assert at[-1] > 4.5  # a pause is never longer than a second
    pauses = [b - a for a, b in itertools.pairwise(at)]
    assert max(pauses) <= 1.1
    assert pauses[0] < 0.1
    assert 8 <= len(at) <= 25


def test_the_first_attempt_is_made_even_without_time():
    async def attempts():
        return [n async for n in attempts_within(timedelta())]

    assert in_no_time(attempts()) == [0]


def test_attempts_stop_at_the_time_limit_around_them():
    async def attempts():
        with time_limit(timedelta(seconds=1)):
            started = asyncio.get_running_loop().time()
            _ = [n async for n in attempts_within(timedelta(seconds=60))]
            return asyncio.get_running_loop().time() - started

    assert in_no_time(attempts()) <= 1.1


async def test_what_is_left_is_the_budget_or_the_limit_whichever_is_less():
    budget = timedelta(seconds=6)
    assert seconds_left(budget) == 6
    with time_limit(timedelta(seconds=100)):
        assert seconds_left(budget) == 6
    with time_limit(timedelta(seconds=2)):
        assert 1.5 < seconds_left(budget) <= 2
    with time_limit(timedelta(seconds=-1)):
        assert seconds_left(budget) == 0
    assert seconds_left(budget) == 6


async def test_a_time_limit_is_seen_by_the_tasks_inside_and_by_no_other():
    inside, outside = asyncio.Event(), asyncio.Event()

    async def limited():
        with time_limit(timedelta(seconds=2)):
            inside.set()
            await outside.wait()
            return await asyncio.create_task(_left())

    async def unlimited():
        await inside.wait()
        left = await _left()
        outside.set()
        return left

    async def _left():
        return seconds_left(timedelta(seconds=6))

    left_inside, left_outside = await asyncio.gather(limited(), unlimited())
    assert left_inside <= 2
    assert left_outside == 6
