"""The table of faults and attacks in docs/reliability.md, and the tests there are."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Row(NamedTuple):
    id: str
    fault: str
    levels: list[str]
    tests: list[str]
    guards: list[str]

    def tests_without_processes(self) -> list[str]:
        """As `path::name`. A guard is switched off in this process, so a platform of other processes never knows."""
        return [f"{path}::{name}" for name in self.tests for path in named_tests()[name] if level_of(path) != "process"]


@cache
def rows() -> list[Row]:
    lines = (ROOT / "docs" / "reliability.md").read_text().splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [RS]\d\d \|", line)
    ]
    return [
        Row(id_, fault, levels.split(", "), re.findall(r"`(\w+)`", tests), guards.split("; "))
        for id_, fault, levels, tests, guards in cells
    ]


@cache
def named_tests() -> dict[str, list[str]]:
    """The files that have a test, by its name."""
    found = defaultdict(list)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def level_of(path: str) -> str:
    _, folder, *_, name = Path(path).parts
    if folder == "e2e" or name.startswith(("test_process_", "test_soak")):
        return "process"
    return "store" if folder == "integration" else "model"


def ids_in(name: str) -> set[str]:
    return {found.upper() for found in re.findall(r"(?<![a-z0-9])[rs]\d\d(?=_)", name, re.IGNORECASE)}
