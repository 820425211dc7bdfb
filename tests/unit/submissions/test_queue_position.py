"""Who waits, in which order, for how long: ranks that are true, and no promise that nobody can keep."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.records.submissions import State
from shared.submissions import queue_position
from shared.submissions.counters import Hour, drain_rate, get_hours
from shared.submissions.queue_health import get_queue_status
from shared.submissions.queue_position import expected_wait, get_waiting
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


async def test_the_place_is_the_rank_among_those_who_wait_longest_first(env):
    waits = [await submitted(env, a_bundle(f"w-{n}")) for n in range(5)]
    await processed(env, waits[1])
    found = await within(env, get_waiting)
    assert [found.position_of(one.id) for one in waits] == [1, None, 2, 3, 4]
    assert not found.more


async def test_behind_the_ranked_there_are_more(env, monkeypatch):
    monkeypatch.setattr(queue_position, "RANKED", 3)
    waits = [await submitted(env, a_bundle(f"w-{n}")) for n in range(5)]
    found = await within(env, lambda: get_waiting(3))
    assert list(found.ids) == [one.id for one in waits[:3]]
    assert found.more


def test_the_pace_is_of_the_last_sixty_minutes_and_counts_all_that_no_longer_waits():
    before = {"RECEIVED": 50, "PUBLISHED": 30, "ON_HOLD": 9}
    hours = [Hour(NOON - timedelta(hours=1), before), Hour(NOON, {"REJECTED": 10})]
    assert drain_rate(hours, NOON + timedelta(minutes=20)) == pytest.approx(10 + 39 * 2 / 3)


def test_there_is_a_wait_only_behind_those_who_are_taken_at_once_and_only_with_a_pace():
    assert expected_wait(30, 0) == timedelta()
    assert expected_wait(31, 0) is None
    assert expected_wait(90, 60) == timedelta(hours=1)


async def test_hours_count_what_enters_a_category_and_what_is_new(env):
    one = await submitted(env)
    await processed(env, one)
    env.clock.forward(hours=1)
    await submitted(env, a_bundle("next"))
    *_, before, this = await within(env, lambda: get_hours(env.clock()))
    assert before.counts == {"created": 1, "RECEIVED": 1, "PUBLISHED": 1}
    assert this.counts == {"created": 1, "RECEIVED": 1}


async def test_the_oldest_of_each_active_state_is_known(env):
    first = await submitted(env, a_bundle("first"))
    await submitted(env, a_bundle("second"))
    status = await within(env, get_queue_status)
    assert [(one.state, one.since) for one in status.oldest] == [(State.RECEIVED, first.updated_at)]
