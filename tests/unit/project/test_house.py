"""Where things live: `ls shared functions` shows the architecture, and a class name means one thing."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RANDOM = {"random", "uniform", "randbits", "token_hex", "token_bytes", "token_urlsafe", "urandom", "uuid1", "uuid4"}
CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "perf_counter"}
LONGEST_FILE = 400
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


def test_an_alias_means_one_thing_and_has_the_name_of_no_class():
    assert names_with_two_meanings(_parsed_sources()) == set()


@pytest.mark.parametrize("second", ["class Files: pass", "Files = Mapping[str, str]", "Files: TypeAlias = list[str]"])
def test_an_alias_with_a_second_meaning_is_noticed(second):
    assert names_with_two_meanings([ast.parse("Files = Mapping[str, bytes]"), ast.parse(second)]) == {"Files"}
    assert names_with_two_meanings([ast.parse("Files = Mapping[str, bytes]")] * 2) == set()


def names_with_two_meanings(modules: Iterable[ast.Module]) -> set[str]:
    """Of classes and aliases at the top of modules. An alias may be written again with the same meaning."""
    meanings = defaultdict(set)
    for module in modules:
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                meanings[node.name].add("class")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*", target.id):
                        meanings[target.id].add(ast.unparse(node.value))
    return {name for name, found in meanings.items() if len(found) > 1}


def test_no_file_is_longer_than_400_lines():
    """Of the product: what is longer holds more than one idea."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _sources()}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_module_draws_a_random_number_or_reads_the_clock_when_it_is_imported():
    """Every copy of a process that SnapStart restores would have the same number, and the time of the snapshot."""
    called = [f"{path}: {name}" for path in _sources() for name in called_at_import(ast.parse(path.read_text()))]
    assert [call for call in called if call.rpartition(" ")[2] in RANDOM | CLOCKS] == []


def test_a_number_that_is_drawn_at_import_is_noticed():
    source = """
KEY = secrets.token_hex(32)
class Store:
    since = datetime.now(UTC)
def keep(at=time()): return random.random()
later = lambda: uuid.uuid4()
"""
    assert sorted(called_at_import(ast.parse(source))) == ["now", "time", "token_hex"]


def called_at_import(node: ast.AST) -> Iterator[str]:
    """The last part of the name of each function that is called, without those called in functions."""
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
        yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    later = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (name == "body" and isinstance(node, later)):
                yield from called_at_import(child)


def _sources() -> Iterator[Path]:
    return (path for top in ("functions", "shared") for path in (ROOT / top).rglob("*.py"))


def _parsed_sources() -> Iterator[ast.Module]:
    return (ast.parse(path.read_text()) for path in _sources())


def _classes() -> Iterator[tuple[str, str]]:
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{path.relative_to(ROOT)}:{node.lineno}"
