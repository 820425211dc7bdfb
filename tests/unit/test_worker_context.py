"""The env of a batch: nested, concurrent, failing."""

import asyncio
from datetime import timedelta

import pytest

from shared import db, worker_context
from shared.marketplace import external_scan_dispatch, external_scan_store, repo_health_store
from shared.submissions import submission_store
from shared.worker_context import get_worker_env, run_with_worker_env
from tests.support.builders import a_bundle, an_sqs_record, consume, submitted
from tests.support.memory import memory_env, within
from tests.support.naive_versions import ModuleLevelContext
from tests.support.probes import keeps_batches_apart, survives_early_end


@pytest.mark.requirement("TC-060", "FR-0310-003")
async def test_no_env_outside_a_batch():
    assert get_worker_env() is None


@pytest.mark.requirement("TC-061", "AC-0310-US3-02", "FR-0310-003")
async def test_inside_a_batch_its_env_is_seen(env):
    async def batch():
        await asyncio.sleep(0)
        return get_worker_env()

    assert await run_with_worker_env(env, batch) is env


@pytest.mark.requirement("TC-062", "AC-SPEC-US3-04")
async def test_after_a_batch_there_is_none_again(env):
    async def nothing():
        return "done"

    assert await run_with_worker_env(env, nothing) == "done"
    assert get_worker_env() is None


@pytest.mark.requirement("TC-062")
async def test_after_a_batch_that_failed_there_is_none_again(env):
    async def fail():
        raise RuntimeError("this batch fails")

    with pytest.raises(RuntimeError):
        await run_with_worker_env(env, fail)
    assert get_worker_env() is None


@pytest.mark.requirement("TC-063")
async def test_nested_envs_each_see_their_own():
    outer, inner = memory_env(), memory_env()

    async def see():
        return get_worker_env()

    async def nest():
        before = get_worker_env()
        within_it = await run_with_worker_env(inner, see)
        return before, within_it, get_worker_env()

    assert await run_with_worker_env(outer, nest) == (outer, inner, outer)


@pytest.mark.requirement("TC-063", "TC-058", "AC-0310-US3-05", "AC-SPEC-US3-03")
async def test_concurrent_batches_each_see_their_own():
    assert await keeps_batches_apart(worker_context, memory_env(), memory_env())


@pytest.mark.requirement("TC-058")
async def test_the_probe_rejects_a_module_level_env():
    assert not await keeps_batches_apart(ModuleLevelContext(), memory_env(), memory_env())


@pytest.mark.requirement("AC-0281-US2-02", "FR-0281-002")
async def test_a_batch_that_ends_does_not_take_the_env_of_one_in_flight():
    assert await survives_early_end(worker_context, memory_env(), memory_env())


@pytest.mark.requirement("AC-0281-US2-02")
async def test_the_probe_of_an_early_end_rejects_a_module_level_env():
    assert not await survives_early_end(ModuleLevelContext(), memory_env(), memory_env())


@pytest.mark.requirement("AC-0310-US3-01", "AC-SPEC-US3-01", "FR-0310-002")
def test_the_env_lives_in_a_context_variable():
    from contextvars import ContextVar

    assert isinstance(worker_context.worker_env_storage, ContextVar)
    assert worker_context.worker_env_storage.get() is None


@pytest.mark.requirement("AC-0310-US3-02", "AC-SPEC-US3-04", "AC-SPEC-US3-05")
def test_there_is_no_setter_and_no_clear():
    public = {name for name in vars(worker_context) if not name.startswith("_")}
    assert {"run_with_worker_env", "get_worker_env", "worker_env_storage"} <= public
    assert not [name for name in public if name.startswith(("set_", "clear_", "reset_"))]


@pytest.mark.requirement("TC-065", "AC-0310-US3-03", "AC-SPEC-US3-02")
async def test_concurrent_batches_write_to_their_own_store():
    """Two consumers in one process, started together, one of them with an unknown message."""
    env_a, env_b = memory_env(), memory_env()
    a, b = await submitted(env_a, a_bundle("alpha")), await submitted(env_b, a_bundle("beta"))
    stranger = an_sqs_record("sub_" + "0" * 26)
    answers = await asyncio.gather(
        consume([an_sqs_record(a.id)], env_a, "worker-a", timedelta(seconds=60)),
        consume([an_sqs_record(b.id), stranger], env_b, "worker-b", timedelta(seconds=60)),
    )
    assert answers[0] == {"batchItemFailures": []}
    assert answers[1] == {"batchItemFailures": [{"itemIdentifier": stranger["messageId"]}]}
    for env, mine, other in ((env_a, a, b), (env_b, b, a)):
        assert (await within(env, lambda m=mine: submission_store.get_submission(m.id))).state == "PUBLISHED"
        assert await within(env, lambda o=other: submission_store.find_submission(o.id)) is None
    assert get_worker_env() is None


STORES = {
    "submission_store": lambda: submission_store.find_submission("sub_" + "0" * 26),
    "external_scan_store": lambda: external_scan_store.find_external_scan("a/b/c", "scanner"),
    "external_scan_dispatch": lambda: external_scan_dispatch.dispatch_external_scans("a/b/c", "hash", ["scanner"]),
    "repo_health_store": lambda: repo_health_store.find_repo_healths(["https://github.com/a/b"]),
}


class TouchedKV:
    """Fails every call with a mark: whose store was asked?"""

    def __getattr__(self, name):
        async def touched(*_):
            raise AssertionError(self)

        return touched


@pytest.mark.requirement("AC-0310-US3-04", "AC-0281-US2-01")
@pytest.mark.parametrize("store", STORES)
async def test_every_store_asks_the_env_of_its_batch(store):
    from dataclasses import replace

    worker = replace(memory_env(), kv=TouchedKV())
    with pytest.raises(AssertionError) as asked:
        await run_with_worker_env(worker, STORES[store])
    assert asked.value.args == (worker.kv,)


@pytest.mark.requirement("AC-0281-US2-01")
async def test_the_env_of_the_batch_comes_before_the_request_env(env):
    async def see():
        return db.get_kv(), db.get_content(), db.get_queue()

    assert await run_with_worker_env(env, see) == (env.kv, env.content, env.queue)
