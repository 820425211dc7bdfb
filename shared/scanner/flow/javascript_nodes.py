"""Nodes of Python's syntax tree for what a script in JavaScript says."""

import ast
from typing import TypeVar

BINARY: dict[str, tuple[int, ast.operator | None]] = {
    **dict.fromkeys(("??", "||"), (1, None)),
    "&&": (2, None),
    "|": (3, ast.BitOr()),
    "^": (4, ast.BitXor()),
    "&": (5, ast.BitAnd()),
    **dict.fromkeys(("==", "!=", "===", "!=="), (6, None)),
    **dict.fromkeys(("<", ">", "<=", ">=", "instanceof", "in"), (7, None)),
    "<<": (8, ast.LShift()),
    ">>": (8, ast.RShift()),
    "+": (9, ast.Add()),
    "-": (9, ast.Sub()),
    "*": (10, ast.Mult()),
    "/": (10, ast.Div()),
    "%": (10, ast.Mod()),
    "**": (11, ast.Pow()),
}

PlacedNode = TypeVar("PlacedNode", bound=ast.AST)


def placed(node: PlacedNode, line: int) -> PlacedNode:
    node.lineno = line  # type: ignore[attr-defined]
    return node


def constant_node(value: str | int | float | bool | None, line: int) -> ast.expr:
    return placed(ast.Constant(value), line)


def number_of(text: str) -> int | float | None:
    digits = text.replace("_", "").rstrip("n")
    try:
        return int(digits, 0) if digits.isdigit() or digits[:2].lower() in ("0x", "0b", "0o") else float(digits)
    except ValueError:
        return None


def require_node(module: str, line: int) -> ast.expr:
    name = placed(ast.Name("require", ast.Load()), line)
    return placed(ast.Call(name, [constant_node(module, line)], []), line)


def parameters_node(names: list[str], defaults: list[ast.expr], rest: str | None) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in names],
        vararg=ast.arg(rest) if rest else None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=defaults,
    )


def function_node(
    name: str, arguments: ast.arguments, body: list[ast.stmt], line: int, last_line: int
) -> ast.FunctionDef:
    made = placed(ast.FunctionDef(name, arguments, body, []), line)
    made.end_lineno = last_line
    return made


def combined(operator: str, left: ast.expr, right: ast.expr) -> ast.expr:
    op = BINARY[operator][1]
    if op is not None:
        return placed(ast.BinOp(left, op, right), left.lineno)
    if operator in ("&&", "||", "??"):
        return placed(ast.BoolOp(ast.And() if operator == "&&" else ast.Or(), [left, right]), left.lineno)
    return placed(ast.Compare(left, [ast.Eq()], [right]), left.lineno)
