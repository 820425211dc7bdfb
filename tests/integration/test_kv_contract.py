"""What every KV store must do: the same suite on the in-memory fakes, on moto, on ministack and on the
store of one machine (by both clients)."""

import asyncio
import time
import uuid
from functools import partial

import pytest

from shared.errors import ConditionFailed
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.aws_sdk import AwsSdk
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import ABSENT, Add, Check, Delete, Key, Put, Query, query_all
from tests.support.aws_resources import create_resources
from tests.support.memory import MemoryKV
from tests.support.memory_dynamo import MemoryDynamo


@pytest.fixture(params=["memory", "memory dynamo", "moto", "moto by the SDK", "ministack", "store", "store by the SDK"])
async def kv(request):
    if request.param == "memory":
        yield MemoryKV(time.time)
        return
    if request.param == "memory dynamo":
        yield DynamoKV(MemoryDynamo(), "t")
        return
    settings = load_settings(create_resources(request.getfixturevalue(f"{request.param.split()[0]}_url")))
    aws = AwsSdk(settings) if request.param.endswith("SDK") else Aws(settings)
    yield DynamoKV(partial(aws.call, "dynamodb"), settings.table_name)
    await aws.close()


@pytest.fixture
def key():
    return Key(f"doc:{uuid.uuid4().hex}")


async def test_a_document_is_read_as_it_was_put(kv, key):
    await kv.put(Put(key, '{"a": "ä\\u0000 \U0001f600"}'))
    assert await kv.get(key) == '{"a": "ä\\u0000 \U0001f600"}'


async def test_a_missing_document_is_none(kv, key):
    assert await kv.get(key) is None


@pytest.mark.requirement("R17")
async def test_get_many_separates_found_from_missing_and_reads_each_key_once(kv):
    keys = [Key("doc", f"{n:04}") for n in range(250)]
    for some in range(0, 200, 50):
        await kv.transact(lambda some=some: [Put(k, f'"{k.sk}"') for k in keys[some : some + 50]])
    read = await kv.get_many([*keys, *keys[:30]])
    assert read.found == {k: f'"{k.sk}"' for k in keys[:200]}
    assert sorted(read.missing) == keys[200:]
    assert read.failed == []


async def test_get_many_of_nothing_is_nothing(kv):
    read = await kv.get_many([])
    assert (read.found, read.missing, read.failed) == ({}, [], [])


async def test_one_unusable_key_costs_only_itself(kv, key):
    await kv.put(Put(key, "{}"))
    bad = [Key(""), Key("x" * 3000), Key("ok", "")]
    read = await kv.get_many([key, *bad])
    assert read.found == {key: "{}"}
    assert sorted(read.failed) == sorted(bad)


async def test_absent_holds_once(kv, key):
    await kv.put(Put(key, '"first"', expect=ABSENT))
    with pytest.raises(ConditionFailed):
        await kv.put(Put(key, '"second"', expect=ABSENT))
    assert await kv.get(key) == '"first"'


@pytest.mark.requirement("R33")
async def test_an_expired_row_counts_as_absent_everywhere(kv, key):
    await kv.put(Put(key, '"old"', {"expiresAt": int(time.time()) - 5}))
    assert await kv.get(key) is None
    assert (await kv.get_many([key])).missing == [key]
    assert (await kv.query(Query(key.pk))).rows == []
    await kv.put(Put(key, '"new"', {"expiresAt": int(time.time()) + 60}, expect=ABSENT))
    assert await kv.get(key) == '"new"'


async def test_an_expected_attribute_guards_the_write(kv, key):
    await kv.put(Put(key, '"1"', {"version": 1, "state": "A"}))
    with pytest.raises(ConditionFailed):
        await kv.put(Put(key, '"2"', {"version": 2}, expect={"version": 1, "state": "B"}))
    await kv.put(Put(key, '"2"', {"version": 2}, expect={"version": 1, "state": "A"}))
    assert await kv.get(key) == '"2"'


async def test_a_transaction_is_all_or_nothing_and_names_what_failed(kv, key):
    other, third = Key(key.pk, "other"), Key(key.pk, "third")
    await kv.put(Put(other, '"there"', {"version": 7}))
    with pytest.raises(ConditionFailed) as failure:
        await kv.transact(
            lambda: [
                Put(key, '"new"', expect=ABSENT),
                Put(other, '"changed"', expect={"version": 6}),
                Add(third, {"n": 1}),
            ]
        )
    assert failure.value.failed == (1,)
    assert await kv.get(key) is None
    assert await kv.get(other) == '"there"'
    assert (await kv.get_counts([third])).missing == [third]


