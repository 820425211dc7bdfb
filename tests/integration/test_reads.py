"""Parallel reads over HTTP, against a stub that counts requests, holds them, leaves keys over and throttles."""

import asyncio
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
import pytest_asyncio

from shared.settings import Settings
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Key
from shared.timing import STORE_BUDGET, time_limit
from tests.support.naive_versions import get_many_batch_by_batch, get_many_one_by_one
from tests.support.stub_dynamo import TABLE, StubDynamo

A_MOMENT = timedelta(milliseconds=300)
PATIENCE = 2.0  # only a reader that sends one request after the other waits so long


# One loop and one client for all of them, as in a Lambda process: making a client takes longer than the tests.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_stub():
    async with StubDynamo() as stub:
        for key in keys_up_to(300):
            stub.put(key, doc_of(key))
        yield stub


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kv(running_stub):
    aws = Aws(Settings("local", TABLE, "b", "q", "s", True, 1, "us-east-1", running_stub.url, None))
    kv = DynamoKV(partial(aws.call, "dynamodb"), TABLE)
    await kv.get(Key("connects"))  # so that no time limit has to wait for it
    yield kv
    await aws.close()


@pytest.fixture
def stub(running_stub, kv):
    running_stub.behave()
    return running_stub


def keys_up_to(count: int) -> list[Key]:
    return [Key(f"sub:{n:03}") for n in range(count)]


def doc_of(key: Key) -> str:
    return f'{{"key":"{key.pk}"}}'


def docs_of(keys: list[Key]) -> dict[Key, str]:
    return {key: doc_of(key) for key in keys}


async def is_in_flight_at_once(stub: StubDynamo, requests: int, read) -> bool:
    """Whether `read` has so many requests under way together: the stub answers none before the last has arrived."""
    stub.gate = asyncio.Barrier(requests)
    try:
        async with asyncio.timeout(PATIENCE):
            await read()
    except TimeoutError:
        return False
    return True


@pytest.mark.requirement("R17")
@pytest.mark.parametrize(
    ("count", "requests"), [(0, []), (1, [1]), (99, [99]), (100, [100]), (101, [1, 100]), (250, [50, 100, 100])]
)
async def test_up_to_100_keys_are_one_request(stub, kv, count, requests):
    keys = keys_up_to(count)
    read = await kv.get_many(keys)
    assert read.found == docs_of(keys)
    assert read.missing == read.failed == []
    assert sorted(map(len, stub.requests)) == requests
    assert Counter(key for request in stub.requests for key in request) == Counter(keys)


@pytest.mark.requirement("R17")
async def test_250_keys_are_three_requests_in_flight_at_once(stub, kv):
    assert await is_in_flight_at_once(stub, 3, lambda: kv.get_many(keys_up_to(250)))
    assert len(stub.requests) == 3


@pytest.mark.parametrize("naive", [get_many_one_by_one, get_many_batch_by_batch])
async def test_reads_one_after_another_cannot_pass_the_gate(stub, kv, naive):
    assert not await is_in_flight_at_once(stub, 3, lambda: naive(kv, keys_up_to(250)))
    assert len(stub.requests) == 1


@pytest.mark.parametrize("naive", [get_many_one_by_one, get_many_batch_by_batch])
async def test_the_naive_readers_read_the_same_when_they_are_not_held(stub, kv, naive):
    keys = keys_up_to(101)
    assert (await naive(kv, keys)).found == (await kv.get_many(keys)).found


@pytest.mark.requirement("R17")
async def test_a_key_asked_for_twice_is_read_once(stub, kv):
    keys = keys_up_to(60)
    read = await kv.get_many([*keys, *reversed(keys)])
    assert read.found == docs_of(keys)
    assert [len(request) for request in stub.requests] == [60]


async def test_missing_keys_are_reported_and_the_rest_returned(stub, kv):
    absent = [Key("sub:absent"), Key("sub:000", "another")]
    read = await kv.get_many([*keys_up_to(5), *absent])
    assert read.found == docs_of(keys_up_to(5))
    assert read.missing == absent
    assert read.failed == []


