"""What the real store does when the wire is bad: lost replies, throttling, silence. moto behind a proxy that fails."""

from datetime import timedelta
from functools import partial

import pytest
from botocore.exceptions import ClientError

from shared.errors import ConditionFailed, Unavailable
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import ABSENT, Add, Key, Put, Query
from shared.timing import time_limit
from tests.support.aws_resources import create_resources
from tests.support.fault_proxy import FaultProxy

KEY = Key("doc:1")
COUNTER = Key("counter")
SHORT = timedelta(milliseconds=300)


@pytest.fixture(scope="module")
def proxy(moto_url):
    with FaultProxy(moto_url) as proxy:
        yield proxy


@pytest.fixture
async def kv(moto_url, proxy):
    settings = load_settings({**create_resources(moto_url), "AWS_ENDPOINT_URL": proxy.url})
    aws = Aws(settings)
    kv = DynamoKV(partial(aws.call, "dynamodb"), settings.table_name)
    await kv.get(Key("connects"))  # so that no time limit has to wait for it
    proxy.asked = []
    yield kv
    proxy.clear()
    await aws.close()


def actions(proxy) -> list[str]:
    return [asked.action for asked in proxy.asked]


def counted(n: int = 1):
    return [Put(KEY, f'"{n}"', {"version": n}, expect=ABSENT), Add(COUNTER, {"n": 1})]


@pytest.mark.requirement("R18")
async def test_a_transaction_whose_reply_is_lost_counts_once(kv, proxy):
    proxy.add("drop after", "TransactWriteItems", times=1)
    await kv.transact(counted)
    assert actions(proxy).count("TransactWriteItems") == 2
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


@pytest.mark.requirement("R18")
async def test_after_a_lost_reply_the_writes_that_are_stored_are_returned(kv, proxy):
    proxy.add("drop after", "TransactWriteItems", times=1)
    builds = iter(range(1, 9))
    written = await kv.transact(lambda: counted(next(builds)))
    assert written[0].doc == await kv.get(KEY) == '"1"'


@pytest.mark.requirement("R18")
async def test_a_guarded_change_whose_reply_is_lost_is_ours(kv, proxy):
    await kv.put(Put(KEY, '"1"', {"version": 1}))
    proxy.add("drop after", "TransactWriteItems", times=1)
    await kv.transact(lambda: [Put(KEY, '"2"', {"version": 2}, expect={"version": 1}), Add(COUNTER, {"n": 1})])
    assert await kv.get(KEY) == '"2"'
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


@pytest.mark.requirement("R18")
async def test_a_put_whose_reply_is_lost_is_ours(kv, proxy):
    proxy.add("drop after", "PutItem", times=1)
    await kv.put(Put(KEY, '"mine"', expect=ABSENT))
    with pytest.raises(ConditionFailed):
        await kv.put(Put(KEY, '"other"', expect=ABSENT))
    assert await kv.get(KEY) == '"mine"'


async def test_a_condition_that_really_fails_is_not_mistaken_for_ours(kv):
    await kv.transact(counted)
    with pytest.raises(ConditionFailed) as failure:
        await kv.transact(counted)
    assert failure.value.failed == (0,)


@pytest.mark.requirement("R19")
@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
async def test_a_conflict_is_tried_again_with_fresh_writes(kv, proxy, reason):
    proxy.add("conflict", "TransactWriteItems", reason=reason, times=2)
    builds = []

    def build():
        builds.append(len(builds))
        return counted()

    await kv.transact(build)
    assert builds == [0, 1, 2]
    assert (await kv.get_counts([COUNTER])).found == {COUNTER: {"n": 1}}


@pytest.mark.requirement("R15")
async def test_a_transaction_throttled_for_ever_ends_by_its_deadline(kv, proxy):
    proxy.add("throttle", "TransactWriteItems")
    with time_limit(SHORT), pytest.raises(Unavailable):
        await kv.transact(counted)


FAULTS = ("broken", "throttle", "drop before", "drop after", "truncate")
READS = {
    "GetItem": lambda kv: kv.get(KEY),
    "BatchGetItem": lambda kv: kv.get_many([KEY]),
    "Query": lambda kv: kv.query(Query(KEY.pk)),
}


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", READS)
async def test_reads_are_tried_again(kv, proxy, fault, operation):
    await kv.put(Put(KEY, '"1"'))
    expected = await READS[operation](kv)
    proxy.asked = []
    proxy.add(fault, operation, times=2)
    assert await READS[operation](kv) == expected
    assert actions(proxy) == [operation] * 3


@pytest.mark.requirement("R15")
async def test_a_read_that_is_refused_for_good_is_not_repeated(kv, proxy):
    proxy.add("denied", "GetItem")
    with pytest.raises(ClientError):
        await kv.get(KEY)
    assert actions(proxy) == ["GetItem"]


async def test_a_store_that_hangs_is_given_up_by_the_deadline(kv, proxy):
    hold = proxy.hold()
    with time_limit(SHORT):
        with pytest.raises(Unavailable):
            await kv.get(KEY)
        read = await kv.get_many([KEY])
    assert read.failed == [KEY]
    hold.drop()


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("share", [0.01, 0.5, 1])
async def test_keys_that_are_left_over_are_asked_for_again_until_all_are_found(kv, proxy, share):
    keys = [Key(f"doc:{n}") for n in range(120)]
    for key in keys:
        await kv.put(Put(key, f'"{key.pk}"'))
    proxy.add("unprocessed", "BatchGetItem", share=share, times=5)
    read = await kv.get_many([*keys, *keys, Key("nobody")])
    assert (set(read.found), read.missing, read.failed) == (set(keys), [Key("nobody")], [])


@pytest.mark.requirement("R16")
async def test_keys_that_stay_unprocessed_are_reported_by_the_deadline_and_the_rest_is_kept(kv, proxy):
    await kv.put(Put(KEY, '"1"'))
    await kv.put(Put(Key("doc:2"), '"2"'))
    hidden = proxy.add("unprocessed", "BatchGetItem", share=0.5)
    with time_limit(SHORT):
        read = await kv.get_many([KEY, Key("doc:2")])
    assert len(read.found) + len(read.failed) == 2
    assert read.failed
    assert hidden.hits > 1
