"""Every test function and the ids in its `requirement` markers, read from the source: nothing is imported."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class MarkedTest(NamedTuple):
    path: str
    name: str
    ids: frozenset[str]

    @property
    def node_id(self) -> str:
        return f"{self.path}::{self.name}"


@cache
def marked_tests() -> list[MarkedTest]:
    return [test for path in sorted((ROOT / "tests").rglob("test_*.py")) for test in _tests_in(path)]


def _tests_in(path: Path) -> Iterator[MarkedTest]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            ids = (id_ for decorator in node.decorator_list for id_ in _ids_of(decorator))
            yield MarkedTest(path.relative_to(ROOT).as_posix(), node.name, frozenset(ids))


def _ids_of(decorator: ast.expr) -> list[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []
