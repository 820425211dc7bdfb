"""Evaluates the expressions of a program without running it. Python's own syntax tree is used for every language."""

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shared.scanner.flow.objects import (
    MAX_ITEMS,
    UNKNOWN,
    Code,
    Constant,
    Obj,
    concatenated,
    element_of,
    elements,
    join,
    list_of,
    merged,
    origins_in,
)
from shared.scanner.flow.operations import (
    added,
    computed,
    is_number,
    item_of,
    percent,
    sliced,
    spread,
    store_item,
    unnamed_item,
)
from shared.scanner.flow.values import Location

FREE_STEPS = 4_000
STEPS_PER_CHARACTER = 0.6  # a character makes about 0.3 of them; a function is followed for every call
MAX_STEPS = 300_000
MAX_DEPTH = 150
MAX_UNROLLED = 256  # rounds of one loop that are followed one by one
MAX_ROUNDS = 600  # of all loops of a script: one in another multiplies
CHECK_EVERY = 512


class OutOfSteps(Exception):
    """The program is too long to be followed to its end; what was found until here counts."""


class Unit:
    """A piece of source text: a file, a block of code on a page, a cell of a notebook, a string that is run."""

    __slots__ = ("first_line", "is_fixed", "lines", "path")

    def __init__(self, path: str, first_line: int = 1, is_fixed: bool = False, lines: Sequence[str] = ()) -> None:
        self.path = path
        self.first_line = first_line
        self.lines = lines
        self.is_fixed = is_fixed  # every line of it stands on one line of the file, as in a string

    def at(self, line: int) -> Location:
        return Location(self.path, self.first_line if self.is_fixed else self.first_line + line - 1)


class Scope:
    """The names of a module, class body or function."""

    __slots__ = ("names", "outer", "parent", "returned", "unit")

    def __init__(self, unit: Unit, parent: "Scope | None" = None, names: dict[Any, Obj] | None = None) -> None:
        self.unit = unit
        self.parent = parent
        self.names: dict[Any, Obj] = {} if names is None else names
        self.returned: list[Obj] = []
        self.outer: set[str] = set()  # names that are declared to be of the module

    def find(self, name: str) -> Obj | None:
        scope: Scope | None = self
        while scope is not None:
            if (found := scope.names.get(name)) is not None:
                return found
            scope = scope.parent
        return None

    @property
    def module(self) -> "Scope":
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


class Call:
    """A call as the library sees it: by the dotted name of what is called, or by a method's name and its object."""

    __slots__ = ("arguments", "at", "line", "method", "named", "ref", "scope", "target")

    def __init__(self, scope: Scope, line: int, target: Obj | None, method: str, ref: str) -> None:
        self.scope = scope
        self.line = line
        self.at = scope.unit.at(line)
        self.target = target
        self.method = method
        self.ref = ref
        self.arguments: list[Obj] = []
        self.named: dict[str, Obj] = {}

    def argument(self, position: int, *names: str) -> Obj:
        """By position, or by one of its names."""
        for name in names:
            if name in self.named:
                return self.named[name]
        return self.arguments[position] if position < len(self.arguments) else UNKNOWN

    def everything(self) -> list[Obj]:
        return [*self.arguments, *self.named.values()]

    def unknown_result(self) -> Obj:
        """Named after the call, and of the object it is called on: `client.files().create`."""
        target = self.target or UNKNOWN
        if not self.ref:
            return Obj(origins=origins_in(target)) if target is not UNKNOWN else UNKNOWN
        shared = target.items if target.ref.endswith(")") else None
        return Obj(origins=target.origins, ref=f"{self.ref}()", items={} if shared is None else shared)


