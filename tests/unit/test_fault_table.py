"""The table of faults and attacks in docs/reliability.md says what the tests say."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.guards import GUARDS

ROOT = Path(__file__).parents[2]
IDS = [f"R{n:02}" for n in range(1, 35)] + [f"S{n:02}" for n in range(1, 25)]
PLANTED = "planted in the test"


def level_of(path: Path) -> str:
    folder = path.relative_to(ROOT / "tests").parts[0]
    if folder == "e2e" or path.name.startswith(("test_process_", "test_soak")):
        return "process"
    return "store" if folder == "integration" else "model"


def named_tests() -> dict[str, set[str]]:
    levels = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                levels[node.name].add(level_of(path))
    return levels


def ids_in(name: str) -> set[str]:
    return {found.upper() for found in re.findall(r"(?<![a-z0-9])[rs]\d\d(?=_)", name, re.IGNORECASE)}


def rows() -> dict[str, list[str]]:
    lines = (ROOT / "docs" / "reliability.md").read_text().splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [RS]\d\d \|", line)
    ]
    assert len({cell[0] for cell in cells}) == len(cells), "an id is there twice"
    return {cell[0]: cell[1:] for cell in cells}


TESTS = named_tests()
ROWS = rows()
GUARD_NAMES = {guard.name for guard in (*GUARDS, *ATTACK_GUARDS)}


def test_every_fault_and_attack_has_a_row_and_nothing_else_has():
    assert list(ROWS) == IDS
    assert {id_ for name in TESTS for id_ in ids_in(name)} == set(IDS)


@pytest.mark.parametrize("id_", IDS)
def test_a_row_names_tests_that_bear_its_id_at_the_levels_there_are(id_):
    _, levels, tests, guard = ROWS[id_]
    named = re.findall(r"`(\w+)`", tests)
    assert named
    for name in named:
        assert name in TESTS, f"{name} is not there any more"
        assert id_ in ids_in(name)
    there = {level for name, found in TESTS.items() if id_ in ids_in(name) for level in found}
    assert set(levels.split(", ")) == there
    assert guard in GUARD_NAMES | {PLANTED}


@pytest.mark.parametrize("guard", [*GUARDS, *ATTACK_GUARDS], ids=lambda guard: guard.name)
def test_the_tests_of_a_guard_are_where_it_says(guard):
    for test in guard.tests:
        path, _, name = test.partition("::")
        assert name in (ROOT / path).read_text()


def test_no_two_guards_have_one_name():
    assert len(GUARD_NAMES) == len(GUARDS) + len(ATTACK_GUARDS)
