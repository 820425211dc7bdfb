"""Dead letters: one per message, however often it is delivered and however large it is."""

import asyncio

import pytest

from shared.errors import Unavailable
from shared.submissions.dead_letter_store import LARGEST_BODY, find_dead_letter, store_dead_letter
from tests.support.memory import MemoryKV, memory_env, within


def store(env, *args):
    return within(env, lambda: store_dead_letter(*args))


def find(env, message_id="m1"):
    return within(env, lambda: find_dead_letter(message_id))


async def test_a_dead_letter_keeps_what_a_person_needs(env):
    await store(env, "m1", "not json", "names no submission", None)
    letter = await find(env)
    assert (letter.body, letter.reason, letter.submission_id) == ("not json", "names no submission", None)
    assert letter.received_at <= env.clock.time
    assert await find(env, "m2") is None


async def test_a_message_delivered_ten_times_at_once_is_one_dead_letter(env):
    await asyncio.gather(*(store(env, "m1", "body", f"reason {n}", "sub_1") for n in range(10)))
    assert await env.kv.ids("dead-letter:") == ["m1"]
    first = await find(env)
    await store(env, "m1", "other", "later", None)
    assert await find(env) == first


async def test_many_messages_are_many_dead_letters(env):
    await asyncio.gather(*(store(env, f"m{n}", "same body", "same reason") for n in range(20)))
    assert sorted(await env.kv.ids("dead-letter:")) == sorted(f"m{n}" for n in range(20))


@pytest.mark.parametrize("letter", ["x", "\u00e4"])
async def test_a_body_over_100_KB_is_kept_in_the_bucket(env, letter):
    fits = letter * (LARGEST_BODY // len(letter.encode()))
    await store(env, "m1", fits, "poison")
    await store(env, "m2", fits + letter, "poison")
    small, large = await find(env, "m1"), await find(env, "m2")
    assert (small.body, small.body_key) == (fits, None)
    assert large.body is None
    assert env.content.bodies == {large.body_key: (fits + letter).encode()}


async def test_a_body_that_is_no_valid_text_is_kept_too(env):
    await store(env, "m1", "a\ud800b", "poison")
    assert (await find(env)).body == "a?b"


async def test_a_long_reason_is_whole_in_the_letter_and_short_in_the_list(env):
    await store(env, "m1", "body", "r" * 5000)
    assert (await find(env)).reason == "r" * 5000
    assert max(len(item.attrs["row"]) for item in env.kv.items.values()) < 700


async def test_when_the_store_is_down_the_message_is_not_taken_for_stored():
    class DownKV(MemoryKV):
        async def put(self, put):
            raise Unavailable("down")

    with pytest.raises(Unavailable):
        await store(memory_env(DownKV), "m1", "body", "poison")
