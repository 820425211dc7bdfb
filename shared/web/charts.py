"""Charts as coordinates: the templates draw them as inline SVG, so they need no script and no style attribute."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from shared.records.installs import DAYS_KEPT, TREND_DAYS, installs_until
from shared.records.skills import SkillCounts
from shared.records.submissions import CATEGORIES, STUCK_THRESHOLD, State
from shared.submissions.counters import CREATED, Hour

SPARK_WIDTH, SPARK_HEIGHT = 96, 24
CHART_HEIGHT = 96


class Spark(NamedTuple):
    line: str  # points of a polyline
    area: str
    total: int


class Bar(NamedTuple):
    start: datetime
    published: int
    rejected: int
    parked: int
    published_height: float
    rejected_height: float
    parked_height: float


class DayBar(NamedTuple):
    day: date
    place: int  # of 90, oldest first
    installs: int
    height: float


class InstallChart(NamedTuple):
    """Of the last 90 days; days without installs have no bar."""

    first: date
    last: date
    total: int
    this_week: int
    most: int
    bars: list[DayBar]


class OldestBar(NamedTuple):
    state: State
    age: timedelta | None  # None: no submission is in this state
    width: float  # of 100


def sparks(hours: Sequence[Hour] | None) -> dict[str, Spark]:
    """For each card, what entered it in each hour. Empty if the hours could not be read."""
    if hours is None:
        return {}
    series = {name: [_sum(hour, states) for hour in hours] for name, states in CATEGORIES.items()}
    series["total"] = [hour.counts.get(CREATED, 0) for hour in hours]
    return {name: spark(values) for name, values in series.items()}


def spark(values: Sequence[int]) -> Spark:
    top = max([*values, 1])
    step = SPARK_WIDTH / max(1, len(values) - 1)
    points = [
        f"{n * step:.1f},{SPARK_HEIGHT - 2 - value / top * (SPARK_HEIGHT - 4):.1f}" for n, value in enumerate(values)
    ]
    line = " ".join(points)
    return Spark(line, f"0,{SPARK_HEIGHT} {line} {SPARK_WIDTH},{SPARK_HEIGHT}", sum(values))


def throughput(hours: Sequence[Hour]) -> tuple[list[Bar], int]:
    """Outcomes per hour as stacked heights, and the maximum of the scale."""
    counts = [_outcomes(hour) for hour in hours]
    top = max([1, *map(sum, counts)])
    bars = [
        Bar(hour.start, *outcome, *(value / top * CHART_HEIGHT for value in outcome))
        for hour, outcome in zip(hours, counts, strict=True)
    ]
    return bars, top


def oldest(since: Mapping[State, datetime], at: datetime) -> list[OldestBar]:
    """Age of the oldest submission in each active state, on a scale of at least the stuck threshold."""
    longest = max([STUCK_THRESHOLD, *(at - start for start in since.values())])
    bars = []
    for state in CATEGORIES["active"]:
        age = at - since[state] if state in since else None
        bars.append(OldestBar(state, age, 0.0 if age is None else age / longest * 100))
    return bars


def daily_installs(counts: SkillCounts | None, today: date) -> InstallChart | None:
    """None: the counts could not be read."""
    if counts is None:
        return None
    daily = installs_until(counts, today, DAYS_KEPT)
    first, top = today - timedelta(days=DAYS_KEPT - 1), max(1, *daily)
    bars = [
        DayBar(first + timedelta(days=n), n, each, each / top * CHART_HEIGHT) for n, each in enumerate(daily) if each
    ]
    return InstallChart(first, today, sum(daily), sum(daily[-TREND_DAYS:]), max(daily), bars)


def _outcomes(hour: Hour) -> tuple[int, int, int]:
    parked = CATEGORIES["blocked"] + CATEGORIES["onHold"]
    return _sum(hour, CATEGORIES["published"]), _sum(hour, CATEGORIES["rejected"]), _sum(hour, parked)


def _sum(hour: Hour, states: Iterable[State]) -> int:
    return sum(hour.counts.get(state, 0) for state in states)