@pytest.mark.parametrize("bad", [Key(""), Key("sub:1", ""), Key("x" * 2049), Key("sub:1", "x" * 1025)])
async def test_one_key_that_dynamodb_refuses_never_fails_the_page(stub, kv, bad):
    read = await kv.get_many([*keys_up_to(3), bad])
    assert read.found == docs_of(keys_up_to(3))
    assert read.failed == [bad]
    assert [len(request) for request in stub.requests] == [3]


@pytest.mark.parametrize("attributes", [{}, {"doc": {"M": {}}}], ids=["without a document", "with a map as document"])
async def test_one_row_that_we_did_not_write_never_fails_the_page(stub, kv, attributes):
    strange = Key("strange", str(len(attributes)))
    stub.items[strange] = {"pk": {"S": strange.pk}, "sk": {"S": strange.sk}, **attributes}
    read = await kv.get_many([*keys_up_to(3), strange])
    assert read.found == docs_of(keys_up_to(3)) | {strange: ""}


async def test_the_stub_refuses_what_dynamodb_refuses(stub, kv):
    """Asked past the store, which never sends such a key."""
    empty = {"TableName": kv._table, "Key": {"pk": {"S": ""}, "sk": {"S": "."}}, "ConsistentRead": True}
    with pytest.raises(Exception, match="ValidationException"):
        await kv._wire("GetItem", empty)
    assert await kv.get(Key("")) is None


@pytest.mark.requirement("R16")
async def test_unprocessed_keys_are_asked_for_again(stub, kv):
    keys = keys_up_to(100)
    stub.unprocessed = lambda asked: asked[60:] if len(asked) == 100 else ()
    read = await kv.get_many(keys)
    assert read.found == docs_of(keys)
    assert stub.requests == [keys, keys[60:]]


@pytest.mark.requirement("R16")
async def test_unprocessed_keys_that_shrink_to_nothing_are_all_read(stub, kv):
    keys = keys_up_to(100)
    stub.unprocessed = lambda asked: asked[: len(asked) // 4]
    read = await kv.get_many(keys)
    assert read.found == docs_of(keys)
    assert [len(request) for request in stub.requests] == [100, 25, 6, 1]


@pytest.mark.requirement("R16")
async def test_keys_left_unprocessed_for_ever_are_failed_and_never_missing(stub, kv):
    keys = keys_up_to(150)
    hot = {keys[3], keys[140]}
    stub.unprocessed = hot.intersection
    with time_limit(A_MOMENT):
        read = await kv.get_many(keys)
    assert set(read.failed) == hot
    assert read.missing == []
    assert read.found == docs_of([key for key in keys if key not in hot])
    assert len(stub.requests) > 3


@pytest.mark.requirement("R15")
async def test_a_throttled_request_is_asked_again(stub, kv):
    keys = keys_up_to(120)
    refused = iter([True, True])
    stub.throttle = lambda asked: next(refused, False)
    assert (await kv.get_many(keys)).found == docs_of(keys)
    assert len(stub.requests) == 4


@pytest.mark.requirement("R15")
async def test_keys_throttled_for_ever_are_failed_by_the_deadline_and_the_rest_returned(stub, kv):
    keys = keys_up_to(150)
    stub.throttle = lambda asked: keys[0] in asked
    started = asyncio.get_running_loop().time()
    with time_limit(A_MOMENT):
        read = await kv.get_many(keys)
    # The limit ended it, not the budget of a store call.
    assert asyncio.get_running_loop().time() - started < STORE_BUDGET.total_seconds()
    assert read.failed == keys[:100]
    assert read.found == docs_of(keys[100:])
    assert read.missing == []


async def test_a_request_that_hangs_is_failed_by_the_deadline(stub, kv):
    stub.latency = 60
    with time_limit(A_MOMENT):
        read = await kv.get_many(keys_up_to(3))
    assert read.failed == keys_up_to(3)


async def test_single_reads_go_through_the_same_wire(stub, kv):
    assert await kv.get(Key("sub:007")) == doc_of(Key("sub:007"))
    assert await kv.get(Key("sub:absent")) is None
    stub.put(Key("gone"), "{}", expiresAt={"N": "1"})
    assert await kv.get(Key("gone")) is None
    assert (await kv.get_many([Key("gone")])).missing == [Key("gone")]
