"""The table of faults and attacks in docs/reliability.md says what the tests say. That the guards of a row break its
tests is what `make test-mutants` shows."""

import pytest

from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.fault_table import Row, ids_in, level_of, named_tests, rows
from tests.faults.guards import GUARDS

IDS = [f"R{n:02}" for n in range(1, 35)] + [f"S{n:02}" for n in range(1, 25)]
GUARD_NAMES = [guard.name for guard in (*GUARDS, *ATTACK_GUARDS)]


def test_every_fault_and_attack_has_one_row_and_nothing_else_has():
    assert [row.id for row in rows()] == IDS
    assert {id_ for name in named_tests() for id_ in ids_in(name)} == set(IDS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_names_tests_that_bear_its_id_at_the_levels_there_are(row: Row):
    for name in row.tests:
        assert name in named_tests(), f"{name} is not there any more"
        assert row.id in ids_in(name)
    there = {level_of(path) for name, paths in named_tests().items() if row.id in ids_in(name) for path in paths}
    assert set(row.levels) == there


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_names_guards_and_tests_that_can_be_run_without_them(row: Row):
    assert set(row.guards) <= set(GUARD_NAMES)
    assert row.tests_without_processes()


@pytest.mark.parametrize("guard", [*GUARDS, *ATTACK_GUARDS], ids=lambda guard: guard.name)
def test_the_tests_of_a_guard_are_where_it_says(guard):
    for test in guard.tests:
        path, _, name = test.partition("::")
        assert path in named_tests()[name]


def test_no_two_guards_have_one_name():
    assert len(set(GUARD_NAMES)) == len(GUARD_NAMES)