class Evaluator:
    """Expressions. What a statement does, and how a function is entered, is added by the interpreter."""

    def __init__(self, check_time: Callable[[], None]) -> None:
        self._check_time = check_time
        self.steps_left = FREE_STEPS
        self._rounds_left = MAX_ROUNDS
        self.depth = 0
        self.conditional = 0
        self._evaluators: dict[type, Callable[[Scope, Any], Obj]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.BinOp: self._binary,
            ast.BoolOp: self._bool,
            ast.IfExp: self._if_else,
            ast.JoinedStr: self._joined_string,
            ast.FormattedValue: self._formatted,
            ast.Dict: self._dict,
            ast.List: self._list,
            ast.Tuple: self._list,
            ast.Set: self._list,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.Lambda: self._function,
            ast.FunctionDef: self._function,
            ast.Await: self._inner,
            ast.Starred: self._inner,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield,
            ast.NamedExpr: self._named,
            ast.Compare: self._compare,
            ast.UnaryOp: self._unary,
        }

    def evaluate(self, scope: Scope, node: ast.AST | None) -> Obj:
        evaluator = self._evaluators.get(node.__class__)
        if evaluator is None or self.depth >= MAX_DEPTH:
            return UNKNOWN
        self.tick()
        self.depth += 1
        value = evaluator(scope, node)
        self.depth -= 1
        return value

    def allow_steps(self, length: int) -> None:
        """For a text of this length: what is followed grows with what is read."""
        self._rounds_left = MAX_ROUNDS
        self.steps_left = min(max(self.steps_left, FREE_STEPS) + int(STEPS_PER_CHARACTER * length), MAX_STEPS)

    def tick(self) -> None:
        self.steps_left -= 1
        if not self.steps_left % CHECK_EVERY:
            self._check_time()
            if self.steps_left <= 0:
                raise OutOfSteps

    # What the interpreter and the library of a language add.

    def call(self, callee: Obj, call: Call) -> Obj:
        raise NotImplementedError

    def read_name(self, ref: str, scope: Scope, line: int) -> Obj:
        """What the dotted name of something imported or built in stands for."""
        raise NotImplementedError

    def read_item(self, value: Obj, key: Obj, scope: Scope, line: int) -> Obj | None:
        """An entry of something that the library knows, such as the environment."""
        raise NotImplementedError

    def assign(self, scope: Scope, target: ast.AST, value: Obj) -> None:
        raise NotImplementedError

    # Names and members

    def _constant(self, scope: Scope, node: ast.Constant) -> Obj:
        value = node.value
        return (
            Obj((value,)) if isinstance(value, str | bytes | int | float) and not isinstance(value, bool) else UNKNOWN
        )

    def _name(self, scope: Scope, node: ast.Name) -> Obj:
        found = scope.find(node.id)
        return self.read_name(node.id, scope, node.lineno) if found is None else found

    def _attribute(self, scope: Scope, node: ast.Attribute) -> Obj:
        return self.member(self.evaluate(scope, node.value), node.attr, scope, node.lineno)

    def member(self, value: Obj, name: str, scope: Scope, line: int) -> Obj:
        if value.items is not None and (item := value.items.get(name)) is not None:
            return _bound(item, value)
        if value.ref:
            return self.read_name(f"{value.ref}.{name}", scope, line)
        return unnamed_item(value, name)

    def _subscript(self, scope: Scope, node: ast.Subscript) -> Obj:
        value = self.evaluate(scope, node.value)
        if isinstance(node.slice, ast.Slice):
            return sliced(value, node.slice)
        key = self.evaluate(scope, node.slice)
        special = self.read_item(value, key, scope, node.lineno)
        return item_of(value, key) if special is None else special

    # Calls

    def _call(self, scope: Scope, node: ast.Call) -> Obj:
        target, method = None, ""
        if isinstance(node.func, ast.Attribute):
            target, method = self.evaluate(scope, node.func.value), node.func.attr
            callee = self.member(target, method, scope, node.lineno)
        else:
            callee = self.evaluate(scope, node.func)
            method = callee.ref.rpartition(".")[2]
        call = Call(scope, node.lineno, target, method, callee.ref)
        self._pass_arguments(scope, node, call)
        return self.call(callee, call)

    def _pass_arguments(self, scope: Scope, node: ast.Call, call: Call) -> None:
        for argument in node.args:
            value = self.evaluate(scope, argument)
            unpacked = elements(value) if isinstance(argument, ast.Starred) else None
            call.arguments += [value] if unpacked is None else unpacked
        for keyword in node.keywords:
            value = self.evaluate(scope, keyword.value)
            if keyword.arg is not None:
                call.named[keyword.arg] = value
            elif value.items is not None:
                call.named.update({key: item for key, item in value.items.items() if isinstance(key, str)})

    # Operators

    def _binary(self, scope: Scope, node: ast.BinOp) -> Obj:
        if isinstance(node.op, ast.Add):
            return self._sum(scope, node)
        left, right = self.evaluate(scope, node.left), self.evaluate(scope, node.right)
        if isinstance(node.op, ast.Div) and not is_number(left):
            return self.path_joined(left, right)
        if isinstance(node.op, ast.Mod) and not is_number(left):
            return percent(left, right)
        return Obj(computed(node.op, left, right), merged(origins_in(left), origins_in(right)))

    def path_joined(self, left: Obj, right: Obj) -> Obj:
        """`Path.home() / "x"`"""
        return UNKNOWN

    def _sum(self, scope: Scope, node: ast.BinOp) -> Obj:
        """A chain of additions, without recursion: thousands of pieces are a way to hide a string."""
        operands: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
            operands.append(left.right)
            left = left.left
        parts = [self.evaluate(scope, operand) for operand in [left, *reversed(operands)]]
        return added(parts)

    def _bool(self, scope: Scope, node: ast.BoolOp) -> Obj:
        values = [self.evaluate(scope, value) for value in node.values]
        return values[-1] if isinstance(node.op, ast.And) else join(values)

    def _if_else(self, scope: Scope, node: ast.IfExp) -> Obj:
        self.evaluate(scope, node.test)
        return join([self.evaluate(scope, node.body), self.evaluate(scope, node.orelse)])

    def _compare(self, scope: Scope, node: ast.Compare) -> Obj:
        for operand in (node.left, *node.comparators):
            self.evaluate(scope, operand)
        return UNKNOWN

    def _unary(self, scope: Scope, node: ast.UnaryOp) -> Obj:
        value = self.evaluate(scope, node.operand)
        if isinstance(node.op, ast.USub):
            return Obj(tuple(-constant for constant in value.constants if isinstance(constant, int | float)))
        return UNKNOWN

    # Strings and containers

    def _joined_string(self, scope: Scope, node: ast.JoinedStr) -> Obj:
        return concatenated([self.evaluate(scope, value) for value in node.values])

    def _formatted(self, scope: Scope, node: ast.FormattedValue) -> Obj:
        value = self.evaluate(scope, node.value)
        return value if value.constants or value.items is None else Obj(origins=origins_in(value))

    def _dict(self, scope: Scope, node: ast.Dict) -> Obj:
        made = Obj(items={})
        for key, value in zip(node.keys[:MAX_ITEMS], node.values, strict=False):
            item = self.evaluate(scope, value)
            if key is None:
                spread(made, item)
            else:
                store_item(made, self.evaluate(scope, key), item)
        return made

    def _list(self, scope: Scope, node: ast.List | ast.Tuple | ast.Set) -> Obj:
        values: list[Obj] = []
        for element in node.elts[:MAX_ITEMS]:
            value = self.evaluate(scope, element)
            unpacked = elements(value) if isinstance(element, ast.Starred) else None
            values += [value] if unpacked is None else unpacked
        return list_of(values)

    def _comprehension(self, scope: Scope, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Obj:
        inner = Scope(scope.unit, scope)
        made = Obj(items={}, is_list=not isinstance(node, ast.DictComp))
        self._generate(inner, node.generators, lambda: self._produce(inner, node, made))
        return made

    def _produce(self, scope: Scope, node: Any, made: Obj) -> None:
        if made.items is None or len(made.items) >= MAX_ITEMS:
            return
        if isinstance(node, ast.DictComp):
            store_item(made, self.evaluate(scope, node.key), self.evaluate(scope, node.value))
        else:
            made.items[len(made.items)] = self.evaluate(scope, node.elt)

    def _generate(self, scope: Scope, generators: Sequence[ast.comprehension], produce: Callable[[], None]) -> None:
        if not generators:
            produce()
            return
        first = generators[0]
        for element in self.iterated(self.evaluate(scope, first.iter)):
            self.assign(scope, first.target, element)
            for condition in first.ifs:
                self.evaluate(scope, condition)
            self._generate(scope, generators[1:], produce)

    def iterated(self, value: Obj) -> Iterable[Obj]:
        """Each element if all are known and few, else one that stands for all."""
        known = elements(value)
        if known is None and len(value.constants) == 1:
            known = _letters(value.constants[0])
        if known and not value.origins and len(known) <= min(MAX_UNROLLED, self._rounds_left):
            self._rounds_left -= len(known)
            return known
        return [element_of(value)]

    # Functions

    def _function(self, scope: Scope, node: ast.AST) -> Obj:
        return Obj(code=Code(node, scope))

    def _inner(self, scope: Scope, node: ast.Await | ast.Starred) -> Obj:
        return self.evaluate(scope, node.value)

    def _yield(self, scope: Scope, node: ast.Yield | ast.YieldFrom) -> Obj:
        value = self.evaluate(scope, node.value)
        scope.returned.append(value if isinstance(node, ast.YieldFrom) else list_of([value]))
        return UNKNOWN

    def _named(self, scope: Scope, node: ast.NamedExpr) -> Obj:
        value = self.evaluate(scope, node.value)
        self.assign(scope, node.target, value)
        return value


def _letters(constant: Constant) -> list[Obj] | None:
    """Of a string or the bytes that a loop decodes one by one."""
    if not isinstance(constant, str | bytes) or len(constant) > MAX_UNROLLED:
        return None
    return [Obj((letter,)) for letter in constant]


def _bound(item: Obj, target: Obj) -> Obj:
    """A method, bound to the object it is read from."""
    of_class = target.code is not None and isinstance(target.code.node, ast.ClassDef)
    if not of_class or item.code is None or isinstance(item.code.node, ast.ClassDef):
        return item
    return Obj(code=Code(item.code.node, item.code.scope, target))
