"""A store whose transactions conflict, as DynamoDB's do: two that touch one item at one moment, and one is refused. The
real stores on the real DynamoKV with its backoff; time is virtual."""

import asyncio
import random

import pytest
from botocore.exceptions import ClientError

from shared.errors import Unavailable
from shared.records.submissions import State, Submission, new_id
from shared.storage.dynamo_kv import DynamoKV
from shared.submissions.counters import get_stats
from shared.submissions.submission_store import claim_submission, create, move_submission
from shared.timing import LONGEST_LEASE
from shared.worker_context import run_with_worker_env
from tests.faults.virtual_loop import VirtualLoop
from tests.support.invariants import check_invariants
from tests.support.memory import memory_env
from tests.support.memory_dynamo import MemoryDynamo

MOVES_PER_SECOND = 200
SECONDS = 10
MOVES_EACH = 3  # accepted, claimed, ended
LONGEST_TRANSACTION = 0.03  # seconds


class ConflictingDynamo(MemoryDynamo):
    def __init__(self, loop: VirtualLoop, dice: random.Random) -> None:
        super().__init__()
        self.loop, self.dice = loop, dice
        self.under_way: set[tuple[str, str]] = set()
        self.conflicts = self.transactions = 0

    async def __call__(self, operation, params):
        if operation != "TransactWriteItems":
            return self.apply(operation, params)
        keys = [_key_of(action) for action in params["TransactItems"]]
        self.transactions += 1
        if not self.under_way.isdisjoint(keys):
            self.conflicts += 1
            raise _conflict([key in self.under_way for key in keys])
        self.under_way |= set(keys)
        try:
            await asyncio.sleep(self.dice.uniform(0.005, LONGEST_TRANSACTION))
            return self.apply(operation, params)
        finally:
            self.under_way -= set(keys)


class Movers:
    """Each of many submissions is accepted, claimed and ended by one mover, which asks again when the store refuses, as
    the queue does."""

    def __init__(self, env, dice: random.Random) -> None:
        self.env, self.dice = env, dice
        self.asked = self.refused = self.ended = 0

    async def run(self, movers: int) -> None:
        await asyncio.gather(*(self.move(n) for n in range(movers)))

    async def move(self, n: int) -> None:
        await asyncio.sleep(self.dice.uniform(0, SECONDS))
        at = self.env.clock()
        draft = Submission(
            id=new_id(at),
            source=f"https://github.com/acme/r{n}",
            skill_path=".",
            skill_name=f"acme/r{n}/tool-{n}",
            state=State.RECEIVED,
            created_at=at,
            updated_at=at,
        )
        accepted = await self.insist(lambda: create(draft))
        claimed = await self.insist(lambda: claim_submission(accepted, "worker", LONGEST_LEASE))
        await self.insist(lambda: move_submission(claimed, State.ON_HOLD, "worker", "look at it", parked_by="person"))
        self.ended += 1

    async def insist(self, move):
        while True:
            self.asked += 1
            try:
                return await move()
            except Unavailable:
                self.refused += 1
                await asyncio.sleep(1)


@pytest.mark.requirement("R42")
def test_200_moves_a_second_against_a_store_that_conflicts_all_end_and_are_counted_exactly():
    random.seed(42)  # the jitter of the backoff
    loop, dice = VirtualLoop(), random.Random(42)
    env = memory_env(kv_type=lambda now: DynamoKV(ConflictingDynamo(loop, dice), "t", now))
    movers = Movers(env, dice)
    many = MOVES_PER_SECOND * SECONDS // MOVES_EACH
    try:
        loop.run_until_complete(run_with_worker_env(env, lambda: movers.run(many)))
        stats = loop.run_until_complete(run_with_worker_env(env, get_stats))
    finally:
        loop.close()
    dynamo = env.kv._wire
    assert (movers.ended, stats.on_hold, stats.total) == (many, many, many)
    assert dynamo.conflicts > dynamo.transactions / 20  # it really conflicts
    assert movers.refused <= movers.asked / 100
    check_invariants(dynamo)


def _key_of(action) -> tuple[str, str]:
    [(kind, params)] = action.items()
    key = params["Item"] if kind == "Put" else params["Key"]
    return key["pk"]["S"], key["sk"]["S"]


def _conflict(conflicting: list[bool]) -> ClientError:
    reasons = [{"Code": "TransactionConflict" if each else "None"} for each in conflicting]
    error = {"Code": "TransactionCanceledException"}
    return ClientError(
        {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}, "CancellationReasons": reasons}, "op"
    )
