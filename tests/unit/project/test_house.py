"""Where things live: `ls shared functions` shows the architecture, and a class name means one thing."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOOSE_FILES = {"errors.py", "settings.py", "timing.py", "telemetry.py", "worker_context.py", "runtime.py", "db.py"}


def modules_in(folder: str) -> set[str]:
    return {path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py"}


def test_shared_holds_packages_and_seven_loose_files():
    assert modules_in("shared") == LOOSE_FILES


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for top in ("functions", "shared") for path in (ROOT / top).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_functions_holds_the_handlers_of_the_template_and_packages():
    handlers = re.findall(r"^ +Handler: functions\.(\w+)\.handler$", (ROOT / "template.yaml").read_text(), re.MULTILINE)
    assert modules_in("functions") == {f"{name}.py" for name in handlers}


def test_no_class_name_is_defined_twice():
    places = defaultdict(list)
    for name, place in _classes():
        places[name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _classes() -> Iterator[tuple[str, str]]:
    for path in (path for top in ("functions", "shared") for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{path.relative_to(ROOT)}:{node.lineno}"
