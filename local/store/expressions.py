"""DynamoDB's expressions, as far as the platform uses them: conditions on top-level attributes, SET, ADD and REMOVE.

    condition  = term { ("AND" | "OR") term }, with "NOT", parentheses and their usual precedence
    term       = path ("=" | "<>" | "<" | "<=" | ">" | ">=") value | path "BETWEEN" value "AND" value
               | "attribute_exists" (path) | "attribute_not_exists" (path) | "begins_with" (path, value)
    update     = "SET" path = value, ... | "ADD" path value, ... | "REMOVE" path, ...

Everything else is refused by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from local.store.errors import invalid, unsupported

Item = Mapping[str, Any]
Value = Mapping[str, Any]
_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_][\w-]*|#\w+|:\w+)|(<>|<=|>=|[=<>(),.\[\]+-]))", re.ASCII)
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_FUNCTIONS = {"attribute_exists": 1, "attribute_not_exists": 1, "begins_with": 2}


class Test(NamedTuple):
    """`kind` is a comparison, BETWEEN, a function, AND, OR or NOT; `parts` are paths and values, or tests."""

    kind: str
    parts: tuple[Any, ...]


class Update(NamedTuple):
    action: str
    path: str
    value: str | None


class Names:
    """Replaces placeholders, and refuses those that are missing or that no expression uses."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._names: Mapping[str, str] = params.get("ExpressionAttributeNames") or {}
        self._values: Mapping[str, Value] = params.get("ExpressionAttributeValues") or {}
        self._used: set[str] = set()

    def path(self, path: str) -> str:
        if not path.startswith("#"):
            return path
        self._used.add(path)
        if path not in self._names:
            raise invalid(f"An expression attribute name used in the expression is not defined: {path}")
        return self._names[path]

    def value(self, name: str) -> Value:
        self._used.add(name)
        if name not in self._values:
            raise invalid(f"An expression attribute value used in the expression is not defined: {name}")
        return self._values[name]

    def check_all_used(self) -> None:
        unused = sorted({*self._names, *self._values} - self._used)
        if unused:
            raise invalid(f"Expression attribute names or values are not used in any expression: {', '.join(unused)}")


@lru_cache(maxsize=500)
def parse_condition(text: str) -> Test:
    parser = _Parser(text)
    test = parser.condition()
    parser.end()
    return test


@lru_cache(maxsize=500)
def parse_update(text: str) -> tuple[Update, ...]:
    parser = _Parser(text)
    updates: list[Update] = []
    while not parser.is_at_end:
        updates += parser.clause()
    paths = [update.path for update in updates]
    if len(set(paths)) < len(paths):
        raise invalid("Two document paths of the update expression overlap.")
    return tuple(updates)


@lru_cache(maxsize=500)
def parse_projection(text: str) -> tuple[str, ...]:
    parser = _Parser(text)
    paths = parser.listed(parser.path)
    parser.end()
    return tuple(paths)


def holds(test: Test, item: Item, names: Names) -> bool:
    """Every part is looked at, so that all placeholders are known to be used."""
    kind, parts = test
    if kind in ("AND", "OR", "NOT"):
        results = [holds(part, item, names) for part in parts]
        return not results[0] if kind == "NOT" else (all if kind == "AND" else any)(results)
    found = item.get(names.path(parts[0]))
    if kind in ("attribute_exists", "attribute_not_exists"):
        return (found is None) == (kind == "attribute_not_exists")
    wanted = [names.value(part) for part in parts[1:]]
    if kind == "BETWEEN":
        return _compare("<=", wanted[0], found) and _compare("<=", found, wanted[1])
    if kind == "begins_with":
        return found is not None and _text(found).startswith(_text(wanted[0]))
    return _compare(kind, found, wanted[0])


def updated(updates: Sequence[Update], item: Item, names: Names) -> dict[str, Any]:
    result = dict(item)
    for action, placeholder, value in updates:
        path = names.path(placeholder)
        if action == "REMOVE":
            result.pop(path, None)
        elif action == "SET":
            result[path] = names.value(str(value))
        else:
            result[path] = _sum(item.get(path, {"N": "0"}), names.value(str(value)))
    return result


def number(value: Value) -> Decimal:
    try:
        found = Decimal(value["N"])
    except (ArithmeticError, KeyError, TypeError, ValueError):
        found = Decimal("NaN")
    if not found.is_finite():
        raise invalid(f"A number is needed, and {str(value)[:60]} is none.")
    return found


