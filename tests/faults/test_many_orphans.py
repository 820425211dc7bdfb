"""Thousands of lost leases, as after an outage. Time is virtual: a store and a queue that take as long as on AWS."""

import asyncio
from datetime import timedelta

from shared.records.submissions import State, Submission, new_id
from shared.submissions import submission_store
from shared.submissions.counters import get_stats
from shared.timing import STUCK_SCAN_BUDGET, time_limit
from shared.verification.recovery import recover_all_stuck
from shared.worker_context import run_with_worker_env
from tests.faults.virtual_loop import VirtualLoop
from tests.support.counting_stores import LookedUpKV
from tests.support.memory import MemoryQueue, memory_env

ORPHANS = 2_500
OF_A_TICK = 10_000  # or more
OF_A_TRANSACTION, OF_A_READ, OF_A_MESSAGE = 0.02, 0.01, 0.01  # seconds


class SlowKV(LookedUpKV):
    async def transact(self, build):
        await asyncio.sleep(OF_A_TRANSACTION)
        return await super().transact(build)

    async def query(self, query):
        await asyncio.sleep(OF_A_READ)
        return await super().query(query)

    async def get_many(self, keys):
        await asyncio.sleep(OF_A_READ)
        return await super().get_many(keys)


class SlowQueue(MemoryQueue):
    async def send(self, *args, **kwargs) -> None:
        await asyncio.sleep(OF_A_MESSAGE)
        await super().send(*args, **kwargs)


def test_ten_thousand_orphans_are_recovered_in_one_tick():
    """A fourth of them in a fourth of its time, which shows the same."""
    env = memory_env(SlowKV)
    object.__setattr__(env, "queue", SlowQueue())
    loop = VirtualLoop()
    try:
        run = lambda fn: loop.run_until_complete(run_with_worker_env(env, fn))  # noqa: E731
        run(lambda: _lose(env, ORPHANS))
        began = loop.time()
        report = run(_tick)
        assert (report.requeued, report.more, report.failed) == (ORPHANS, False, [])
        assert loop.time() - began < STUCK_SCAN_BUDGET.total_seconds() * ORPHANS / OF_A_TICK
        assert len(env.queue.sent) == ORPHANS
        assert run(get_stats).by_state[State.RECEIVED] == ORPHANS
    finally:
        loop.close()


async def _tick():
    with time_limit(STUCK_SCAN_BUDGET):
        return await recover_all_stuck()


async def _lose(env, many: int) -> None:
    """Leased ten minutes ago by a worker that is gone."""
    at = env.clock()
    for n in range(many):
        lost = Submission(
            id=new_id(at),
            source=f"https://github.com/acme/r{n}",
            skill_path=".",
            skill_name=f"acme/r{n}/tool",
            state=State.TIER1_SCANNING,
            created_at=at,
            updated_at=at,
            lease_owner="gone",
            lease_until=at + timedelta(minutes=2),
            attempts=1,
            fence=1,
        )
        change = submission_store.created(lost)
        for write in submission_store._writes(change):
            env.kv._apply([write])
    env.clock.forward(minutes=10)