async def test_a_transaction_returns_the_writes_that_are_stored(kv, key):
    written = await kv.transact(lambda: [Put(key, '"new"', expect=ABSENT)])
    assert [write.doc for write in written] == ['"new"']


async def test_check_and_delete_obey_their_conditions(kv, key):
    other = Key(key.pk, "other")
    await kv.put(Put(key, '"1"', {"version": 1}))
    with pytest.raises(ConditionFailed):
        await kv.transact(lambda: [Check(key, {"version": 2}), Put(other, "{}", expect=ABSENT)])
    with pytest.raises(ConditionFailed):
        await kv.transact(lambda: [Delete(key, {"version": 2}), Put(other, "{}", expect=ABSENT)])
    await kv.transact(lambda: [Delete(key, {"version": 1}), Put(other, "{}", expect=ABSENT)])
    assert await kv.get(key) is None
    assert await kv.get(other) == "{}"


async def test_counters_add_up_and_go_below_what_was_added(kv, key):
    for n, counts in enumerate(({"A": 1}, {"A": -1, "B": 1}, {"B": 2})):
        marker = Key(key.pk, f"marker{n}")
        await kv.transact(lambda m=marker, c=counts: [Put(m, "{}", expect=ABSENT), Add(key, c)])
    read = await kv.get_counts([key, Key("none")])
    assert read.found == {key: {"A": 0, "B": 3}}
    assert read.missing == [Key("none")]


async def test_counters_that_are_removed_are_gone_and_others_stay(kv, key):
    await kv.transact(lambda: [Add(key, {"A": 1, "26010203.A": 2, "26010204.A": 3})])
    for _ in range(2):
        await kv.transact(lambda: [Add(key, remove=["26010203.A", "26010204.A"])])
    assert (await kv.get_counts([key])).found == {key: {"A": 1}}
    await kv.transact(lambda: [Add(key, {"A": 1, "B": 1}, remove=["C"])])
    assert (await kv.get_counts([key])).found == {key: {"A": 2, "B": 1}}


async def test_many_documents_are_put_at_once_and_again(kv, key):
    puts = [Put(Key(key.pk, f"{n:03}"), f'"{n}"', {"version": n}) for n in range(60)]
    await kv.put(Put(puts[7].key, '"other"', {"version": 1}))
    for _ in range(2):
        await kv.put_all([*puts, puts[0]])
    assert {row.sort: row.text for row in await query_all(kv, key.pk)} == {put.key.sk: put.doc for put in puts}
    await kv.put_all([])


async def test_of_many_racing_for_one_key_one_wins(kv, key):
    async def race(n):
        try:
            await kv.transact(lambda: [Put(key, f'"{n}"', expect=ABSENT), Add(Key(key.pk, "wins"), {"n": 1})])
        except ConditionFailed:
            return None
        return n

    winners = [n for n in await asyncio.gather(*map(race, range(20))) if n is not None]
    assert len(winners) == 1
    assert await kv.get(key) == f'"{winners[0]}"'
    assert (await kv.get_counts([Key(key.pk, "wins")])).found == {Key(key.pk, "wins"): {"n": 1}}


@pytest.mark.requirement("R19")
async def test_racing_additions_are_all_counted(kv, key, request):
    movers = 10 if "moto" in request.node.name else 30  # moto copies the whole table for each transaction

    async def add(n):
        await kv.transact(lambda: [Put(Key(key.pk, f"{n}"), "{}", expect=ABSENT), Add(key, {"n": 1})])

    await asyncio.gather(*map(add, range(movers)))
    assert (await kv.get_counts([key])).found == {key: {"n": movers}}


