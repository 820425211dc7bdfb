"""Two worker processes as the local runner starts them (awslambdaric, the real consumer), each with an environment of
its own, in a batch at one moment. Batches that share a process are in test_process_wire.py and in the model: there a
module-level environment would show, here one that a process keeps from its start or its failures."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from local.config import read_config
from local.console import Console
from local.function_pool import FunctionPool, Invoked, StartLimit, function_environment
from local.template import read_template
from local.tokens import prepare_secrets
from shared.submissions.submission_store import get_submission
from shared.worker_context import Env
from tests.support.aws_resources import REGION, TEMPLATE, create_resources
from tests.support.builders import a_bundle, an_sqs_record, submitted
from tests.support.fault_proxy import FaultProxy
from tests.support.memory import within
from tests.support.two_batches import env_of

BATCH = 3


@dataclass
class Side:
    """A consumer with its stores, all of one name, and the wire between them."""

    name: str
    env: Env
    proxy: FaultProxy
    pool: FunctionPool

    async def batch(self, word: str) -> list[str]:
        return [(await submitted(self.env, a_bundle(f"{word}-{n}"))).id for n in range(BATCH)]

    async def take(self, ids: list[str]) -> Invoked:
        return await self.pool.invoke(json.dumps({"Records": [an_sqs_record(id_) for id_ in ids]}).encode())

    async def states(self, ids: list[str]) -> set[str]:
        return {(await within(self.env, lambda id_=id_: get_submission(id_))).state for id_ in ids}


@pytest.fixture
async def sides(moto_url, tmp_path):
    (tmp_path / "tmp").mkdir()
    prepare_secrets(tmp_path, None)
    config = read_config({"LOCAL_DIR": str(tmp_path)}, TEMPLATE)
    with FaultProxy(moto_url) as one, FaultProxy(moto_url) as other:
        sides, clients = [], []
        for proxy in (one, other):
            proxy.asked = []
            resources = create_resources(moto_url)
            function = read_template(TEMPLATE, proxy.url, REGION).functions["Consumer"]
            environment = function_environment(function, config, proxy.url, REGION) | resources
            environment["AWS_ENDPOINT_URL"] = proxy.url
            pool = FunctionPool(
                function, environment, config.code, REGION, Console("ERROR"), StartLimit(), lambda: None
            )
            env, _, aws = env_of(resources)
            clients.append(aws)
            sides.append(Side(resources["TABLE_NAME"], env, proxy, pool))
        yield sides
        await asyncio.gather(*(side.pool.stop() for side in sides), *(aws.close() for aws in clients))


def failures(invoked: Invoked) -> int:
    assert invoked.outcome.failure is None
    return len(json.loads(invoked.outcome.response)["batchItemFailures"])


async def both_publish(sides) -> bool:
    """At one moment, in processes that are warm. On a machine so busy that a store takes seconds, batches come back:
    then with others."""
    for word in ("second", "third", "fourth"):
        batches = [await side.batch(word) for side in sides]
        warm = await asyncio.gather(*(side.take(ids) for side, ids in zip(sides, batches, strict=True)))
        assert [invoked.cold for invoked in warm] == [False] * 2
        if [failures(invoked) for invoked in warm] == [0, 0]:
            return [await side.states(ids) for side, ids in zip(sides, batches, strict=True)] == [{"PUBLISHED"}] * 2
    return False


@pytest.mark.requirement("R26")
async def test_two_worker_processes_with_envs_of_their_own_one_failing_keep_apart(sides):
    good, bad = sides
    for side in sides:  # started one by one: a store gives up on what is held while the other process starts
        assert (await side.take(await side.batch("start"))).cold
    batches = [await side.batch("first") for side in sides]
    holds = [side.proxy.hold("TransactWriteItems") for side in sides]
    under_way = [asyncio.create_task(side.take(ids)) for side, ids in zip(sides, batches, strict=True)]
    for hold in holds:  # all of them are about to claim, in both processes
        await asyncio.to_thread(hold.wait, BATCH, 60)

    bad.proxy.faults = [bad.proxy.add("denied", "TransactWriteItems")]
    holds[1].drop()
    assert failures(await under_way[1]) == BATCH  # while the other batch is where it was
    holds[0].release()
    assert failures(await under_way[0]) == 0
    assert [await side.states(ids) for side, ids in zip(sides, batches, strict=True)] == [{"PUBLISHED"}, {"RECEIVED"}]

    bad.proxy.clear()
    assert await both_publish(sides)

    assert len({*good.pool.pids, *bad.pool.pids}) == 2
    for side, other in ((good, bad), (bad, good)):
        assert len(side.proxy.asked) > 2 * BATCH
        assert not [asked for asked in side.proxy.asked if side.name not in asked.text or other.name in asked.text]
