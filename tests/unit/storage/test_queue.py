"""Messages: R30, old and new ones are understood; R21, poison is recognised on first receipt."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import Unavailable
from shared.storage.queue import Message, Poison, SqsQueue, body_of, parse_body, whole_seconds
from shared.timing import time_limit

ID = "sub_01kk2v5q3n8d7a6f5e4d3c2b1a"


def test_a_message_says_in_which_turn_of_its_record_it_was_sent():
    assert parse_body(body_of(ID, 7)).generation == 7
    assert parse_body(body_of(ID)).generation == 0


@pytest.mark.requirement("R30")
def test_the_first_message_ever_sent_stays_what_it_is():
    assert body_of(ID) == '{"schema":1,"id":"sub_01kk2v5q3n8d7a6f5e4d3c2b1a"}'


@pytest.mark.requirement("R30")
@pytest.mark.parametrize(
    ("body", "schema"),
    [
        (f'{{"schema":1,"id":"{ID}"}}', 1),
        (f'{{"id": "{ID}", "schema": 1}}', 1),
        (f'{{"schema":1,"id":"{ID}","sentAt":"2027-01-01","trace":{{"a":[1]}}}}', 1),
        (f'{{"schema":2,"id":"{ID}"}}', 2),
        (f'{{"schema":99,"id":"{ID}","kind":"rescan"}}', 99),
    ],
)
def test_golden_messages_of_old_and_newer_senders_are_understood(body, schema):
    assert parse_body(body) == Message(ID, schema)


POISON = [
    *("", " ", "null", "true", "1", "[]", "{}", "not json", '"text"', f'"{ID}"', f'["{ID}"]', "{", "\0", "\ud800"),
    f'{{"id":"{ID}"}}',
    '{"schema":1}',
    f'{{"schema":"1","id":"{ID}"}}',
    f'{{"schema":1.5,"id":"{ID}"}}',
    f'{{"schema":null,"id":"{ID}"}}',
    '{"schema":1,"id":null}',
    '{"schema":1,"id":17}',
    '{"schema":1,"id":""}',
    '{"schema":1,"id":"sub_"}',
    '{"schema":1,"id":"sub_1"}',
    '{"schema":1,"id":"skill:x"}',
    f'{{"schema":1,"id":"{ID.upper()}"}}',
    f'{{"schema":1,"id":"{ID}\\n"}}',
    f'{{"schema":1,"id":"{ID}"}} trailing',
    f'{{"schema":1,"id":"sub_{"x" * 1_000_000}"}}',
    "x" * 1_000_000,
    "[" * 100_000,
    '{"schema":1,"id":"' + "\\u0000" * 30 + '"}',
]


@pytest.mark.requirement("R21")
@pytest.mark.parametrize("body", POISON, ids=lambda body: ascii(body[:40]))
def test_a_body_that_names_no_submission_is_poison(body):
    with pytest.raises(Poison) as poison:
        parse_body(body)
    assert len(str(poison.value)) < 300


@pytest.mark.requirement("R21")
@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_message_or_poison(body):
    with pytest.raises(Poison):
        parse_body(body)


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [(0, 0), (-5, 0), (0.2, 1), (1, 1), (59.01, 60), (900, 900), (901, 900), (86_400, 900)],
)
def test_a_delay_is_whole_seconds_that_sqs_takes_and_never_shorter_than_asked(delay, seconds):
    assert whole_seconds(timedelta(seconds=delay)) == seconds


@pytest.mark.requirement("R02")
async def test_a_queue_that_hangs_leaves_the_accepting_function_time_to_respond():
    async def hangs(operation, params):
        await asyncio.Event().wait()

    with time_limit(timedelta(milliseconds=20)), pytest.raises(Unavailable):
        await asyncio.wait_for(SqsQueue(hangs, "q").send(ID), 30)
