"""`make test-mutants`: switches each guard off and says who noticed. A guard that nobody misses is a failure."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import _hypothesis_pytestplugin  # noqa: F401 - first: it refuses to be loaded after a strategy was used
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.faults import machine
from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.guards import GUARDS, Guard, counted
from tests.faults.test_model import PROFILES

ROOT = Path(__file__).parents[2]
LONGEST = 60  # seconds: a test that still waits then has noticed too


def main(names: Sequence[str]) -> int:
    guards = [guard for guard in (*GUARDS, *ATTACK_GUARDS) if not names or guard.name in names]
    mattered = _how_often(guards) if not names else Counter()
    survivors = []
    print("| guard switched off | caught by | examples | mattered in the ci run |\n|---|---|---|---|", flush=True)
    for guard in guards:
        caught_by, examples = _by_tests(guard) if guard.tests else _by_model(guard)
        if caught_by is None:
            survivors.append(guard.name)
        times = mattered[guard.name] if guard.mattered or guard.refused else "–"
        print(f"| {guard.name} | {caught_by or '**nobody**'} | {examples} | {times} |", flush=True)
    print(f"\n{len(guards)} guards switched off, {len(guards) - len(survivors)} caught.")
    return 1 if survivors else 0


def _how_often(guards: Sequence[Guard]) -> Counter[str]:
    mattered: Counter[str] = Counter()
    machine.FIGURES.clear()
    with counted(guards, mattered):
        run_state_machine_as_test(machine.PlatformMachine, settings=PROFILES["ci"])
    for guard in guards:
        if guard.refused:
            refusals = {name: n for name, n in machine.FIGURES.items() if name.startswith("refused: ")}
            mattered[guard.name] = sum(n for name, n in refusals.items() if guard.refused in name)
    return mattered


def _by_model(guard: Guard) -> tuple[str | None, str]:
    machine.FIGURES.clear()
    try:
        with guard.switched_off():
            run_state_machine_as_test(machine.PlatformMachine, settings=PROFILES["mutants"])
    except Exception as noticed:  # noqa: BLE001 - whatever it says, it noticed
        return f"the model: {_first_line(noticed)}", str(machine.FIGURES["examples"])
    return None, str(machine.FIGURES["examples"])


def _first_line(noticed: BaseException) -> str:
    while isinstance(noticed, BaseExceptionGroup):
        noticed = noticed.exceptions[0]
    text = str(noticed).strip().splitlines()
    return (text[0] if text else type(noticed).__name__).strip("[]'\"")[:100]


def _by_tests(guard: Guard) -> tuple[str | None, str]:
    files = sorted({test.partition("::")[0] for test in guard.tests})
    wanted = " or ".join(test.partition("::")[2] for test in guard.tests if "::" in test)
    options = [
        "-q",
        "-x",
        "--assert=plain",
        "--tb=no",
        "-p",
        "no:unraisableexception",
        "-p",
        "no:cacheprovider",
        *(["-k", wanted] if wanted else []),
    ]
    if guard.hangs:
        return _in_a_process_of_its_own(guard, [*options, *files]), "–"
    seen, said = Seen(guard), StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        pytest.main([*options, *files], plugins=[seen])
    assert seen.ran, f"The tests of {guard.name!r} could not be run.\n{said.getvalue()[-2000:]}"
    return seen.failed, "–"


class Seen:
    """A pytest plugin: the guard is off while tests run, and the first test that fails is remembered."""

    def __init__(self, guard: Guard) -> None:
        self._off = guard.switched_off()
        self.ran = 0
        self.failed: str | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """After the tests are imported: they keep their own names for what is replaced."""
        self._off.__enter__()
        session.config.add_cleanup(lambda: self._off.__exit__(None, None, None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += 1
        if report.failed and self.failed is None:
            self.failed = report.location[2].partition("[")[0]


def _in_a_process_of_its_own(guard: Guard, arguments: Sequence[str]) -> str | None:
    command = [sys.executable, "-m", "pytest", "-p", "tests.faults.mutated", *arguments]
    env = {**os.environ, "GUARD_OFF": guard.name, "PYTHONPATH": str(ROOT)}
    try:
        run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return f"{_short(guard)}, which waits for ever"
    return _short(guard) if run.returncode == 1 else None


def _short(guard: Guard) -> str:
    return guard.tests[0].rpartition("::")[2]


if __name__ == "__main__":
    started = time.monotonic()
    result = main(sys.argv[1:])
    print(f"{time.monotonic() - started:.0f} seconds.")
    sys.exit(result)
