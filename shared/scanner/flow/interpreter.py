"""Follows the statements of a program: each once, every branch of a condition, functions where they are called."""

import ast
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shared.scanner.flow.expressions import Call, Evaluator, OutOfSteps, Scope, Unit
from shared.scanner.flow.objects import (
    UNKNOWN,
    Code,
    Obj,
    element_of,
    elements,
    join,
    list_of,
    merged,
    origins_in,
    texts_of,
)
from shared.scanner.flow.operations import added, store_item
from shared.scanner.flow.tracker import Tracker

MAX_CALL_DEPTH = 8
MAX_ENTRIES = 30  # calls of one function, each with the values it is given
SHORT = 6  # lines of a function that is followed whatever it names
MAX_CALLED = 60  # functions that are looked at for what one of them calls
_NAME = re.compile(r"[A-Za-z_$]\w*")
Handler = Callable[["Interpreter", Call], Obj]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def named(*rows: tuple[Handler, str]) -> dict[str, Handler]:
    """A table of what is called, by its names."""
    return {name: handler for handler, names in rows for name in names.split()}


class Interpreter(Evaluator):
    """One program: a script with what it imports, or the blocks of a page. A language adds its library."""

    def __init__(self, tracker: Tracker) -> None:
        super().__init__(tracker.check)
        self.tracker = tracker
        self.printed: list[Obj] = []
        self._defined: list[Code] = []
        self._active: list[ast.AST] = []
        self._entries: dict[ast.AST, int] = {}
        self._by_name: dict[str, list[Code]] = {}
        self._worth: dict[ast.AST, bool] = {}
        self._results: dict[Any, Obj] = {}  # of functions that were called with the same constants before
        self._executors: dict[type, Callable[[Scope, Any], None]] = {
            ast.Expr: self._expression,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.FunctionDef: self._define,
            ast.AsyncFunctionDef: self._define,
            ast.ClassDef: self._define_class,
            ast.Return: self._return,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.Match: self._match,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Global: self._global,
            ast.Nonlocal: self._global,
            ast.Raise: self._raise,
            ast.Assert: self._assert,
        }

    def run(self, scope: Scope, body: Sequence[ast.stmt]) -> None:
        self._as_far_as_steps_go(lambda: self.execute(scope, body))

    def run_uncalled(self) -> None:
        """The functions that nothing in the program calls: another program may."""
        waiting, self._defined = self._defined, []
        for code in waiting:
            if code.node not in self._entries:
                self._as_far_as_steps_go(partial(self._enter, code, Call(code.scope, 1, None, "", "")))

    def _as_far_as_steps_go(self, follow: Callable[[], object]) -> None:
        depth, conditional, active = self.depth, self.conditional, len(self._active)
        try:
            follow()
        except OutOfSteps:
            self.depth, self.conditional = depth, conditional
            del self._active[active:]

    def execute(self, scope: Scope, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            executor = self._executors.get(type(statement))
            if executor is not None:
                self.tick()
                executor(scope, statement)

    def _branch(self, scope: Scope, body: Sequence[ast.stmt]) -> None:
        """Statements that may not be executed: what they assign is one possibility more."""
        self.conditional += 1
        try:
            self.execute(scope, body)
        finally:
            self.conditional -= 1

    # Simple statements

    def _expression(self, scope: Scope, node: ast.Expr) -> None:
        self.evaluate(scope, node.value)

    def _global(self, scope: Scope, node: ast.Global | ast.Nonlocal) -> None:
        scope.outer.update(node.names)

    def _raise(self, scope: Scope, node: ast.Raise) -> None:
        self.evaluate(scope, node.exc)

    def _assert(self, scope: Scope, node: ast.Assert) -> None:
        self.evaluate(scope, node.test)

    def _return(self, scope: Scope, node: ast.Return) -> None:
        scope.returned.append(self.evaluate(scope, node.value))

    # Assignments

    def _assign(self, scope: Scope, node: ast.Assign) -> None:
        value = self.evaluate(scope, node.value)
        for target in node.targets:
            self.assign(scope, target, value)

    def _annotated(self, scope: Scope, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(scope, node.target, self.evaluate(scope, node.value))

    def _augmented(self, scope: Scope, node: ast.AugAssign) -> None:
        value = self.evaluate(scope, node.value)
        known = self.evaluate(scope, node.target)
        if isinstance(node.op, ast.Add):
            self.assign(scope, node.target, added([known, value]))
        elif isinstance(node.op, ast.BitOr) and known.items is not None and value.items is not None:
            known.items.update(value.items)
        else:
            self.assign(scope, node.target, Obj(origins=merged(origins_in(known), origins_in(value))))

    def assign(self, scope: Scope, target: ast.AST, value: Obj) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(scope, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(scope, target.elts, value)
        elif isinstance(target, ast.Attribute):
            self._assign_item(self.evaluate(scope, target.value), Obj((target.attr,)), value)
        elif isinstance(target, ast.Subscript):
            self._assign_item(self.evaluate(scope, target.value), self.evaluate(scope, target.slice), value)
        elif isinstance(target, ast.Starred):
            self.assign(scope, target.value, value)

    def _assign_name(self, scope: Scope, name: str, value: Obj) -> None:
        if name in scope.outer:
            scope = scope.module
        known = scope.names.get(name)
        scope.names[name] = join([known, value]) if known is not None and self.conditional else value

    def _assign_item(self, target: Obj, key: Obj, value: Obj) -> None:
        if target is not UNKNOWN:
            store_item(target, key, value, weak=bool(self.conditional))

    def _unpack(self, scope: Scope, targets: Sequence[ast.AST], value: Obj) -> None:
        known = elements(value)
        for at, target in enumerate(targets):
            if isinstance(target, ast.Starred) or known is None:
                self.assign(scope, target, element_of(value) if known is None else list_of(known[at:]))
            else:
                self.assign(scope, target, known[at] if at < len(known) else UNKNOWN)

    # Control flow

    def _if(self, scope: Scope, node: ast.If) -> None:
        self.evaluate(scope, node.test)
        self._branch(scope, node.body)
        self._branch(scope, node.orelse)

    def _for(self, scope: Scope, node: ast.For | ast.AsyncFor) -> None:
        elements = list(self.iterated(self.evaluate(scope, node.iter)))
        for element in elements:
            self.assign(scope, node.target, element)
            if len(elements) > 1:
                self.execute(scope, node.body)
            else:
                self._branch(scope, node.body)
        self._branch(scope, node.orelse)

    def _while(self, scope: Scope, node: ast.While) -> None:
        self.evaluate(scope, node.test)
        self._branch(scope, node.body)
        self._branch(scope, node.orelse)

    def _with(self, scope: Scope, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.evaluate(scope, item.context_expr)
            if item.optional_vars is not None:
                self.assign(scope, item.optional_vars, value)
        self.execute(scope, node.body)

    def _try(self, scope: Scope, node: ast.Try) -> None:
        self.execute(scope, node.body)
        for handler in node.handlers:
            self._branch(scope, handler.body)
        self._branch(scope, node.orelse)
        self.execute(scope, node.finalbody)

    def _match(self, scope: Scope, node: ast.Match) -> None:
        self.evaluate(scope, node.subject)
        for case in node.cases:
            self._branch(scope, case.body)

    # Definitions

    def _define(self, scope: Scope, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        code = Code(node, scope)
        self._defined.append(code)
        self._by_name.setdefault(node.name, []).append(code)
        scope.names[node.name] = Obj(code=code)

    def _define_class(self, scope: Scope, node: ast.ClassDef) -> None:
        """A class and its instances are one object: what one method stores, another finds."""
        items: dict[Any, Obj] = {}
        made = Obj(items=items, code=Code(node, scope))
        for base in node.bases:
            inherited = self.evaluate(scope, base)
            items.update(inherited.items or {})
            made.ref = made.ref or inherited.ref
        scope.names[node.name] = made
        body = Scope(scope.unit, scope, items)
        first = len(self._defined)
        self.execute(body, node.body)
        for code in self._defined[first:]:
            code.receiver, code.scope = made, scope

    def _import(self, scope: Scope, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            scope.names[alias.asname or name] = self.imported(scope, name)

    def _import_from(self, scope: Scope, node: ast.ImportFrom) -> None:
        module = self.imported(scope, node.module or "")
        for alias in node.names:
            if alias.name == "*" and module.items is not None:
                scope.names.update(module.items)
            else:
                bound = (
                    self.member(module, alias.name, scope, node.lineno)
                    if node.module
                    else self.imported(scope, alias.name)
                )
                scope.names[alias.asname or alias.name] = bound

    def imported(self, scope: Scope, name: str) -> Obj:
        """A module: shipped with the skill, or one that only the library knows."""
        return Obj(ref=name)

    # Calls of the program's own functions

    def call_code(self, code: Code, call: Call, made: Obj) -> Obj:
        """`made` is the class itself where a class is called."""
        if isinstance(code.node, ast.ClassDef):
            start = (made.items or {}).get("__init__")
            if start is not None and start.code is not None:
                self._enter(Code(start.code.node, start.code.scope, made), call)
            return made
        return self._enter(code, call)

    def _enter(self, code: Code, call: Call) -> Obj:
        node = code.node
        key = _arguments_key(code, call)
        if key in self._results:
            return self._results[key]
        entries = self._entries.get(node, 0)
        if not self._is_worth_entering(code, call):
            self._entries[node] = entries + 1
            return UNKNOWN
        if node in self._active or len(self._active) >= MAX_CALL_DEPTH or entries >= MAX_ENTRIES:
            return Obj(origins=merged(*(origins_in(value) for value in call.everything())))
        self._entries[node] = entries + 1
        result = self._follow_body(code, call)
        if key is not None:
            self._results[key] = result
        return result

    def _is_worth_entering(self, code: Code, call: Call) -> bool:
        """Not if it is given nothing that must not leave, and neither it nor what it calls names a source or a sink."""
        if code.node not in self._worth:
            self._worth[code.node] = self._names_something(code, {code.node})
        if self._worth[code.node] or any(self._is_notable(value) for value in call.everything()):
            return True
        return code.receiver is not None and bool(origins_in(code.receiver))

    def _is_notable(self, value: Obj) -> bool:
        return bool(origins_in(value)) or any(self.names_something(text.lower()) for text in texts_of(value))

    def _names_something(self, code: Code, seen: set[ast.AST]) -> bool:
        first, end = getattr(code.node, "lineno", 1) - 1, getattr(code.node, "end_lineno", None)
        if end is None or end - first < SHORT or not code.scope.unit.lines or len(seen) > MAX_CALLED:
            return True
        text = "\n".join(code.scope.unit.lines[first:end])
        if self.names_something(text.lower()):
            return True
        called = [other for name in set(_NAME.findall(text)) for other in self._by_name.get(name, ())]
        for other in called:
            if other.node not in seen:
                seen.add(other.node)
                if self._names_something(other, seen):
                    return True
        return False

    def names_something(self, lowered: str) -> bool:
        """Whether the text of a function has a word for a source, a sink, or a way to hide one."""
        return True

    def _follow_body(self, code: Code, call: Call) -> Obj:
        node = code.node
        scope = Scope(code.scope.unit, code.scope)
        self._bind(scope, code, call)
        self._active.append(node)
        conditional, self.conditional = self.conditional, 0
        try:
            return self._result(scope, node)
        finally:
            self.conditional = conditional
            self._active.pop()

    def _result(self, scope: Scope, node: ast.AST) -> Obj:
        if isinstance(node, ast.Lambda):
            return self.evaluate(scope, node.body)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        self.execute(scope, node.body)
        return join(scope.returned)

    def _bind(self, scope: Scope, code: Code, call: Call) -> None:
        assert isinstance(code.node, FUNCTIONS)
        signature = code.node.args
        names = [argument.arg for argument in (*signature.posonlyargs, *signature.args)]
        given = list(call.arguments)
        if code.receiver is not None and not _is_static(code.node):
            given.insert(0, code.receiver)
        self._bind_defaults(scope, names, signature)
        scope.names.update(zip(names, given, strict=False))
        if signature.vararg:
            scope.names[signature.vararg.arg] = list_of(given[len(names) :])
        accepted = {*names, *(argument.arg for argument in signature.kwonlyargs)}
        scope.names.update({name: value for name, value in call.named.items() if name in accepted})
        if signature.kwarg:
            rest = {name: value for name, value in call.named.items() if name not in accepted}
            scope.names[signature.kwarg.arg] = Obj(items=dict(rest))

    def _bind_defaults(self, scope: Scope, names: list[str], signature: ast.arguments) -> None:
        scope.names.update(dict.fromkeys([*names, *(argument.arg for argument in signature.kwonlyargs)], UNKNOWN))
        for name, default in zip(reversed(names), reversed(signature.defaults), strict=False):
            scope.names[name] = self.evaluate(scope, default)
        for argument, value in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
            if value is not None:
                scope.names[argument.arg] = self.evaluate(scope, value)

    def call_back(self, function: Obj, given: Sequence[Obj], call: Call) -> Obj:
        """Enters a function that was handed to a library."""
        if function.code is None:
            return UNKNOWN
        inner = Call(call.scope, call.line, None, "", "")
        inner.arguments = list(given)
        return self.call_code(function.code, inner, function)

    # Pieces of other text

    def unit_in(self, call: Call) -> Unit:
        """For a string that is run as code where `call` stands."""
        return Unit(call.at.path, call.at.line, is_fixed=True)


def _arguments_key(code: Code, call: Call) -> Any:
    """What decides about a call; None if it is given anything that may change."""
    if any(value.items is not None or value.code is not None for value in call.everything()):
        return None
    given = tuple((value.constants, value.origins, value.ref) for value in call.arguments)
    named = tuple((name, value.constants, value.origins, value.ref) for name, value in call.named.items())
    return code.node, id(code.receiver), given, named


def _is_static(node: ast.AST) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in getattr(node, "decorator_list", ()))
