"""The table of faults and attacks in docs/reliability.md, and the tests it names."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.marked_tests import ROOT, MarkedTest, marked_tests


class Row(NamedTuple):
    id: str
    fault: str
    levels: list[str]
    tests: list[str]
    guards: list[str]

    def named_tests(self) -> list[MarkedTest]:
        return [test for name in self.tests for test in marked_tests() if test.name == name]

    def tests_without_processes(self) -> list[str]:
        """Their node ids. A guard is switched off in this process, so the processes of a platform keep theirs."""
        return [test.node_id for test in self.named_tests() if level_of(test) != "process"]


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


def level_of(test: MarkedTest) -> str:
    _, folder, *_, name = Path(test.path).parts
    if folder == "e2e" or name.startswith(("test_process_", "test_soak")):
        return "process"
    return "store" if folder == "integration" else "model"
