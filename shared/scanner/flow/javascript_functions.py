"""Parses the functions and classes of JavaScript and TypeScript."""

import ast

from shared.scanner.flow.javascript_expressions import JsExpressions
from shared.scanner.flow.javascript_nodes import constant_node, function_node, parameters_node, placed
from shared.scanner.flow.javascript_reader import Unreadable

_MODIFIERS = {
    *("public", "private", "protected", "readonly", "static", "abstract", "override", "declare"),
    *("async", "get", "set"),
}
THIS = "this"  # the first parameter of every method


class JsFunctions(JsExpressions):
    def _skip_statement(self, end: int) -> None:
        raise NotImplementedError

    def _function(self) -> ast.FunctionDef:
        line = self._take().line
        self._accept("*")
        name = self._name() if self._token.kind == "name" else ""
        return self._rest_of_function(name, line)

    def _rest_of_function(self, name: str, line: int, has_this: bool = False) -> ast.FunctionDef:
        if self._is("<"):
            self._skip_type_arguments()
        arguments, before = self._parameters(has_this)
        if self._accept(":"):
            self._skip_type()
        body = self._block() if self._is("{") else []
        return function_node(name, arguments, [*before, *body], line, self._line_before())

    def _parameters(self, has_this: bool = False) -> tuple[ast.arguments, list[ast.stmt]]:
        """The names, and assignments for the patterns among them."""
        if not self._is("("):
            raise Unreadable
        end = self._end_of(self._at)
        self._take()
        names, defaults, before = [THIS] if has_this else [], [], list[ast.stmt]()
        rest = None
        while self._at < end:
            line = self._token.line
            while self._token.text in _MODIFIERS and self._peek().kind == "name":
                self._take()
            is_rest = self._accept("...")
            if self._is("{", "["):
                names.append(f"({len(names)})")
                before.append(
                    placed(ast.Assign([self._primary()], placed(ast.Name(names[-1], ast.Load()), line)), line)
                )
            else:
                names.append(self._name())
            self._accept("?")
            if self._accept(":"):
                self._skip_type()
            if self._accept("="):
                defaults.append(self._assignment())
            elif defaults:
                defaults.append(constant_node(None, line))
            rest = names.pop() if is_rest else rest
            if not self._accept(",") and self._at < end:
                raise Unreadable
        self._at = end
        self._take()
        return parameters_node(names, defaults, rest), before

    def _class(self) -> ast.ClassDef:
        line = self._take().line
        name = self._name() if self._token.kind == "name" and not self._is("extends", "implements") else ""
        if self._is("<"):
            self._skip_type_arguments()
        bases = [self._postfix()] if self._accept("extends") else []
        while not self._is("{"):
            if self._token.kind == "end":
                raise Unreadable
            self._take()
        end = self._end_of(self._at)
        self._take()
        body: list[ast.stmt] = []
        while self._at < end:
            start = self._at
            try:
                body += self._class_member()
            except Unreadable:
                self._skip_statement(end)
            self._at = max(self._at, start + 1)
        self._at = end
        self._take()
        return placed(ast.ClassDef(name, bases, [], body, []), line)

    def _class_member(self) -> list[ast.stmt]:
        if self._accept(";", "*"):
            return []
        if self._token.text.startswith("@") and self._token.kind == "name":
            self._postfix()
            return []
        while self._token.text in _MODIFIERS and self._peek().text not in ("(", "=", ";", ":", "?", "!"):
            self._take()
        self._accept("*")
        if self._is("static", "{"):
            self._accept("static")
            return self._block()
        line = self._token.line
        name = self._property_name()
        key = name.value if isinstance(name, ast.Constant) else ""
        self._accept("?", "!")
        if self._is("(", "<"):
            return [self._rest_of_function("__init__" if key == "constructor" else str(key), line, has_this=True)]
        if self._accept(":"):
            self._skip_type()
        value = self._assignment() if self._accept("=") else constant_node(None, line)
        self._accept(";")
        return [placed(ast.Assign([placed(ast.Name(str(key), ast.Load()), line)], value), line)]
