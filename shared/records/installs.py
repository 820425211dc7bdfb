"""Installs per day, kept with the counts of a skill: one short list that ends with the last day anything was installed.
Pure: no clock."""

from datetime import date, timedelta

import msgspec

from shared.records.skills import SkillCounts

DAYS_KEPT = 90
TREND_DAYS = 7


def with_installs(counts: SkillCounts, installs: int, day: date) -> SkillCounts:
    """Counted on this day; on the last known one if that is later: the clocks of two functions may differ."""
    if not installs:
        return counts
    day = max(day, counts.last_day or day)
    daily = installs_until(counts, day, DAYS_KEPT)
    daily[-1] += installs
    first = next(n for n, each in enumerate(daily) if each)
    return msgspec.structs.replace(
        counts, installs=counts.installs + installs, daily=tuple(daily[first:]), last_day=day
    )


def installs_until(counts: SkillCounts, day: date, days: int) -> list[int]:
    """Of each of the last days up to this one, oldest first."""
    first = counts.last_day - timedelta(days=len(counts.daily) - 1) if counts.last_day else day
    ago = range(days - 1, -1, -1)
    places = ((day - timedelta(days=n) - first).days for n in ago)
    return [counts.daily[place] if 0 <= place < len(counts.daily) else 0 for place in places]


def trend_of(counts: SkillCounts, day: date) -> int:
    """Installs of the last seven days."""
    return sum(installs_until(counts, day, TREND_DAYS))


def week_of(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
