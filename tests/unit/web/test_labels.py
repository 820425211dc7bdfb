"""The vocabulary of the pages."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.records.submissions import CATEGORY_OF, State
from shared.web import labels


def test_every_state_has_a_look_in_the_colour_of_its_category_and_a_next_step():
    assert {state: labels.look_of(state).hue for state in State} == {state: CATEGORY_OF[state] for state in State}
    assert set(labels.NEXT) == set(State)


@pytest.mark.parametrize(
    "state", [State.PUBLISHED, State.REJECTED, State.TIER1_FAILED, State.BLOCKED, State.ON_HOLD], ids=str
)
def test_a_state_is_called_like_its_category(state):
    assert labels.look_of(state).label == labels.CATEGORY_LABELS[CATEGORY_OF[state]]


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=-1), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(hours=23), "23 h"),
        (timedelta(days=1), "1 day"),
        (timedelta(days=30), "30 days"),
        (timedelta(days=31), "1 month"),
        (timedelta(days=319), "10 months"),
        (timedelta(days=364), "11 months"),
        (timedelta(days=366), "1 year"),
        (timedelta(days=800), "2 years"),
    ],
)
def test_an_age_has_one_unit(span, text):
    assert labels.age(span) == text


def test_durations_have_two_units():
    texts = {
        0.0142: "14 ms",
        1.4: "1.4 s",
        42: "42 s",
        130: "2 min 10 s",
        3600: "1 h",
        11100: "3 h 5 min",
        93600: "1 d 2 h",
    }
    assert {seconds: labels.duration(timedelta(seconds=seconds)) for seconds in texts} == texts


def test_a_moment_ago_is_just_now():
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert [labels.ago(now - timedelta(seconds=s), now) for s in (2, 180)] == ["just now", "3 min ago"]


def test_numbers_are_grouped_and_an_unknown_one_is_a_dash():
    assert [labels.number(n) for n in (None, 0, 12345)] == ["—", "0", "12\u202f345"]
    assert [labels.counted(n, "entry", "entries") for n in (0, 1)] == ["0 entries", "1 entry"]