def _sum(first: Value, second: Value) -> dict[str, str]:
    if "N" not in first or "N" not in second:
        raise unsupported("ADD to anything but a number")
    return {"N": f"{(number(first) + number(second)).normalize():f}"}


def _compare(kind: str, first: Value | None, second: Value | None) -> bool:
    """Values of different types are never equal, smaller or larger."""
    if first is None or second is None or first.keys() != second.keys():
        return kind == "<>" and first is not None
    if "N" in first:
        return _COMPARED[kind](number(first), number(second))
    if "S" in first:  # DynamoDB orders the bytes of UTF-8, which is the order of the code points
        return _COMPARED[kind](first["S"], second["S"])
    if kind in ("=", "<>"):
        return _COMPARED[kind](first, second)
    raise unsupported(f"the comparison {kind} of anything but strings and numbers")


def _text(value: Value) -> str:
    text = value.get("S", "")
    return text if isinstance(text, str) else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise invalid(f"The expression has a syntax error at {text[at:].strip()[:20]!r}: {text[:200]}")
            self._tokens.append(match[1] or match[2])
            at = match.end()
        if not self._tokens:
            raise invalid("The expression is empty.")

    @property
    def is_at_end(self) -> bool:
        return not self._tokens

    def end(self) -> None:
        if self._tokens:
            raise self._error()

    def condition(self) -> Test:
        return self._joined("OR", lambda: self._joined("AND", self._term))

    def clause(self) -> list[Update]:
        action = self._next().upper()
        if action == "SET":
            return self.listed(self._assignment)
        if action == "ADD":
            return self.listed(lambda: Update("ADD", self.path(), self._value()))
        if action == "REMOVE":
            return self.listed(lambda: Update("REMOVE", self.path(), None))
        raise unsupported(f"{action[:40]} in an update expression")

    def listed(self, one: Callable[[], Any]) -> list[Any]:
        found = [one()]
        while self._peek() == ",":
            self._next()
            found.append(one())
        return found

    def path(self) -> str:
        path = self._next()
        if not re.match(r"[#A-Za-z_]", path):
            raise self._error(path)
        if self._peek() in (".", "["):
            raise unsupported("paths into an attribute")
        if self._peek() == "(":
            raise unsupported(f"the function {path[:40]} in an expression")
        return path

    def _joined(self, word: str, part: Callable[[], Test]) -> Test:
        parts = [part()]
        while self._peek().upper() == word:
            self._next()
            parts.append(part())
        return parts[0] if len(parts) == 1 else Test(word, tuple(parts))

    def _term(self) -> Test:
        if self._peek().upper() == "NOT":
            self._next()
            return Test("NOT", (self._term(),))
        if self._peek() == "(":
            self._next()
            test = self.condition()
            self._expect(")")
            return test
        if self._peek() in _FUNCTIONS:
            return self._function()
        return self._comparison()

    def _function(self) -> Test:
        name = self._next()
        self._expect("(")
        parts = [self.path()]
        if _FUNCTIONS[name] == 2:
            self._expect(",")
            parts.append(self._value())
        self._expect(")")
        return Test(name, tuple(parts))

    def _comparison(self) -> Test:
        path, operator = self.path(), self._next().upper()
        if operator == "BETWEEN":
            low = self._value()
            self._expect("AND")
            return Test("BETWEEN", (path, low, self._value()))
        if operator not in _COMPARED:
            raise unsupported(f"{operator[:40]} in a condition")
        return Test(operator, (path, self._value()))

    def _assignment(self) -> Update:
        path = self.path()
        self._expect("=")
        update = Update("SET", path, self._value())
        if self._peek() in ("+", "-"):
            raise unsupported("arithmetic in SET (use ADD)")
        return update

    def _value(self) -> str:
        value = self._next()
        if not value.startswith(":"):
            raise unsupported(f"{value[:40]!r} where a value like :v is expected")
        return value

    def _expect(self, token: str) -> None:
        if (found := self._next()).upper() != token:
            raise self._error(found)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _next(self) -> str:
        if not self._tokens:
            raise invalid(f"The expression ends too early: {self._text[:200]}")
        return self._tokens.pop(0)

    def _error(self, token: str | None = None) -> Exception:
        return invalid(f"The expression has a syntax error at {(token or self._peek())[:20]!r}: {self._text[:200]}")
