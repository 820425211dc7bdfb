"""The simulation of ten million submissions counts the keys that the platform writes."""

import asyncio
import json
from collections import Counter

import pytest

from bench import runbooks
from bench.partitions import (
    PAGE,
    RESULTS,
    SkillKeys,
    Words,
    as_named,
    conflicts_at,
    family_in,
    name_of,
    partitions_of_skill,
    real_sample,
    shared_partitions,
    simulate,
    units_per_put,
    with_tables,
)
from tests.support.metered_dynamo import family_of


@pytest.fixture(scope="module")
def sample():
    return asyncio.run(real_sample(6))


def written_by_first(sample):
    [first] = [written for written in sample.units if ("table", f"sub:{sample.submission.id}") in written]
    return {partition for index, partition in first if index == "table"}


def test_the_keys_made_for_a_skill_are_those_that_its_publication_wrote(sample):
    made = set(partitions_of_skill(sample.submission, sample.skill))
    families = set(map(family_of, made))
    assert made == {partition for partition in written_by_first(sample) if family_of(partition) in families}
    assert {"find", "findsub", "named", "facet", "unique", "alike"} <= families


def test_every_partition_that_submissions_share_is_in_the_simulation(sample):
    written = Counter(partition for units in sample.units for partition, amount in units.items() if amount)
    shared = {family_in(name_of(partition)) for partition, n in written.items() if n > 1}
    assert shared
    assert shared <= simulate(sample, 50, 2000).keys()


def test_a_partition_that_all_share_has_what_all_write_into_it(sample):
    [facet] = [peak for family, peak in simulate(sample, 50, 3000).items() if family == "facet"]
    assert facet.partition == "facet:tier=scanned"
    assert facet.units == 1000 * units_per_put(sample)["facet"]
    assert facet.total == 3 * facet.units


def test_what_one_submission_writes_alone_is_not_multiplied(sample):
    names = {name for member in shared_partitions(sample, set()) for name, _ in member}
    assert not [name for name in names if name.startswith(("sub:", "hist:"))]


def test_skills_have_partitions_of_their_own_words(sample):
    keys, words = SkillKeys(sample, 20), Words()
    named = [words.skill(number) for number in range(20)]
    made = partitions_of_skill(*as_named(sample, named[7]))
    assert [keys.names[number] for number in keys.of(7)] == made
    assert f"find:{named[7].name[:2]}" in made


def test_moves_that_come_faster_conflict_more_and_wait_longer(sample):
    slow, fast = (conflicts_at(moves, 0.03, sample.submission) for moves in (20, 200))
    assert slow["failed %"] == 0
    assert fast["conflicts a move"] > 3 * slow["conflicts a move"]
    assert fast["p99 ms"] > slow["p99 ms"]


def test_the_page_for_operators_shows_the_tables_of_the_last_run():
    result = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    assert with_tables(page, result) == page
    slower = [{**row, "units a second": 0} for row in result["families"]]
    assert with_tables(page, {**result, "families": slower}) != page


def test_the_page_for_operators_shows_how_long_the_runbooks_took():
    steps = json.loads(runbooks.RESULTS.read_text())["seconds"]
    page = PAGE.read_text()
    assert runbooks.with_table(page, steps) == page
    assert runbooks.with_table(page, {**steps, "another": 1.0}) != page
