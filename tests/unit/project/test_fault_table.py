"""The table of faults and attacks in docs/reliability.md agrees with the tests. That switching a guard of a row off
fails its tests is what `make test-mutants` shows."""

from importlib import import_module
from operator import attrgetter

import pytest

from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.fault_table import Row, level_of, rows
from tests.faults.guards import GUARDS
from tests.support.marked_tests import marked_tests

REQUIRED = {f"R{n:02}" for n in range(1, 46)} | {f"S{n:02}" for n in range(1, 51)}
GUARD_NAMES = [guard.name for guard in (*GUARDS, *ATTACK_GUARDS)]


def test_every_fault_and_attack_has_one_row():
    ids = [row.id for row in rows()]
    assert ids == sorted(set(ids))
    assert set(ids) >= REQUIRED


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_names_existing_tests_with_its_id_at_every_level_there_is(row: Row):
    assert {test.name for test in row.named_tests()} == set(row.tests)
    assert all(row.id in test.ids for test in row.named_tests())
    assert set(row.levels) == {level_of(test) for test in marked_tests() if row.id in test.ids}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_names_existing_guards_and_a_test_that_runs_in_this_process(row: Row):
    assert set(row.guards) <= set(GUARD_NAMES)
    assert row.tests_without_processes()


@pytest.mark.parametrize("guard", [*GUARDS, *ATTACK_GUARDS], ids=lambda guard: guard.name)
def test_a_guard_names_existing_tests(guard):
    assert set(guard.tests) <= {test.node_id for test in marked_tests()}


@pytest.mark.parametrize("guard", [*GUARDS, *ATTACK_GUARDS], ids=lambda guard: guard.name)
def test_a_guard_replaces_something_that_exists_and_puts_it_back(guard):
    before = [_found(target) for target in guard.switches]
    with guard.switched_off():
        assert all(_found(target) is not original for target, original in zip(guard.switches, before, strict=True))
    assert [_found(target) for target in guard.switches] == before
    assert before


def _found(target: str):
    module, _, path = target.partition(":")
    return attrgetter(path)(import_module(module))


def test_no_two_guards_have_one_name():
    assert len(set(GUARD_NAMES)) == len(GUARD_NAMES)