async def test_a_query_walks_one_partition_in_order_both_ways_and_in_pages(kv, key):
    for n in (3, 1, 2, 4):
        await kv.put(Put(Key(key.pk, f"s{n}"), f'"{n}"'))
    await kv.put(Put(Key(key.pk + "x", "s9"), '"9"'))
    assert [r.sort for r in (await kv.query(Query(key.pk))).rows] == ["s1", "s2", "s3", "s4"]
    assert [r.sort for r in (await kv.query(Query(key.pk, descending=True))).rows] == ["s4", "s3", "s2", "s1"]
    assert [r.sort for r in (await kv.query(Query(key.pk, after="s2"))).rows] == ["s3", "s4"]
    assert [r.sort for r in (await kv.query(Query(key.pk, before="s2"))).rows] == ["s1"]
    assert [r.text for r in (await kv.query(Query(key.pk, prefix="s3"))).rows] == ['"3"']
    page = await kv.query(Query(key.pk, limit=3))
    assert ([r.sort for r in page.rows], page.more) == (["s1", "s2", "s3"], True)
    last = await kv.query(Query(key.pk, after="s3", limit=3))
    assert ([r.sort for r in last.rows], last.more) == (["s4"], False)
    assert [r.sort for r in await query_all(kv, key.pk)] == ["s1", "s2", "s3", "s4"]


async def test_an_index_shows_rows_and_follows_the_document(kv, key):
    pk, due = f"list-{key.pk}", f"due-{key.pk}"
    attrs = {"row": '"row"', "listPk": pk, "listSk": "1", "duePk": due, "dueSk": "5"}
    await kv.put(Put(key, '"doc"', attrs))
    assert [(r.key, r.sort, r.text) for r in (await kv.query(Query(pk, "list"))).rows] == [(key, "1", '"row"')]
    assert [(r.key, r.sort, r.text) for r in (await kv.query(Query(due, "due"))).rows] == [(key, "5", "")]
    await kv.put(Put(key, '"doc"', {"row": '"row"', "listPk": pk, "listSk": "2"}))
    assert [r.sort for r in (await kv.query(Query(pk, "list"))).rows] == ["2"]
    assert (await kv.query(Query(due, "due"))).rows == []


async def test_ids_lists_the_documents_of_a_kind_and_nothing_else(kv):
    for n in range(9):
        attrs = {"row": "{}", "listPk": f"skills:published-index#{n % 4}", "listSk": f"{n}"}
        await kv.put(Put(Key(f"skill:{n}"), "{}", attrs))
    await kv.put(Put(Key("skill:alias:old", "0"), "{}"))
    assert sorted(await kv.ids("skill:")) == [str(n) for n in range(9)]


async def test_taking_counts_up_to_the_limit_and_no_further_however_many_ask_at_once(kv, key):
    soon = int(time.time()) + 60
    taken = await asyncio.gather(*(kv.take(key, 5, soon) for _ in range(12)))
    assert sorted(n for n in taken if n is not None) == [1, 2, 3, 4, 5]
    assert (await kv.get_counts([key])).found[key]["taken"] == 5


async def test_several_are_taken_together_or_not_at_all(kv, key):
    soon = int(time.time()) + 60
    assert [await kv.take(key, 10, soon, n) for n in (11, 6, 5, 4, 1)] == [None, 6, None, 10, None]


async def test_a_count_with_a_limit_refuses_the_transaction_that_would_exceed_it(kv, key):
    soon = int(time.time()) + 60

    async def add(n: int) -> tuple[int, ...]:
        """The positions of what was refused."""
        record = Put(Key(f"{key.pk}-{n}"), "{}", expect=ABSENT)
        try:
            await kv.transact(lambda: [record, Add(key, {"held": 1}, most=3, expires_at=soon)])
        except ConditionFailed as error:
            return error.failed
        return ()

    assert sorted(await asyncio.gather(*(add(n) for n in range(8)))) == [()] * 3 + [(1,)] * 5
    assert (await kv.get_counts([key])).found[key] == {"held": 3}
    await kv.transact(lambda: [Put(Key(f"{key.pk}-9"), "{}", expect=ABSENT), Add(key, {"held": -1}, expires_at=soon)])
    assert [await add(n) for n in (10, 11)] == [(), (1,)]


async def test_a_window_that_is_over_is_read_as_nothing_taken(kv, key):
    await kv.take(key, 5, int(time.time()) - 5)
    assert (await kv.get_counts([key])).missing == [key]


async def test_a_query_between_two_sort_keys_leaves_both_out(kv):
    pk = f"doc:{uuid.uuid4().hex}"
    await kv.transact(lambda: [Put(Key(pk, sk), f'"{sk}"') for sk in "abcde"])
    page = await kv.query(Query(pk, after="a", before="d"))
    assert ([row.sort for row in page.rows], page.more) == (["b", "c"], False)


async def test_a_key_that_no_store_takes_is_one_that_nothing_has(kv):
    assert await kv.get(Key("x" * 3000)) is None
