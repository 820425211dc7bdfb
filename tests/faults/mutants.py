"""`make test-mutants`: switches each guard off and says which tests fail.

First everything runs with every guard on: it must pass. Then, with one guard off at a time, every test of its rows in
docs/reliability.md and every test that the guard itself names must fail; a guard without either must be missed by the
model.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO

import _hypothesis_pytestplugin  # noqa: F401 - first: it refuses to be loaded after a strategy was used
import pytest
from hypothesis.errors import HypothesisSideeffectWarning
from hypothesis.stateful import run_state_machine_as_test

from tests.faults import state_machine
from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.fault_table import Row, rows
from tests.faults.guards import GUARDS, Guard
from tests.faults.parallel_processes import TookTooLong, in_processes
from tests.faults.test_model import PROFILES

LONGEST = 300.0  # seconds, for one guard
LONGEST_OF_ALL = 1200.0  # for the tests of all guards together
LONGEST_WAIT = 10.0  # more than with every guard on, where a test waits for ever without its guard: then it has noticed
OPTIONS = ["-q", "--assert=plain", "--tb=short", "-p", "no:unraisableexception", "-p", "no:cacheprovider"]

Switch = Callable[[], AbstractContextManager[None]]


def main(names: Sequence[str]) -> int:
    guards = [guard for guard in (*GUARDS, *ATTACK_GUARDS) if not names or guard.name in names]
    seconds = _check_with_every_guard_on(guards)
    print("| guard switched off | missed by |\n|---|---|", flush=True)
    missed_by: dict[str, list[str]] = {}
    for guard, by in _with_each_off(guards, seconds):
        missed_by[guard.name] = by
        print(f"| {guard.name} | {', '.join(map(_name, by)) or '**nothing**'} |", flush=True)
    checked = [row for row in rows() if set(row.guards) <= set(missed_by)]
    wrong = [
        *(f"{g.name} is off, and nothing fails." for g in guards if not missed_by[g.name]),
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


def _check_with_every_guard_on(guards: Sequence[Guard]) -> Mapping[str, float]:
    """Otherwise a failure would say nothing about a guard. Returns the seconds that each test took."""
    tests = list(dict.fromkeys(test for guard in guards for test in _tests_of(guard)))
    runs = {"the tests": partial(_results_of, tests, nullcontext)}
    if not all(map(_tests_of, guards)):
        runs["the model"] = partial(_noticed_by_model, nullcontext)
    outcomes = dict(in_processes(runs, dict.fromkeys(runs, LONGEST_OF_ALL)))
    assert outcomes.get("the model", []) == [], f"With every guard on, the model must pass: {outcomes['the model']}"
    outcome = outcomes["the tests"]
    assert isinstance(outcome, tuple), f"With every guard on, the tests must end: {outcome}"
    failing, seconds = outcome
    assert failing == [], f"With every guard on, the tests must pass: {failing}"
    return seconds


def _with_each_off(guards: Sequence[Guard], seconds: Mapping[str, float]) -> Iterator[tuple[Guard, list[str]]]:
    """Each guard, and who missed it. In processes of their own: without a guard a test may leave anything behind."""
    by_name = {guard.name: guard for guard in guards}
    longest = {guard.name: _longest(guard, seconds) for guard in guards}
    for name, outcome in in_processes({guard.name: partial(_missed_by, guard) for guard in guards}, longest):
        guard = by_name[name]
        missed_by = _tests_of(guard) if guard.hangs and isinstance(outcome, TookTooLong) else outcome
        assert isinstance(missed_by, list), f"{name}: {outcome}"
        yield guard, missed_by


def _longest(guard: Guard, seconds: Mapping[str, float]) -> float:
    return LONGEST_WAIT + 3 * sum(seconds[test] for test in _tests_of(guard)) if guard.hangs else LONGEST


def _missed_by(guard: Guard) -> list[str]:
    tests = _tests_of(guard)
    return _failing(tests, guard.switched_off) if tests else _noticed_by_model(guard.switched_off)


def _noticed_by_model(switch: Switch) -> list[str]:
    state_machine.FIGURES.clear()
    try:
        with switch():
            run_state_machine_as_test(state_machine.PlatformMachine, settings=PROFILES["mutants"])
    except Exception as noticed:  # noqa: BLE001 - any failure counts
        return [f"the model, example {state_machine.FIGURES['examples']}: {_first_line(noticed)}"]
    return []


def _first_line(noticed: BaseException) -> str:
    while isinstance(noticed, BaseExceptionGroup):
        noticed = noticed.exceptions[0]
    text = str(noticed).strip().splitlines()
    return (text[0] if text else type(noticed).__name__).strip("[]'\"")[:60]


def _failing(tests: Sequence[str], switch: Switch) -> list[str]:
    return _results_of(tests, switch)[0]


def _results_of(tests: Sequence[str], switch: Switch) -> tuple[list[str], dict[str, float]]:
    """Which failed, and how many seconds each took."""
    if not tests:  # pytest would run all there are
        return [], {}
    results, output = Results(switch), StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        pytest.main([*OPTIONS, *tests], plugins=[results])
    not_run = set(tests) - set(results.seconds)
    assert not not_run, f"These tests could not be run: {not_run}\n{output.getvalue()[-3000:]}"
    return [test for test in tests if test in results.failed], results.seconds


class Results:
    """A pytest plugin: which tests ran and which failed, with a guard switched off."""

    def __init__(self, switch: Switch) -> None:
        self._switched = switch()
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """After the tests are imported: what they imported by name stays as it is."""
        self._switched.__enter__()
        session.config.add_cleanup(lambda: self._switched.__exit__(None, None, None))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if _test_of(item.nodeid) in self.failed:
            pytest.skip("One failing case of a test is enough.")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = _test_of(report.nodeid)
        self.seconds[test] = self.seconds.get(test, 0) + report.duration
        if report.failed:
            self.failed.add(test)


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
