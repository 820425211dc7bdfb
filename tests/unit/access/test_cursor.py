"""S09: a cursor fits the list it was made for, and nothing else is one."""

import asyncio
import base64
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.access.cursor import make_cursor, read_cursor
from shared.errors import InvalidRequest
from shared.storage.secret_store import SecretValues
from tests.support.memory import memory_env, within

POSITION = "2026-01-02T03:04:05.678900Z#sub_0"
FILTER = "submissions () False True"
ENV = memory_env()


def make(position=POSITION, filter_=FILTER, env=ENV):
    return asyncio.run(within(env, lambda: make_cursor(position, filter_)))


def read(cursor, filter_=FILTER, env=ENV):
    return asyncio.run(within(env, lambda: read_cursor(cursor, filter_)))


def is_refused(cursor, filter_=FILTER):
    try:
        read(cursor, filter_)
    except InvalidRequest as refusal:
        return refusal.code == "invalid_cursor"
    return False


def test_the_end_has_no_cursor_and_no_cursor_is_the_beginning():
    assert make(None) is None
    assert read(None) is None


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.text(max_size=20))
def test_a_cursor_gives_back_its_position(position, filter_):
    filter_ = filter_.encode(errors="replace").decode()
    cursor = make(position, filter_)
    assert read(cursor, filter_) == position
    assert cursor.isascii()
    assert not set(cursor) & set("=+/&?# ")  # goes into a query as it is


@pytest.mark.requirement("S09")
@pytest.mark.parametrize("filter_", ["submissions () False False", "skills", "", FILTER + " "])
def test_a_cursor_of_another_list_is_refused(filter_):
    assert is_refused(make(), filter_)


@pytest.mark.requirement("S09")
def test_a_position_cannot_be_moved_into_the_filter():
    cursor = make("b\nc", "a")
    assert is_refused(base64.urlsafe_b64encode(_raw(cursor)[:16] + b"c").decode().rstrip("="), "a\nb")


@pytest.mark.requirement("S09")
@pytest.mark.parametrize("cursor", ["", "a", "====", "\u0661", "a b", "../..", "null", "A" * 10_000, "\ud800", "%00"])
def test_what_is_no_cursor_is_refused(cursor):
    assert is_refused(cursor)


@pytest.mark.requirement("S09")
@settings(deadline=None)
@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_random_text_is_refused(text):
    assert is_refused(text)


@pytest.mark.requirement("S09")
@settings(deadline=None)
@given(st.integers(min_value=0, max_value=len(POSITION) + 20))
def test_a_truncated_cursor_is_refused(length):
    assert is_refused(make()[:length])


@pytest.mark.requirement("S09")
@settings(deadline=None)
@given(st.integers(min_value=0, max_value=len(POSITION) + 15), st.integers(1, 255))
def test_a_cursor_with_one_edited_byte_is_refused(index, change):
    raw = bytearray(_raw(make()))
    raw[index] ^= change
    assert is_refused(base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="))


@pytest.mark.requirement("S09")
def test_a_cursor_signed_with_another_key_is_refused():
    class OtherSecrets:
        async def get(self):
            return SecretValues(signing_key="o" * 64)

    assert is_refused(make(env=dataclasses.replace(memory_env(), secrets=OtherSecrets())))


def _raw(cursor):
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
