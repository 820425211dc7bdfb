"""The feed that open pages follow: in order, without loss, in bounded answers."""

import asyncio

import msgspec
import pytest

from shared.errors import InvalidRequest
from shared.storage.documents import stamp
from shared.submissions import feed
from shared.submissions.feed import get_events
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.memory import memory_env, within
from tests.support.route_calls import call


async def events(env, since):
    return await within(env, lambda: get_events(since, env.clock()))


def changes(answers) -> set[tuple[str, int]]:
    return {(event.row.id, event.row.version) for answer in answers for event in answer.events}


def moves(env) -> set[tuple[str, int]]:
    rows = [msgspec.json.decode(item.doc) for key, item in env.kv.items.items() if key.pk.startswith("feed:")]
    return {(row["id"], row["version"]) for row in rows}


async def test_without_a_position_it_starts_from_now(env):
    await submitted(env)
    answer = await events(env, None)
    assert answer.events == []
    assert answer.last_id == stamp(env.clock.time)


async def test_every_move_after_the_position_is_returned_in_order(env):
    start = stamp(env.clock())
    submission = await submitted(env)
    await processed(env, submission)
    answer = await events(env, start)
    assert [event.row.state for event in answer.events] == ["RECEIVED", "TIER1_SCANNING", "PUBLISHED"]
    assert [event.position for event in answer.events] == sorted(event.position for event in answer.events)
    assert not answer.has_more


async def test_a_page_that_reconnects_again_and_again_misses_nothing(env):
    position = stamp(env.clock())
    answers = []
    for n in range(30):
        submission = await submitted(env, an_unusable_bundle(f"s-{n}") if n % 3 else a_bundle(f"s-{n}"))
        env.clock.forward(seconds=n)
        await processed(env, submission)
        answers.append(await events(env, position))
        position = answers[-1].last_id
    assert changes(answers) >= moves(env)


async def test_what_becomes_visible_late_is_in_the_next_answer(env):
    """A transaction may be seen up to ten seconds after the time it carries."""
    start = stamp(env.clock())
    early = await submitted(env, a_bundle("early"))
    [key] = [key for key in env.kv.items if key.pk.startswith("feed:")]
    hidden = env.kv.items.pop(key)
    env.clock.forward(seconds=5)
    await submitted(env, a_bundle("later"))
    first = await events(env, start)
    assert early.id not in {event.row.id for event in first.events}
    env.kv.items[key] = hidden
    env.clock.forward(seconds=2)
    second = await events(env, first.last_id)
    assert early.id in {event.row.id for event in second.events}


async def test_a_burst_is_returned_in_full_answers_that_continue_at_once(env, monkeypatch):
    monkeypatch.setattr(feed, "MAX_EVENTS", 10)
    start = position = stamp(env.clock())
    await asyncio.gather(*(submitted(env, a_bundle(f"burst-{n}")) for n in range(35)))
    answers = []
    while not answers or answers[-1].has_more:
        answers.append(await events(env, position))
        position = answers[-1].last_id
    assert len(answers) == 4
    assert changes(answers) == moves(env)
    assert position > start


async def test_repeats_say_only_how_things_stand_now(env):
    submission = await submitted(env)
    await processed(env, submission)
    answer = await events(env, stamp(env.clock()))
    assert [event.row.state for event in answer.events] == ["PUBLISHED"]


async def test_a_long_absence_is_made_up_for_five_minutes_at_a_time(env):
    position = stamp(env.clock())
    for n in range(4):
        await submitted(env, a_bundle(f"slow-{n}"))
        env.clock.forward(minutes=4)
    answers = []
    while not answers or answers[-1].has_more:
        answers.append(await events(env, position))
        position = answers[-1].last_id
    assert len(answers) == 4
    assert changes(answers) == moves(env)


async def test_older_than_the_feed_is_a_reset(env):
    start = stamp(env.clock())
    env.clock.forward(minutes=61)
    answer = await events(env, start)
    assert answer.is_reset
    assert answer.last_id == stamp(env.clock.time)


@pytest.mark.parametrize(
    "position", ["", "yesterday", "2026-13-01T00:00:00.000000Z", "2026-01-02T03:04:05Z", "x" * 999]
)
async def test_a_position_of_another_form_is_refused(env, position):
    with pytest.raises(InvalidRequest):
        await events(env, position)


async def test_a_broken_entry_costs_itself(env):
    start = stamp(env.clock())
    broken = await submitted(env, a_bundle("broken"))
    good = await submitted(env, a_bundle("good"))
    [key] = [key for key in env.kv.items if key.pk.startswith("feed:") and broken.id in key.sk]
    env.kv.items[key].doc = "{broken"
    assert changes([await events(env, start)]) == {(good.id, 1)}


async def test_the_stream_is_server_sent_events_that_json_says_too():
    env = memory_env()
    start = stamp(env.clock())
    submission = await submitted(env)
    stream = await call(env, "GET /api/v1/submissions/stream", f"/api/v1/submissions/stream?since={start}")
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in stream.text.strip().split("\n\n")]
    assert blocks[0] == {"retry": "2000"}
    assert [block["event"] for block in blocks[1:]] == ["submission", "stats"]
    assert msgspec.json.decode(blocks[1]["data"])["id"] == submission.id
    assert msgspec.json.decode(blocks[2]["data"])["active"] == 1
    answer = await call(env, "GET /api/v1/submissions/events", f"/api/v1/submissions/events?since={start}")
    assert [row["id"] for row in answer.json["events"]] == [submission.id]
    assert answer.json["stats"]["active"] == 1


async def test_the_header_of_a_reconnect_wins_over_the_address(env):
    submission = await submitted(env)
    old = stamp(env.clock())
    env.clock.forward(minutes=2)
    headers = {"last-event-id": stamp(env.clock())}
    path = f"/api/v1/submissions/stream?since={old}"
    stream = await call(env, "GET /api/v1/submissions/stream", path, headers=headers)
    assert submission.id not in stream.text


async def test_a_quiet_platform_is_asked_less_often(env):
    stream = await call(env, "GET /api/v1/submissions/stream")
    assert stream.text.startswith("retry: 5000\n")
