"""Installs per day: a short list beside the counts of a skill."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.records.installs import DAYS_KEPT, installs_until, trend_of, with_installs
from shared.records.skills import SkillCounts

DAY = date(2026, 3, 1)


def counted(installed: dict[int, int]) -> SkillCounts:
    """By day, counted from DAY."""
    counts = SkillCounts(name="a/b/c")
    for day, installs in sorted(installed.items()):
        counts = with_installs(counts, installs, DAY + timedelta(days=day))
    return counts


@given(st.dictionaries(st.integers(0, 400), st.integers(1, 9), max_size=20), st.integers(0, 500), st.integers(1, 90))
def test_every_day_of_the_last_ninety_has_its_installs(installed, today, days):
    installed = {day: n for day, n in installed.items() if day <= today}
    found = installs_until(counted(installed), DAY + timedelta(days=today), days)
    assert found == [installed.get(day, 0) for day in range(today - days + 1, today + 1)]


@given(st.dictionaries(st.integers(0, 400), st.integers(1, 9), max_size=20))
def test_no_more_than_ninety_days_are_kept_and_the_sum_is_never_cut(installed):
    counts = counted(installed)
    assert len(counts.daily) <= DAYS_KEPT
    assert counts.installs == sum(installed.values())


def test_a_trend_is_the_sum_of_seven_days():
    counts = counted({0: 100, 1: 1, 4: 2, 7: 4})
    assert [trend_of(counts, DAY + timedelta(days=day)) for day in (0, 6, 7, 13, 14)] == [100, 103, 7, 4, 0]


def test_a_clock_that_is_behind_takes_nothing_away():
    counts = with_installs(counted({5: 2}), 1, DAY)
    assert (counts.last_day, counts.daily, counts.installs) == (DAY + timedelta(days=5), (3,), 3)
