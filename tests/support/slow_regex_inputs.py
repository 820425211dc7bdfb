"""Texts on which a regular expression would take more than linear time, derived from its own parse tree."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "functions")
MANY = 100  # a repetition that may be this long is attacked
BRANCHES = 4  # of each choice; a sample takes the same one everywhere
CACHED = {"_steps"}  # functions without arguments that keep patterns; those of detect-secrets see one cut line
CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}


class Known(NamedTuple):
    pattern: re.Pattern[Any]
    searches: bool  # it looks for its beginning anywhere; else it is matched at one place only


def patterns_in_the_tree() -> list[Known]:
    """Every regular expression of the code: those that modules hold, and the literals in calls of `re`."""
    found: dict[tuple[Any, int], Known] = {}
    sources = {path: path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    code = [line for source in sources.values() for line in source.splitlines()]
    for module in _modules():
        for name, held in [(name, held) for name, held in vars(module).items() if not name.startswith("__")]:
            for pattern in _held_by(held, 1, set()):
                found[pattern.pattern, pattern.flags] = Known(pattern, _is_searched_for(name, code))
    for source in sources.values():
        for literal in _literals_in(ast.parse(source)):
            if all(literal != known.pattern.pattern for known in found.values()):
                pattern = re.compile(literal)
                found[pattern.pattern, pattern.flags] = Known(pattern, searches=True)
    return list(found.values())


def patterns_made_in_functions() -> dict[str, str]:
    """The files of the scanner with a function that compiles a pattern when it is called."""
    found = {}
    scanner = ROOT / "shared" / "scanner"
    for path in sorted(scanner.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(_compiles(node) for node in ast.walk(function)):
                found[str(path.relative_to(scanner))] = function.name
    return found


def _compiles(node: ast.AST) -> bool:
    """With `re.compile`, or a call of `re` whose pattern is no literal."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    return of_re and (
        node.func.attr == "compile" or (node.func.attr in CALLS and not isinstance(node.args[0], ast.Constant))
    )


def _is_searched_for(name: str, code: list[str]) -> bool:
    used = "\n".join(line for line in code if name in line)
    name = rf"\b{re.escape(name)}\b"
    is_searched = re.search(rf"{name}(?:\[[^\]\n]*\])?\)?\.(?:search|finditer|findall|subn?|split)\(", used)
    return bool(is_searched) or not re.search(rf"{name}[^\n]{{0,60}}?\.(?:full)?match\(", used)


def attacks_on(pattern: Any, flags: int = 0) -> Iterator[tuple[Any, Any]]:
    """(beginning, repeated part): the beginning of a match, then many times what may repeat, and never the end."""
    tree = parser.parse(pattern, flags)
    kind = type(pattern)
    for before, unit in _repetitions(tree, ""):
        if unit:
            yield _of(kind, ""), _of(kind, unit)
            yield _of(kind, before), _of(kind, unit)
    for whole in dict.fromkeys(_sample(tree, branch) for branch in range(BRANCHES)):
        yield _of(kind, ""), _of(kind, whole[:-1] or "a")
        yield _of(kind, ""), _of(kind, whole[: max(1, len(whole) // 2)] or "a")


def _modules() -> Iterator[Any]:
    for package in PACKAGES:
        for info in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def _held_by(thing: Any, depth: int, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    if isinstance(thing, re.Pattern):
        yield thing
    elif depth < 5 and id(thing) not in seen:
        seen.add(id(thing))
        if isinstance(thing, dict):
            parts: Any = thing.values() if depth else [v for k, v in thing.items() if not k.startswith("__")]
        elif isinstance(thing, list | tuple | set | frozenset):
            parts = thing
        elif isinstance(thing, type) and thing.__module__.startswith(PACKAGES):
            parts = list(vars(thing).values())
        elif isinstance(thing, partial):
            parts = thing.args
        elif getattr(thing, "__name__", "") in CACHED:
            parts = [thing()]
        else:
            parts = []
        for part in parts:
            yield from _held_by(part, depth + 1, seen)


def _literals_in(tree: ast.AST) -> Iterator[Any]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        first = node.args[0] if node.args else None
        of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if of_re and isinstance(first, ast.Constant) and isinstance(first.value, str | bytes):
            yield first.value


def _repetitions(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """(a text that leads to the repetition, one round of it) for every long repetition at any depth."""
    for operation, value in tree:
        if operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if value[1] >= MANY:
                yield before, _sample(value[2]) or "a"
            yield from _repetitions(value[2], before)
        elif operation is codes.SUBPATTERN:
            yield from _repetitions(value[3], before)
        elif operation is codes.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch, before)
        before += _sample([(operation, value)])


def _sample(tree: Any, branch: int = 0) -> str:
    return "".join(_sample_of(operation, value, branch) for operation, value in tree)


def _sample_of(operation: Any, value: Any, branch: int) -> str:
    if operation is codes.LITERAL:
        return chr(value)
    if operation is codes.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if operation is codes.ANY:
        return "a"
    if operation is codes.IN:
        return _member(value)
    if operation in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return _sample(value[2], branch) * max(1, min(value[0], 50))
    if operation is codes.SUBPATTERN:
        return _sample(value[3], branch)
    if operation is codes.ATOMIC_GROUP:
        return _sample(value, branch)
    if operation is codes.BRANCH:
        return _sample(value[1][branch % len(value[1])], branch)
    return ""


def _member(items: Any) -> str:
    """A character of a class; of a negated one, a character that the class does not name."""
    if items[0][0] is codes.NEGATE:
        named = "".join(_named(item) for item in items[1:])
        return next(letter for letter in "a-~0 \tZ\u0416" if letter not in named)
    return next((letter for item in items if (letter := _named(item)[:1])), "a")


def _named(item: Any) -> str:
    operation, value = item
    if operation is codes.LITERAL:
        return chr(value)
    if operation is codes.RANGE:
        return "".join(map(chr, range(value[0], min(value[1], value[0] + 200) + 1)))
    return {codes.CATEGORY_SPACE: " \t\n", codes.CATEGORY_DIGIT: "0123456789", codes.CATEGORY_WORD: "a0_Z-"[:4]}.get(
        value, "!"
    )


def _of(kind: type, text: str) -> Any:
    return text if kind is str else text.encode("latin-1", "replace")
