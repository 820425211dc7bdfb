"""What a value of a program may be, as far as reading the program can know: constants, contents, code, and origins."""

import ast
from collections.abc import Iterable, Sequence
from itertools import islice, product
from typing import Any

from shared.scanner.flow.values import HOLE, MAX_ORIGINS, Origin, Value

Constant = str | bytes | int | float | None
MAX_CONSTANTS = 8
MAX_TEXT = 20_000
MAX_ITEMS = 400
MAX_SEARCHED = 300


class Obj:
    """A value. `constants` are the alternatives it may be; `items` its elements, entries or attributes, which change
    in place as in the program; `ref` the dotted name of something the program imports; `code` a function or a class."""

    __slots__ = ("code", "constants", "is_list", "items", "origins", "ref")

    def __init__(
        self,
        constants: tuple[Constant, ...] = (),
        origins: tuple[Origin, ...] = (),
        items: dict[Any, "Obj"] | None = None,
        ref: str = "",
        code: "Code | None" = None,
        is_list: bool = False,
    ) -> None:
        self.constants = constants
        self.origins = origins
        self.items = items
        self.ref = ref
        self.code = code
        self.is_list = is_list


class Code:
    """A function, method or class of the program, with the names it was defined among."""

    __slots__ = ("is_called", "node", "receiver", "scope")

    def __init__(self, node: ast.AST, scope: Any, receiver: Obj | None = None) -> None:
        self.node = node
        self.scope = scope
        self.receiver = receiver
        self.is_called = False


UNKNOWN = Obj()


def texts_of(value: Obj) -> list[str]:
    """The strings it may be; bytes are read as Latin-1, so that nothing is lost."""
    return [_text(constant) for constant in value.constants if isinstance(constant, str | bytes)]


def text_of(value: Obj) -> str:
    """The first string it may be, or a hole."""
    return next(iter(texts_of(value)), HOLE)


def list_of(values: Iterable[Obj]) -> Obj:
    return Obj(items=dict(enumerate(islice(values, MAX_ITEMS))), is_list=True)


def elements(value: Obj) -> list[Obj] | None:
    """The elements in order, if they are known."""
    if value.items is None or not value.is_list:
        return None
    return list(value.items.values())


def element_of(value: Obj) -> Obj:
    """What iterating over it may yield."""
    if value.items is not None:
        if value.is_list:
            return join([*value.items.values(), _only_origins(value)])
        return Obj(tuple(key for key in value.items if isinstance(key, str))[:MAX_CONSTANTS], value.origins)
    return _only_origins(value)


def _only_origins(value: Obj) -> Obj:
    return Obj(origins=value.origins) if value.origins else UNKNOWN


def origins_in(value: Obj) -> tuple[Origin, ...]:
    """Its own origins and those of everything in it, as far as MAX_SEARCHED objects go."""
    if value.items is None or value.code is not None:
        return value.origins
    found, seen, waiting = [value.origins], {id(value)}, list(value.items.values())
    while waiting and len(seen) < MAX_SEARCHED:
        item = waiting.pop()
        if id(item) not in seen:
            seen.add(id(item))
            if item.origins:
                found.append(item.origins)
            if item.items is not None and item.code is None:
                waiting += item.items.values()
    return merged(*found)


def merged(*several: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """Each source once, with the path that was found first."""
    carrying = [origins for origins in several if origins]
    if len(carrying) < 2:
        return carrying[0] if carrying else ()
    if len(carrying[0]) == 1 and all(origins == carrying[0] for origins in carrying):
        return carrying[0]
    by_source = {origin.source: origin for origins in reversed(carrying) for origin in reversed(origins)}
    return tuple(by_source.values())[-MAX_ORIGINS:][::-1]


def join(values: Sequence[Obj]) -> Obj:
    """One of several values."""
    values = [value for value in values if value is not UNKNOWN]
    if len(values) <= 1:
        return values[0] if values else UNKNOWN
    constants = tuple(dict.fromkeys(constant for value in values for constant in value.constants))
    joined = Obj(constants[:MAX_CONSTANTS], merged(*(value.origins for value in values)))
    for value in values:
        _join_into(joined, value)
    return joined


def _join_into(joined: Obj, value: Obj) -> None:
    joined.ref = joined.ref or value.ref
    joined.code = joined.code or value.code
    if value.items is None:
        return
    joined.is_list = value.is_list
    if joined.items is None:
        joined.items = dict(value.items)
        return
    for key, item in islice(value.items.items(), MAX_ITEMS):
        known = joined.items.get(key)
        joined.items[key] = (
            item
            if known is None or known is item
            else Obj(
                (known.constants + item.constants)[:MAX_CONSTANTS],
                merged(known.origins, item.origins),
                known.items or item.items,
                known.ref or item.ref,
                known.code or item.code,
                known.is_list,
            )
        )


def concatenated(parts: Sequence[Obj]) -> Obj:
    """The strings that the parts may make together, with a hole for each part that is not known."""
    origins = merged(*(origins_in(part) for part in parts))
    choices = [[as_text(constant) for constant in part.constants] or [HOLE] for part in parts]
    made = ("".join(pieces)[:MAX_TEXT] for pieces in islice(product(*choices), MAX_CONSTANTS))
    return Obj(tuple(dict.fromkeys(made)), origins)


def as_text(constant: Constant) -> str:
    return _text(constant) if isinstance(constant, str | bytes) else str(constant)


def _text(constant: str | bytes) -> str:
    return constant if isinstance(constant, str) else constant.decode("latin-1")


def as_values(value: Obj) -> list[Value]:
    """For the sinks: one value for every string it may be, each with all origins."""
    origins = origins_in(value)
    return [Value(text, origins) for text in texts_of(value)] or [Value(HOLE, origins)]


def from_value(value: Value) -> Obj:
    return (
        Obj(() if value.text == HOLE else (value.text,), value.origins)
        if value.origins or value.text != HOLE
        else UNKNOWN
    )
