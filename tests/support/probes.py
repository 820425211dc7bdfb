"""Probes that sequential or shared-state code cannot pass, however fast it is."""

import asyncio

from shared.storage.kv import Key
from tests.support.memory import MemoryKV, Stored

IDLE_TURNS = 1000


class BarrierKV(MemoryKV):
    """Once `parties` is set, every read of a single key waits until that many are under way at once."""

    def __init__(self, now) -> None:
        super().__init__(now)
        self.barrier: asyncio.Barrier | None = None
        self.loaded: list[Key] = []

    def hold_until(self, parties: int) -> None:
        self.barrier = asyncio.Barrier(parties)
        self.loaded = []

    async def load(self, key: Key) -> Stored | None:
        self.loaded.append(key)
        if self.barrier:
            await self.barrier.wait()
        return await super().load(key)


async def reads_all_at_once(kv: BarrierKV, parties: int, read) -> bool:
    """Whether `read` has `parties` single reads under way at the same time. Nothing in memory takes time, so a reader
    that has begun no other read for so many turns of the loop waits at the barrier for ever."""
    kv.hold_until(parties)
    reading = asyncio.ensure_future(read())
    begun, idle_turns = 0, 0
    while not reading.done() and idle_turns < IDLE_TURNS:
        await asyncio.sleep(0)
        idle_turns = idle_turns + 1 if begun == len(kv.loaded) else 0
        begun = len(kv.loaded)
    kv.barrier = None
    if reading.done():
        reading.result()
        return True
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return False


async def keeps_batches_apart(context, env_a, env_b) -> bool:
    """Two batches interleaved step by step, one of them failing: does each see its own env throughout, outside none?"""
    step = asyncio.Barrier(2)
    seen: dict[str, list] = {"a": [], "b": []}

    async def batch(name: str, steps: int, fails: bool) -> None:
        for n in range(4):
            await step.wait()
            if n < steps:
                seen[name].append(context.get_worker_env())
                # A child task and a thread inherit the env of their batch.
                seen[name] += await asyncio.gather(_in_task(context), asyncio.to_thread(context.get_worker_env))
            elif fails:
                break
        if fails:
            raise RuntimeError("this batch fails")

    async def run(name, env, steps, fails):
        await context.run_with_worker_env(env, lambda: batch(name, steps, fails))

    runs = [run("a", env_a, 4, False), run("b", env_b, 4, True)]
    outcomes = await asyncio.gather(*runs, return_exceptions=True)
    return (
        seen == {"a": [env_a] * 12, "b": [env_b] * 12}
        and context.get_worker_env() is None
        and [type(outcome) for outcome in outcomes] == [type(None), RuntimeError]
    )


async def survives_early_end(context, env_a, env_b) -> bool:
    """One batch ends, or fails, while another is in flight: does the other still see its env?"""
    b_ended = asyncio.Event()

    async def long_batch():
        await b_ended.wait()
        return context.get_worker_env()

    async def short_batch():
        await asyncio.sleep(0)
        raise RuntimeError("this batch fails")

    async def short():
        try:
            await context.run_with_worker_env(env_b, short_batch)
        finally:
            b_ended.set()

    long, _ = await asyncio.gather(context.run_with_worker_env(env_a, long_batch), short(), return_exceptions=True)
    return long is env_a


async def _in_task(context):
    await asyncio.sleep(0)
    return context.get_worker_env()
