"""What the real store does when the wire is bad: lost replies, throttling, silence. moto behind a wire that fails."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import repeat

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shared.aws import Aws
from shared.dynamo_kv import DynamoKV
from shared.errors import ConditionFailed, Unavailable
from shared.kv import ABSENT, Add, Key, Put, Query
from shared.settings import load_settings
from shared.timing import time_limit
from tests.support.resources import create_resources

KEY = Key("doc:1")
COUNTER = Key("counter")
SHORT = timedelta(milliseconds=300)


class BadWire:
    """Passes calls on, except those it was told to spoil: `lose` drops the answer after the call took effect."""

    def __init__(self, wire) -> None:
        self._wire = wire
        self.lose: list[str] = []
        self.refuse: dict[str, Iterator[Exception]] = {}
        self.asked: list[str] = []

    async def __call__(self, operation, params):
        self.asked.append(operation)
        refusal = next(self.refuse.get(operation, iter(())), None)
        if refusal:
            raise refusal
        answer = await self._wire(operation, params)
        if operation in self.lose:
            self.lose.remove(operation)
            raise EndpointConnectionError(endpoint_url="the reply got lost")
        return answer


@pytest.fixture
async def wire(moto_url):
    settings = load_settings(create_resources(moto_url))
    aws = Aws(settings)
    bad = BadWire(partial(aws.call, "dynamodb"))
    bad.table = settings.table_name
    yield bad
    await aws.close()


@pytest.fixture
def kv(wire):
    return DynamoKV(wire, wire.table)


def error(code: str, status: int = 400, **more) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}, "op")


def counted(n: int = 1):
    return [Put(KEY, f'"{n}"', {"version": n}, expect=ABSENT), Add(COUNTER, {"n": 1})]


async def test_r18_a_transaction_whose_reply_is_lost_counts_once(kv, wire):
    wire.lose = ["TransactWriteItems"]
    await kv.transact(counted)
    assert wire.asked.count("TransactWriteItems") == 2
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


async def test_r18_after_a_lost_reply_the_writes_that_are_stored_are_returned(kv, wire):
    wire.lose = ["TransactWriteItems"]
    builds = iter(range(1, 9))
    written = await kv.transact(lambda: counted(next(builds)))
    assert written[0].doc == await kv.get(KEY) == '"1"'


async def test_r18_a_guarded_change_whose_reply_is_lost_is_ours(kv, wire):
    await kv.put(Put(KEY, '"1"', {"version": 1}))
    wire.lose = ["TransactWriteItems"]
    await kv.transact(lambda: [Put(KEY, '"2"', {"version": 2}, expect={"version": 1}), Add(COUNTER, {"n": 1})])
    assert await kv.get(KEY) == '"2"'
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


async def test_r18_a_put_whose_reply_is_lost_is_ours(kv, wire):
    wire.lose = ["PutItem"]
    await kv.put(Put(KEY, '"mine"', expect=ABSENT))
    with pytest.raises(ConditionFailed):
        await kv.put(Put(KEY, '"other"', expect=ABSENT))
    assert await kv.get(KEY) == '"mine"'


async def test_a_condition_that_really_fails_is_not_mistaken_for_ours(kv):
    await kv.transact(counted)
    with pytest.raises(ConditionFailed) as failure:
        await kv.transact(counted)
    assert failure.value.failed == (0,)


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
async def test_r19_a_conflict_is_tried_again_with_fresh_writes(kv, wire, reason):
    cancelled = error("TransactionCanceledException", CancellationReasons=[{"Code": "None"}, {"Code": reason}])
    wire.refuse = {"TransactWriteItems": iter([cancelled, cancelled])}
    builds = []

    def build():
        builds.append(len(builds))
        return counted()

    await kv.transact(build)
    assert builds == [0, 1, 2]
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


async def test_r15_a_transaction_throttled_for_ever_ends_by_its_deadline(kv, wire):
    wire.refuse = {"TransactWriteItems": repeat(error("ThrottlingException"))}
    with time_limit(SHORT), pytest.raises(Unavailable):
        await kv.transact(counted)


FAULTS = {
    "broken": error("InternalServerError", 500),
    "throttled": error("ThrottlingException"),
    "unreachable": EndpointConnectionError(endpoint_url="nowhere"),
}
READS = {
    "GetItem": lambda kv: kv.get(KEY),
    "BatchGetItem": lambda kv: kv.get_many([KEY]),
    "Query": lambda kv: kv.query(Query(KEY.pk)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", READS)
async def test_r15_reads_are_tried_again(kv, wire, fault, operation):
    await kv.put(Put(KEY, '"1"'))
    expected = await READS[operation](kv)
    wire.asked.clear()
    wire.refuse = {operation: iter([FAULTS[fault]] * 2)}
    assert await READS[operation](kv) == expected
    assert wire.asked == [operation] * 3


async def test_r15_a_read_that_is_refused_for_good_is_not_repeated(kv, wire):
    wire.refuse = {"GetItem": repeat(error("AccessDeniedException"))}
    with pytest.raises(ClientError):
        await kv.get(KEY)
    assert wire.asked == ["GetItem"]


async def test_a_store_that_hangs_is_given_up_by_the_deadline(wire):
    async def hang(operation, params):
        await asyncio.Event().wait()

    kv = DynamoKV(hang, wire.table)
    with time_limit(SHORT):
        with pytest.raises(Unavailable):
            await kv.get(KEY)
        read = await kv.get_many([KEY])
    assert read.failed == [KEY]
