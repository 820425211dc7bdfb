"""The judge's daily budget when all workers want a part of it at once: none is refused for that, and it holds."""

import asyncio
from datetime import timedelta

import pytest

from shared.errors import Unavailable
from shared.evidence.judge_budget import KEPT, give_back, reserve
from shared.storage.kv import Key
from tests.faults.virtual_loop import VirtualLoop
from tests.support.memory import MemoryKV, memory_env, within

WORKERS = 30  # ten consumers with three messages each
ROUND_TRIP = 0.05


class FarKV(MemoryKV):
    """Every request takes its time, so what was read is old when it is written."""

    async def load(self, key):
        await asyncio.sleep(ROUND_TRIP)
        return await super().load(key)

    async def put(self, put):
        await asyncio.sleep(ROUND_TRIP)
        await super().put(put)

    async def take(self, key, most, expires_at):
        await asyncio.sleep(ROUND_TRIP)
        return await super().take(key, most, expires_at)

    async def transact(self, build):
        await asyncio.sleep(ROUND_TRIP)
        return await super().transact(build)


@pytest.fixture
def far():
    """An env with a store that is far away, and a loop on which that costs no time."""
    loop = VirtualLoop()
    env = memory_env(FarKV)
    yield env, lambda fn: loop.run_until_complete(within(env, fn))
    loop.close()


def counted(env) -> int:
    return env.kv.items[Key(f"judge-budget:{env.clock():%Y-%m-%d}")].attrs["taken"]


def test_every_worker_that_retries_during_an_outage_is_counted_in_time(far):
    """Found by the soak: with one versioned record, 18 of 1,034 submissions were parked because it "could not be
    counted in time"."""
    env, run = far

    async def ask_in_vain() -> None:
        for _ in range(5):
            await give_back(await reserve(1000))

    async def outage() -> list[BaseException | None]:
        return await asyncio.gather(*(ask_in_vain() for _ in range(WORKERS)), return_exceptions=True)

    assert run(outage) == [None] * WORKERS
    assert counted(env) == 0


@pytest.mark.parametrize("budget", [1, 7, 23])
def test_the_whole_budget_is_granted_and_never_more(far, budget):
    env, run = far

    async def all_workers():
        return await asyncio.gather(*(reserve(budget) for _ in range(WORKERS)))

    granted = [reservation for reservation in run(all_workers) if reservation]
    assert len(granted) == len({reservation.id for reservation in granted}) == budget
    assert counted(env) == budget
    assert run(lambda: reserve(budget)) is None


def test_a_budget_that_was_lowered_in_the_course_of_the_day_grants_no_more(far):
    _, run = far
    for _ in range(12):
        assert run(lambda: reserve(1000))
    assert run(lambda: reserve(12)) is None
    assert run(lambda: reserve(13))


def test_a_question_of_yesterday_is_given_back_to_yesterday(env):
    async def across_midnight():
        reservation = await reserve(1)
        env.clock.forward(days=1)
        assert await reserve(1)
        await give_back(reservation)
        return await reserve(1)

    assert asyncio.run(within(env, across_midnight)) is None


def test_a_question_given_back_twice_is_given_back_once(far):
    env, run = far

    async def twice():
        first, _ = await reserve(9), await reserve(9)
        await asyncio.gather(give_back(first), give_back(first))
        await give_back(first)

    run(twice)
    assert counted(env) == 1


@pytest.mark.requirement("R18")
def test_a_lost_reply_never_counts_a_question_too_few(env):
    """The caller does not know whether a write was stored, and may repeat it."""

    class LosesReplies(MemoryKV):
        async def take(self, key, most, expires_at):
            await super().take(key, most, expires_at)
            raise Unavailable("lost")

        async def transact(self, build):
            await super().transact(build)
            raise Unavailable("lost")

    lossy = memory_env(LosesReplies)
    lossy.kv.items = env.kv.items

    def lost(fn):
        with pytest.raises(Unavailable):
            asyncio.run(within(lossy, fn))

    lost(lambda: reserve(9))
    assert counted(env) == 1
    reservation = asyncio.run(within(env, lambda: reserve(9)))
    lost(lambda: give_back(reservation))
    asyncio.run(within(env, lambda: give_back(reservation)))
    assert counted(env) == 1


def test_what_is_stored_of_a_day_expires(far):
    env, run = far

    async def ask_in_vain():
        await give_back(await reserve(9))

    run(ask_in_vain)
    latest = (env.clock() + KEPT + timedelta(seconds=1)).timestamp()
    assert [item.attrs["expiresAt"] <= latest for item in env.kv.items.values()] == [True, True]
