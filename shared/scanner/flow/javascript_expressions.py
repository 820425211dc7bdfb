"""Parses the expressions of JavaScript and TypeScript."""

import ast

from shared.scanner.flow.javascript_nodes import (
    BINARY,
    combined,
    constant_node,
    function_node,
    number_of,
    parameters_node,
    placed,
)
from shared.scanner.flow.javascript_reader import JsReader, Unreadable
from shared.scanner.flow.javascript_tokens import JsToken

MAX_NESTED = 45
_ASSIGNING = {"=", "+=", "-=", "*=", "/=", "%=", "**=", "<<=", ">>=", ">>>=", "&=", "|=", "^=", "&&=", "||=", "??="}


class JsExpressions(JsReader):
    """Functions and classes, and the statements in them, are read by what is built on top."""

    def _function(self) -> ast.FunctionDef:
        raise NotImplementedError

    def _rest_of_function(self, name: str, line: int, has_this: bool = False) -> ast.FunctionDef:
        raise NotImplementedError

    def _class(self) -> ast.ClassDef:
        raise NotImplementedError

    def _parameters(self, has_this: bool = False) -> tuple[ast.arguments, list[ast.stmt]]:
        raise NotImplementedError

    def _block(self) -> list[ast.stmt]:
        raise NotImplementedError

    def expression(self) -> ast.expr:
        """With commas: the last one is the value, the others happen."""
        values = [self._assignment()]
        while self._accept(","):
            values.append(self._assignment())
        if len(values) == 1:
            return values[0]
        return placed(ast.BoolOp(ast.And(), values), values[0].lineno)

    def _assignment(self) -> ast.expr:
        self._depth += 1
        if self._depth > MAX_NESTED:
            self._depth -= 1
            raise Unreadable
        try:
            return self._assigned()
        finally:
            self._depth -= 1

    def _assigned(self) -> ast.expr:
        if (arrow := self._arrow()) is not None:
            return arrow
        left = self._conditional()
        if not (self._token.kind == "mark" and self._token.text in _ASSIGNING):
            return left
        operator = self._take().text
        value = self._assignment()
        if operator == "+=":
            value = placed(ast.BinOp(left, ast.Add(), value), left.lineno)
        elif operator != "=":
            value = placed(ast.BoolOp(ast.Or(), [left, value]), left.lineno)
        return placed(ast.NamedExpr(left, value), left.lineno)  # type: ignore[arg-type]

    def _arrow(self) -> ast.expr | None:
        """`x => …`, `async (a, b): T => …`; decided by what follows the closing bracket, without trying."""
        at = self._at
        if self._tokens[at].text == "async" and self._tokens[at].kind == "name" and not self._peek().starts_line:
            at += 1
        token = self._tokens[min(at, len(self._tokens) - 1)]
        if token.kind == "name" and self._tokens[min(at + 1, len(self._tokens) - 1)].text == "=>":
            self._at = at + 2
            return self._arrow_body(parameters_node([token.text], [], None), [], token.line)
        if token.text != "(" or token.kind != "mark" or not self._is_arrow_after(self._ends.get(at)):
            return None
        self._at = at
        arguments, before = self._parameters()
        if self._accept(":"):
            self._skip_type()
        self._expect("=>")
        return self._arrow_body(arguments, before, token.line)

    def _is_arrow_after(self, end: int | None) -> bool:
        if end is None or end + 1 >= len(self._tokens):
            return False
        after = self._tokens[end + 1].text
        if after == ":":  # a type may follow, or the other half of a condition
            following = self._tokens[end + 2 : end + 12]
            texts = [token.text for token in following]
            return "=>" in texts and not {",", ";", "(", "?"} & set(texts[: texts.index("=>")])
        return after == "=>"

    def _arrow_body(self, arguments: ast.arguments, before: list[ast.stmt], line: int) -> ast.expr:
        if self._is("{"):
            body = self._block()
        else:
            value = self._assignment()
            body = [placed(ast.Return(value), value.lineno)]
        return function_node("", arguments, [*before, *body], line, self._line_before())  # type: ignore[return-value]

    def _conditional(self) -> ast.expr:
        test = self._binary()
        if not self._accept("?"):
            return test
        body = self._assignment()
        self._expect(":")
        return placed(ast.IfExp(test, body, self._assignment()), test.lineno)

    def _binary(self) -> ast.expr:
        """By precedence, with a stack in place of recursion."""
        operands, operators = [self._unary()], list[str]()
        while True:
            if self._is("as", "satisfies") and not self._token.starts_line:
                self._take()
                self._skip_type()
                continue
            operator = self._operator()
            level = BINARY[operator][0] if operator else 0
            while operators and BINARY[operators[-1]][0] >= level:
                right = operands.pop()
                operands.append(combined(operators.pop(), operands.pop(), right))
            if not operator:
                return operands[0]
            operators.append(operator)
            operands.append(self._unary())

    def _operator(self) -> str:
        token = self._token
        if token.kind not in ("mark", "name") or token.text not in BINARY:
            return ""
        self._take()
        while token.text == ">" and self._is(">"):
            self._take()
        return token.text

    def _unary(self) -> ast.expr:
        signs = []
        while self._is("!", "-", "+", "~", "typeof", "void", "delete", "await", "++", "--", "yield", "..."):
            signs.append(self._take())
        value = self._postfix()
        for sign in reversed(signs):
            if sign.text == "...":
                value = placed(ast.Starred(value, ast.Load()), sign.line)
            elif sign.text == "-":
                value = placed(ast.UnaryOp(ast.USub(), value), sign.line)
            elif sign.text not in ("await", "+", "++", "--", "yield"):
                value = placed(ast.UnaryOp(ast.Not(), value), sign.line)
        return value

    def _postfix(self) -> ast.expr:
        value = self._primary()
        while True:
            token = self._token
            if token.kind != "mark":
                return value
            if token.text in (".", "?."):
                value = self._member(value)
            elif token.text == "[":
                self._take()
                value = placed(ast.Subscript(value, self.expression(), ast.Load()), token.line)
                self._expect("]")
            elif token.text == "(":
                value = placed(ast.Call(value, self._arguments(), []), token.line)
            elif token.text == "`":
                value = placed(ast.Call(value, [self._template()], []), token.line)
            elif token.text in ("++", "--") or (token.text == "!" and self._peek().text != "="):
                self._take()
            elif token.text == "<" and self._are_type_arguments():
                self._skip_type_arguments()
            else:
                return value

    def _member(self, value: ast.expr) -> ast.expr:
        line = self._take().line
        if self._is("("):
            return placed(ast.Call(value, self._arguments(), []), line)
        if self._is("["):
            self._take()
            made = placed(ast.Subscript(value, self.expression(), ast.Load()), line)
            self._expect("]")
            return made
        return placed(ast.Attribute(value, self._name(), ast.Load()), line)

    def _arguments(self) -> list[ast.expr]:
        self._expect("(")
        values = []
        while not self._accept(")"):
            values.append(self._assignment())
            if not self._accept(",") and not self._is(")"):
                raise Unreadable
        return values

    def _primary(self) -> ast.expr:
        token = self._token
        if token.kind == "mark":
            return self._bracketed(token)
        if token.kind == "name":
            return self._word(token)
        self._take()
        if token.kind == "string":
            return constant_node(token.text, token.line)
        if token.kind == "number":
            return constant_node(number_of(token.text), token.line)
        if token.kind == "regex":
            return constant_node(None, token.line)
        raise Unreadable

    def _in_brackets(self) -> ast.expr:
        self._expect("(")
        value = self.expression()
        self._expect(")")
        return value

    def _bracketed(self, token: JsToken) -> ast.expr:
        if token.text == "(":
            return self._in_brackets()
        if token.text == "[":
            return self._array()
        if token.text == "{":
            return self._object()
        if token.text == "`":
            return self._template()
        if token.text == "<":  # JSX, or a type in front of a value
            self._skip_type_arguments()
            return self._unary()
        raise Unreadable

    def _word(self, token: JsToken) -> ast.expr:
        if token.text == "function":
            return self._function()  # type: ignore[return-value]
        if token.text == "async" and self._peek().text == "function":
            self._take()
            return self._function()  # type: ignore[return-value]
        if token.text == "class":
            return self._class()  # type: ignore[return-value]
        self._take()
        if token.text == "new":
            return self._new(token.line)
        if token.text in ("true", "false", "null", "undefined"):
            return constant_node(None, token.line)
        return placed(ast.Name(token.text, ast.Load()), token.line)

    def _new(self, line: int) -> ast.expr:
        value = self._primary()
        while self._is("."):
            value = self._member(value)
        if self._is("<") and self._are_type_arguments():
            self._skip_type_arguments()
        return placed(ast.Call(value, self._arguments() if self._is("(") else [], []), line)

    def _array(self) -> ast.expr:
        line = self._take().line
        values: list[ast.expr] = []
        while not self._accept("]"):
            if self._accept(","):
                continue
            values.append(self._assignment())
            if not self._is(",", "]"):
                raise Unreadable
        return placed(ast.List(values, ast.Load()), line)

    def _object(self) -> ast.expr:
        line = self._take().line
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        while not self._accept("}"):
            if self._accept("..."):
                keys.append(None)
                values.append(self._assignment())
            else:
                key, value = self._entry()
                keys.append(key)
                values.append(value)
            if not self._accept(",") and not self._is("}"):
                raise Unreadable
        return placed(ast.Dict(keys, values), line)

    def _entry(self) -> tuple[ast.expr, ast.expr]:
        while self._token.text in ("async", "get", "set") and self._peek().text not in (",", ":", "(", "}", "="):
            self._take()
        self._accept("*")
        token = self._token
        key = self._property_name()
        if self._is("(", "<"):
            return key, self._rest_of_function("", token.line)  # type: ignore[return-value]
        if self._accept(":"):
            return key, self._assignment()
        value: ast.expr = placed(ast.Name(token.text, ast.Load()), token.line)
        if self._accept("="):  # the default of a name in a pattern
            value = placed(ast.NamedExpr(value, self._assignment()), token.line)  # type: ignore[arg-type]
        return key, value

    def _property_name(self) -> ast.expr:
        token = self._take()
        if token.text == "[" and token.kind == "mark":
            key = self._assignment()
            self._expect("]")
            return key
        if token.kind not in ("name", "string", "number"):
            raise Unreadable
        return constant_node(token.text, token.line)

    def _template(self) -> ast.expr:
        line = self._take().line
        parts: list[ast.expr] = []
        while not self._accept("`"):
            token = self._take()
            if token.kind == "chunk":
                parts.append(constant_node(token.text, token.line))
            elif token.text == "${":
                parts.append(placed(ast.FormattedValue(self.expression(), -1), token.line))
                self._expect("}")
            else:
                raise Unreadable
        return placed(ast.JoinedStr(parts), line)
