"""Writes that need no transaction: what a batch leaves over is written again, or reported."""

from datetime import timedelta

import pytest

from shared.errors import Unavailable
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Key, Put
from shared.timing import time_limit
from tests.support.memory_dynamo import MemoryDynamo, throttled

PUTS = [Put(Key("word", f"{n:02}"), f'"{n}"') for n in range(60)]


class Busy(MemoryDynamo):
    """Takes so many writes of a batch; and refuses the first batch."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.takes = takes
        self.batches = 0

    def apply(self, operation, params, by=None):
        self.batches += 1
        if self.batches == 1:
            raise throttled()
        [(table, puts)] = params["RequestItems"].items()
        taken, left = puts[: self.takes], puts[self.takes :]
        super().apply(operation, {"RequestItems": {table: taken}}, by)
        return {"UnprocessedItems": {table: left} if left else {}}


@pytest.mark.requirement("R16")
async def test_what_a_batch_leaves_over_is_written_again():
    dynamo = Busy(takes=9)
    await DynamoKV(dynamo, "t").put_all(PUTS)
    assert {key.sk: item.doc for key, item in dynamo.items.items()} == {put.key.sk: put.doc for put in PUTS}
    assert dynamo.batches == 1 + 3 + 3 + 2


@pytest.mark.requirement("R15")
async def test_what_is_never_taken_is_reported_by_the_deadline():
    with time_limit(timedelta(milliseconds=50)), pytest.raises(Unavailable):
        await DynamoKV(Busy(takes=0), "t").put_all(PUTS)
