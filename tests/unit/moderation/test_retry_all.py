"""Many at once, in portions: nothing is read without bound, nothing is passed over, and the number left is reported."""

from datetime import timedelta

import pytest

from shared.errors import Unavailable
from shared.moderation import submission_decisions
from shared.records.submissions import State
from shared.storage.kv import SHARDS, Key
from shared.storage.secret_store import AdminToken
from shared.submissions.dead_letter_store import COUNTED, count_dead_letters, store_dead_letter
from shared.submissions.submission_list import find_by_reason
from shared.submissions.submission_store import get_submission, move_submission
from shared.timing import time_limit
from tests.support.builders import a_bundle, submitted
from tests.support.memory import MemoryKV, memory_env, within

ADMIN = AdminToken("anna", "admin", "")
WHY = "the outage is over"


class RowsKV(MemoryKV):
    """Knows how many rows it was asked for, and breaks one record."""

    rows = 0
    broken = None

    async def query(self, query):
        page = await super().query(query)
        self.rows += len(page.rows)
        return page

    async def load(self, key):
        if self.broken and key == self.broken:
            raise Unavailable("not now")
        return await super().load(key)


@pytest.fixture
def env():
    return memory_env(RowsKV)


async def parked(env, n: int, reason: str):
    ids = []
    for k in range(n):
        submission = await submitted(env, a_bundle(f"{reason[:3]}-{k}"))
        await within(env, lambda s=submission: move_submission(s, State.ON_HOLD, "system", f"{reason} {s.id}"))
        ids.append(submission.id)
    return ids


async def portions(ask):
    """Asks until nothing is left; what each portion said."""
    calls, position = [], None
    while True:
        calls.append(await ask(position))
        position = calls[-1].next_position
        if position is None:
            return calls


async def test_what_fits_is_found_page_by_page_behind_any_number_of_others(env):
    others = await parked(env, 30, "doubts about")
    mine = await parked(env, 9, "stuck: gave up")
    env.kv.rows = 0
    calls = await portions(lambda after: within(env, lambda: find_by_reason(State.ON_HOLD, "stuck", after, limit=5)))
    assert [found for page in calls for _, found in page.found] == mine
    assert len(calls) >= (len(others) + len(mine)) // 5
    assert (
        env.kv.rows / len(calls) <= SHARDS * 6
    )  # of each partition one more than a page takes, however many there are


async def test_where_one_partition_was_cut_nothing_behind_its_end_is_taken_yet(env, monkeypatch):
    """Else it would be found again on the next page."""
    monkeypatch.setattr("shared.submissions.submission_store.rows_per_partition", lambda limit: 2)
    mine = await parked(env, 20, "stuck: gave up")
    calls = await portions(lambda after: within(env, lambda: find_by_reason(State.ON_HOLD, "stuck", after, limit=50)))
    assert [found for page in calls for _, found in page.found] == mine


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_everything_that_fits_is_retried_once_and_what_is_left_is_reported(env, limit):
    mine = await parked(env, 6, "stuck: gave up")
    await parked(env, 3, "doubts about")

    def ask(after):
        return within(env, lambda: submission_decisions.requeue_all(State.ON_HOLD, "stuck", ADMIN, WHY, after, limit))

    calls = await portions(ask)
    assert [one for portion in calls for one in portion.retried] == mine
    assert [portion.left for portion in calls] == [*range(6 - limit, 0, -limit), 0]
    assert {portion.more for portion in calls} == {False}
    assert (await ask(None)).retried == []


async def test_when_time_runs_out_the_portion_ends_and_says_where_to_go_on(env):
    mine = await parked(env, 3, "stuck: gave up")

    async def hurried(after):
        with time_limit(timedelta(seconds=1)):
            return await submission_decisions.requeue_all(State.ON_HOLD, "stuck", ADMIN, WHY, after)

    calls = await portions(lambda after: within(env, lambda: hurried(after)))
    assert [portion.retried for portion in calls] == [[one] for one in mine]
    assert [portion.left for portion in calls] == [2, 1, 0]


async def test_a_record_that_cannot_be_read_is_named_and_the_others_are_retried(env):
    first, second = await parked(env, 2, "stuck: gave up")
    env.kv.broken = Key(f"sub:{first}")
    portion = await within(env, lambda: submission_decisions.requeue_all(State.ON_HOLD, "stuck", ADMIN, WHY))
    assert (portion.failed, portion.retried) == ([first], [second])


async def test_letters_of_a_reason_are_retried_behind_any_number_of_others(env, monkeypatch):
    monkeypatch.setattr(submission_decisions, "LETTERS_AT_ONCE", 4)
    mine = await parked(env, 3, "its message failed")
    for submission_id in mine:
        await within(env, lambda s=submission_id: store_dead_letter(f"m-{s}", "{}", "failed 5 deliveries", s))
    for n in range(9):  # newer, so they come first
        await within(env, lambda n=n: store_dead_letter(f"junk-{n}", "junk", "names no submission"))
    calls = await portions(
        lambda after: within(
            env, lambda: submission_decisions.retry_dead_letters("failed 5 deliveries", ADMIN, WHY, after)
        )
    )
    assert sorted(one for portion in calls for one in portion.retried) == sorted(mine)
    assert [portion.more for portion in calls] == [True, True, False]
    states = {(await within(env, lambda s=s: get_submission(s))).state for s in mine}
    assert states == {State.RECEIVED}


async def test_many_dead_letters_cost_no_more_to_count_than_some(env):
    for n in range(COUNTED):
        await within(env, lambda n=n: store_dead_letter(f"m{n}", "junk", "poison"))
    assert await within(env, count_dead_letters) == COUNTED
    for n in range(COUNTED * 6):
        await within(env, lambda n=n: store_dead_letter(f"more-{n}", "junk", "poison"))
    env.kv.rows = 0
    assert await within(env, count_dead_letters) == "100+"
    assert env.kv.rows <= SHARDS * (COUNTED + 1)
