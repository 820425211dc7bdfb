"""The job that packages what an older release published."""

from datetime import timedelta

import msgspec
import pytest

from shared.marketplace.artifacts import read_artifact
from shared.marketplace.skill_admin import yank_version
from shared.marketplace.skill_store import get_versions, version_put
from shared.moderation.artifact_backfill import TIME_FOR_ONE, build_artifacts
from shared.storage.kv import Put
from shared.timing import time_limit
from tests.support.builders import a_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryContent, memory_env, within


def name_of(n: int) -> str:
    return f"uploads/anonymous/skill-{n}"


async def older_release(env, size=3) -> None:
    """Skills as they were before versions had artifacts."""
    for n in range(size):
        await processed(env, await submitted(env, a_bundle(f"skill-{n}", f"Helps with topic{n}.")))
        [version] = await within(env, lambda n=n: get_versions(name_of(n)))
        put = version_put(msgspec.structs.replace(version, artifacts={}))
        await env.kv.put(Put(put.key, put.doc))
    env.content.bodies.clear()


async def run(env, limit=20, seconds=None):
    """All pages: how many were built, what failed, and in how many calls."""
    built, failed, calls, position = 0, [], 0, None
    while calls < 20:
        progress = await within(env, lambda p=position: one_call(p, limit, seconds))
        built, failed, calls = built + progress.built, failed + progress.failed, calls + 1
        position = progress.next_position
        if position is None:
            return built, failed, calls
    raise AssertionError("it never ends")


async def one_call(position, limit, seconds):
    if seconds is None:
        return await build_artifacts(position, limit)
    with time_limit(timedelta(seconds=seconds)):
        return await build_artifacts(position, limit)


async def version_of(env, n: int):
    [version] = await within(env, lambda: get_versions(name_of(n)))
    return version


@pytest.mark.parametrize(("limit", "calls"), [(1, 3), (2, 2), (20, 1)])
async def test_every_version_of_an_older_release_gets_what_a_new_one_has(env, limit, calls):
    await older_release(env)
    fresh = memory_env()
    await processed(fresh, await submitted(fresh, a_bundle("skill-1", "Helps with topic1.")))
    assert await run(env, limit) == (3, [], calls)
    assert (await version_of(env, 1)).artifacts == (await version_of(fresh, 1)).artifacts
    for n in range(3):
        version = await version_of(env, n)
        assert await within(env, lambda v=version: read_artifact(v, "npm"))
    check_invariants(env.kv)


async def test_what_is_built_is_not_built_again(env):
    await older_release(env)
    await run(env)
    before = dict(env.kv.items)
    assert await run(env) == (0, [], 1)
    assert env.kv.items == before


async def test_a_call_without_time_builds_one_version_and_the_next_one_continues(env):
    await older_release(env)
    assert await run(env, seconds=TIME_FOR_ONE.total_seconds() / 2) == (3, [], 3)


async def test_lost_files_are_named_and_the_others_are_built(env):
    await older_release(env)
    lost = await version_of(env, 1)
    del env.content.files[lost.content_hash]
    assert await run(env) == (2, [f"{name_of(1)}@1.0.0"], 1)


async def test_a_version_yanked_meanwhile_stays_yanked():
    """The yank lands after the job has read the version and before it writes it."""

    class YankedMeanwhile(MemoryContent):
        async def put_body(self, key, body):
            if not self.is_yanked:
                self.is_yanked = True
                await within(env, lambda: yank_version(name_of(0), "1.0.0", "It is broken."))
            await super().put_body(key, body)

    env = memory_env()
    await older_release(env, 1)
    content = YankedMeanwhile()
    content.is_yanked, content.files = False, env.content.files
    object.__setattr__(env, "content", content)
    assert await run(env) == (0, [f"{name_of(0)}@1.0.0"], 1)
    assert (await version_of(env, 0)).is_yanked
    assert await run(env) == (1, [], 1)
    assert (await version_of(env, 0)).is_yanked
