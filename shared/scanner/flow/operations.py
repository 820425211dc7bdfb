"""Operators, slices and entries of values."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from shared.scanner.flow.objects import (
    MAX_CONSTANTS,
    MAX_ITEMS,
    MAX_TEXT,
    UNKNOWN,
    Constant,
    Obj,
    concatenated,
    elements,
    join,
    list_of,
    merged,
    origins_in,
)
from shared.scanner.flow.sources import variable_source
from shared.scanner.flow.values import HOLE


def item_of(value: Obj, key: Obj) -> Obj:
    """An entry by its key; any entry if the key is not known; a character of a string."""
    if value.items is None:
        # A letter of an alphabet, by a number that comes from a secret, says what the secret is.
        if value.constants:
            return Obj(_characters(value, key), merged(value.origins, key.origins))
        return unnamed_item(value, key.constants[0] if key.constants else None)
    if key.constants:
        found = [_item(value, constant) for constant in key.constants]
        known = [item for item in found if item is not None]
        return join(known) if known else unnamed_item(value, key.constants[0])
    return join([*value.items.values(), Obj(origins=value.origins)])


def unnamed_item(value: Obj, key: Constant) -> Obj:
    """What a key may lead to that the program itself did not store: an entry of a file or of the whole environment.
    A setting that is not named like a secret is none, even if it stands beside one."""
    if isinstance(key, str) and key.isupper() and variable_source(key) is None:
        return UNKNOWN
    if value.items is not None and HOLE in value.items:
        return value.items[HOLE]
    return Obj(origins=value.origins) if value.origins else UNKNOWN


def _item(value: Obj, key: Constant) -> Obj | None:
    if value.items is None:
        return None
    if isinstance(key, int) and key < 0 and value.is_list:
        key = len(value.items) + key
    return value.items.get(key)


def _characters(value: Obj, key: Obj) -> tuple[Constant, ...]:
    return tuple(
        constant[at]
        for constant in value.constants
        for at in key.constants
        if isinstance(constant, str | bytes) and isinstance(at, int) and -len(constant) <= at < len(constant)
    )[:MAX_CONSTANTS]


def store_item(value: Obj, key: Obj, item: Obj, weak: bool = False) -> None:
    """An entry whose key is not known is kept beside the others, under no key that can be asked for."""
    if value.items is None:
        value.items = {}
    keys: Sequence[Any] = key.constants or (HOLE,)
    for constant in keys:
        known = value.items.get(constant)
        replaces = known is None or not (weak or len(keys) > 1 or constant == HOLE)
        if len(value.items) < MAX_ITEMS or known is not None:
            value.items[constant] = item if replaces or known is None else join([known, item])


def spread(made: Obj, value: Obj) -> None:
    made.origins = merged(made.origins, value.origins)
    if value.items is not None and made.items is not None:
        made.items.update(value.items)


def added(parts: Sequence[Obj]) -> Obj:
    lists = [elements(part) for part in parts]
    if all(values is not None for values in lists):
        return list_of([value for values in lists for value in values or ()])
    if all(is_number(part) for part in parts):
        total = parts[0]
        for part in parts[1:]:
            total = Obj(computed(ast.Add(), total, part))
        return total
    return concatenated(parts)


def is_number(value: Obj) -> bool:
    return bool(value.constants) and isinstance(value.constants[0], int | float)


def computed(op: ast.operator, left: Obj, right: Obj) -> tuple[Constant, ...]:
    operate = _OPERATORS.get(type(op))
    if operate is None:
        return ()
    pairs = [(a, b) for a in left.constants for b in right.constants][:MAX_CONSTANTS]
    return tuple(result for a, b in pairs if (result := _safely(operate, a, b)) is not None)


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.RShift: lambda a, b: a >> b,
    ast.Mod: lambda a, b: a % b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a / b,
    ast.Mult: lambda a, b: a * b,
}
MAX_NUMBER = 1 << 64
GLIMPSE = 8  # characters


def _safely(operate: Callable[[Any, Any], Any], left: Constant, right: Constant) -> Constant:
    """The result for numbers, and for a string that is repeated a few times; None for anything else."""
    if not all(isinstance(value, int | float) and abs(value) < MAX_NUMBER for value in (left, right)):
        return _repeated(left, right)
    try:
        result: Constant = operate(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result


def _repeated(left: Constant, right: Constant) -> Constant:
    if isinstance(left, str) and isinstance(right, int) and 0 < right * len(left) <= MAX_TEXT:
        return left * right
    return None


def percent(left: Obj, right: Obj) -> Obj:
    """`"https://%s/%s" % (host, path)`"""
    values = elements(right) or [right]
    origins = merged(left.origins, origins_in(right))
    for text in left.constants:
        if isinstance(text, str | bytes):
            pieces = (text if isinstance(text, str) else text.decode("latin-1")).split("%s")
            parts = [Obj((pieces[0],))]
            for at, piece in enumerate(pieces[1:]):
                value = right.items.get(HOLE, UNKNOWN) if right.items is not None and not right.is_list else UNKNOWN
                parts += [values[at] if at < len(values) else value, Obj((piece,))]
            made = concatenated(parts)
            return Obj(made.constants, merged(made.origins, origins))
    return Obj(origins=origins)


def sliced(value: Obj, node: ast.Slice) -> Obj:
    """A part of a string or a list. Only a slice by constants can be followed exactly."""
    bounds = [_bound_of(part) for part in (node.lower, node.upper, node.step)]
    if any(bound is Ellipsis for bound in bounds):
        return Obj(origins=origins_in(value))
    if _is_glimpse(bounds):
        return Obj(tuple(text[slice(*bounds)] for text in value.constants if isinstance(text, str)))
    part = slice(*bounds)
    known = elements(value)
    if known is not None:
        return list_of(known[part]) if bounds[2] != 0 else UNKNOWN
    constants = tuple(
        constant[part] for constant in value.constants if isinstance(constant, str | bytes) and bounds[2] != 0
    )
    return Obj(constants, origins_in(value))


def _is_glimpse(bounds: list[Any]) -> bool:
    """`key[:4]`, `key[-4:]`: what is shown of a secret in place of it."""
    lower, upper, step = bounds
    return step is None and (
        (not lower and upper is not None and 0 <= upper <= GLIMPSE)
        or (upper is None and lower is not None and -GLIMPSE <= lower < 0)
    )


def _bound_of(node: ast.expr | None) -> Any:
    if node is None:
        return None
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    return sign * node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else Ellipsis
