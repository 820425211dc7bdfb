"""`make test-mutants`: switches each guard off and says who noticed, and how often it mattered while it was on.

First everything runs with every guard on: it must pass, and every guard must matter. Then, with one guard off at a
time, every test of its rows in docs/reliability.md and every test that the guard itself names must fail; a guard
without either must be missed by the model.
"""

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO

import _hypothesis_pytestplugin  # noqa: F401 - first: it refuses to be loaded after a strategy was used
import pytest
from hypothesis.errors import HypothesisSideeffectWarning
from hypothesis.stateful import run_state_machine_as_test

from tests.faults import machine
from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.fault_table import Row, rows
from tests.faults.guards import GUARDS, Guard, counted
from tests.faults.side_by_side import TookTooLong, side_by_side
from tests.faults.test_model import PROFILES

LONGEST = 300.0  # seconds
LONGEST_WAIT = 20.0  # where a test waits for ever without its guard: then it has noticed
OPTIONS = ["-q", "--assert=plain", "--tb=short", "-p", "no:unraisableexception", "-p", "no:cacheprovider"]
IN_MODEL, IN_TESTS = "the model", "the tests"


def main(names: Sequence[str]) -> int:
    guards = [guard for guard in (*GUARDS, *ATTACK_GUARDS) if not names or guard.name in names]
    mattered = _how_often(guards)
    print("| guard switched off | missed by | mattered in the model | in tests |\n|---|---|---|---|", flush=True)
    missed_by: dict[str, list[str]] = {}
    for guard, by in _with_each_off(guards):
        missed_by[guard.name] = by
        times = " | ".join(f"{mattered[where][guard.name]:,}" for where in (IN_MODEL, IN_TESTS))
        print(f"| {guard.name} | {', '.join(map(_name, by)) or '**nobody**'} | {times} |", flush=True)
    checked = [row for row in rows() if set(row.guards) <= set(missed_by)]
    wrong = [
        *(f"{g.name} never mattered." for g in guards if not any(times[g.name] for times in mattered.values())),
        *(f"{g.name} is off, and nobody notices." for g in guards if not missed_by[g.name]),
        *(f"{g.name} is off, and {test} passes." for g in guards for test in g.tests if test not in missed_by[g.name]),
        *(fault for row in checked for fault in _untrue(row, missed_by)),
    ]
    caught = sum(map(bool, missed_by.values()))
    print(
        f"\n{len(guards)} guards switched off, {caught} caught; the guards of {len(checked)} rows tried on their tests."
    )
    print("\n".join(wrong))
    return 1 if wrong else 0


def _untrue(row: Row, missed_by: Mapping[str, Sequence[str]]) -> list[str]:
    """Each test of a row must miss one of its guards, and each guard be missed by one of its tests."""
    tests = row.tests_without_processes()
    without = {guard: set(tests) & set(missed_by[guard]) for guard in row.guards}
    return [
        *(
            f"{row.id}: {test} passes without its guards."
            for test in tests
            if test not in set().union(*without.values())
        ),
        *(f"{row.id}: no test needs {guard!r}." for guard, by in without.items() if not by),
    ]


def _tests_of(guard: Guard) -> list[str]:
    of_rows = (test for row in rows() if guard.name in row.guards for test in row.tests_without_processes())
    return list(dict.fromkeys([*of_rows, *guard.tests]))


def _how_often(guards: Sequence[Guard]) -> dict[str, Counter[str]]:
    """Everything with every guard on: it must pass, and each guard is counted when it makes a difference."""
    runs = {IN_MODEL: partial(_count_in_model, guards), IN_TESTS: partial(_count_in_tests, guards)}
    mattered = dict(side_by_side(runs, dict.fromkeys(runs, LONGEST)))
    for run, outcome in mattered.items():
        assert isinstance(outcome, Counter), f"With every guard on, {run} must pass: {outcome}"
    return mattered


def _count_in_model(guards: Sequence[Guard]) -> Counter[str]:
    mattered: Counter[str] = Counter()
    with counted(guards, mattered):
        run_state_machine_as_test(machine.PlatformMachine, settings=PROFILES["ci"])
    return mattered


def _count_in_tests(guards: Sequence[Guard]) -> Counter[str]:
    mattered: Counter[str] = Counter()
    tests = list(dict.fromkeys(test for guard in guards for test in _tests_of(guard)))
    failing = _failing(tests, lambda: counted(guards, mattered)) if tests else []
    assert not failing, f"these fail: {failing}"
    return mattered


def _with_each_off(guards: Sequence[Guard]) -> Iterator[tuple[Guard, list[str]]]:
    """Each guard, and who missed it. In processes of their own: without a guard a test may leave anything behind."""
    by_name = {guard.name: guard for guard in guards}
    longest = {guard.name: LONGEST_WAIT if guard.hangs else LONGEST for guard in guards}
    for name, outcome in side_by_side({guard.name: partial(_missed_by, guard) for guard in guards}, longest):
        guard = by_name[name]
        missed_by = _tests_of(guard) if guard.hangs and isinstance(outcome, TookTooLong) else outcome
        assert isinstance(missed_by, list), f"{name}: {outcome}"
        yield guard, missed_by


def _missed_by(guard: Guard) -> list[str]:
    tests = _tests_of(guard)
    return _failing(tests, guard.switched_off) if tests else _noticed_by_model(guard)


def _noticed_by_model(guard: Guard) -> list[str]:
    machine.FIGURES.clear()
    try:
        with guard.switched_off():
            run_state_machine_as_test(machine.PlatformMachine, settings=PROFILES["mutants"])
    except Exception as noticed:  # noqa: BLE001 - whatever it says, it noticed
        return [f"the model, example {machine.FIGURES['examples']}: {_first_line(noticed)}"]
    return []


def _first_line(noticed: BaseException) -> str:
    while isinstance(noticed, BaseExceptionGroup):
        noticed = noticed.exceptions[0]
    text = str(noticed).strip().splitlines()
    return (text[0] if text else type(noticed).__name__).strip("[]'\"")[:60]


def _failing(tests: Iterable[str], while_they_run: Callable[[], AbstractContextManager[None]]) -> list[str]:
    seen, said = Seen(while_they_run), StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        pytest.main([*OPTIONS, *tests], plugins=[seen])
    unscanned = set(tests) - seen.ran
    assert not unscanned, f"These tests could not be run: {unscanned}\n{said.getvalue()[-3000:]}"
    return [test for test in tests if test in seen.failed]


class Seen:
    """A pytest plugin: something holds while tests run, and those that fail are remembered."""

    def __init__(self, while_they_run: Callable[[], AbstractContextManager[None]]) -> None:
        self._holding = while_they_run()
        self.ran: set[str] = set()
        self.failed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """After the tests are imported: they keep their own names for what is replaced."""
        self._holding.__enter__()
        session.config.add_cleanup(lambda: self._holding.__exit__(None, None, None))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if _test_of(item.nodeid) in self.failed:
            pytest.skip("One failing case of a test is enough.")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran.add(_test_of(report.nodeid))
        if report.failed:
            self.failed.add(_test_of(report.nodeid))


def _test_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _name(test: str) -> str:
    return test.rpartition("::")[2]


if __name__ == "__main__":
    warnings.simplefilter("ignore", HypothesisSideeffectWarning)  # it takes this program for a plugin of its own
    started = time.monotonic()
    result = main(sys.argv[1:])
    print(f"{time.monotonic() - started:.0f} seconds.")
    sys.exit(result)
