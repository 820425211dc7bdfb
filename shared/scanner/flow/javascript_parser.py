"""Parses JavaScript and TypeScript into Python's own syntax tree, so that one interpreter follows both languages.

Light on purpose: types are skipped, and a statement that cannot be read costs only itself. One pass, no backtracking.
"""

import ast
from collections.abc import Callable

from shared.scanner.flow.javascript_expressions import MAX_NESTED
from shared.scanner.flow.javascript_functions import JsFunctions
from shared.scanner.flow.javascript_nodes import constant_node, placed, require_node
from shared.scanner.flow.javascript_reader import Unreadable
from shared.scanner.flow.javascript_tokens import OPENING, JsToken, NoScript, tokenized


def parsed_script(text: str) -> list[ast.stmt] | None:
    try:
        return JsParser(tokenized(text)).program()
    except (NoScript, RecursionError):
        return None


class JsParser(JsFunctions):
    def __init__(self, tokens: list[JsToken]) -> None:
        super().__init__(tokens)
        self._parsers = self._statement_parsers()

    def program(self) -> list[ast.stmt]:
        return self._statements(len(self._tokens) - 1)

    # Statements

    def _statements(self, end: int) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        while self._at < end:
            start = self._at
            try:
                statements += self._statement()
            except Unreadable:
                self._skip_statement(end)
            if self._at <= start:
                self._at = start + 1
        return statements

    def _skip_statement(self, end: int) -> None:
        """To the end of what could not be read: the next semicolon, or a line that begins outside brackets."""
        self._take()
        while self._at < end and not self._token.starts_line and not self._accept(";"):
            self._at = min(self._ends.get(self._at, self._at) + 1, end) if self._token.text in OPENING else self._at + 1

    def _block(self) -> list[ast.stmt]:
        """`{ … }`, or the one statement in its place."""
        if not self._is("{"):
            return self._statement()
        end = self._end_of(self._at)
        self._take()
        statements = self._statements(end)
        self._at = end
        self._take()
        return statements

    def _statement(self) -> list[ast.stmt]:
        self._depth += 1
        if self._depth > MAX_NESTED:
            self._depth -= 1
            raise Unreadable
        try:
            token = self._token
            parse = self._parsers.get(token.text) if token.kind in ("name", "mark") else None
            return parse() if parse is not None else self._expression_statement()
        finally:
            self._depth -= 1

    def _statement_parsers(self) -> dict[str, Callable[[], list[ast.stmt]]]:
        return {
            "{": self._block,
            ";": self._empty,
            "const": self._declaration,
            "let": self._declaration,
            "var": self._declaration,
            "function": self._function_statement,
            "async": self._async_statement,
            "class": self._class_statement,
            "abstract": self._class_statement,
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "do": self._do,
            "try": self._try,
            "switch": self._switch,
            "return": self._return,
            "throw": self._throw,
            "import": self._import,
            "export": self._export,
            "interface": self._skip_declaration,
            "type": self._skip_declaration,
            "declare": self._skip_declaration,
            "enum": self._skip_declaration,
            "namespace": self._skip_declaration,
            **dict.fromkeys(("break", "continue", "debugger"), self._skip_line),
        }

    def _empty(self) -> list[ast.stmt]:
        self._take()
        return []

    def _expression_statement(self) -> list[ast.stmt]:
        value = self.expression()
        self._accept(";")
        return [placed(ast.Expr(value), value.lineno)]

    def _declaration(self) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        line = self._take().line
        while True:
            target = self._primary() if self._is("{", "[") else self._name_node()
            self._accept("!")
            if self._accept(":"):
                self._skip_type()
            if self._accept("="):
                made.append(placed(ast.Assign([target], self._assignment()), line))
            if not self._accept(","):
                break
        self._accept(";")
        return made

    def _name_node(self) -> ast.expr:
        line = self._token.line
        return placed(ast.Name(self._name(), ast.Load()), line)

    def _function_statement(self) -> list[ast.stmt]:
        return [self._function()]

    def _async_statement(self) -> list[ast.stmt]:
        if self._peek().text == "function":
            self._take()
            return [self._function()]
        return self._expression_statement()

    def _class_statement(self) -> list[ast.stmt]:
        self._accept("abstract")
        return [self._class()]

    def _if(self) -> list[ast.stmt]:
        line = self._take().line
        test = self._in_brackets()
        body = self._block()
        otherwise = self._block() if self._accept("else") else []
        return [placed(ast.If(test, body, otherwise), line)]

    def _for(self) -> list[ast.stmt]:
        line = self._take().line
        self._accept("await")
        if not self._is("("):
            raise Unreadable
        end = self._end_of(self._at)
        self._take()
        first = self._for_head(end)
        self._at = end
        self._take()
        body = self._block()
        if isinstance(first, ast.For):
            first.body = body
            return [placed(first, line)]
        return [*first, placed(ast.While(constant_node(True, line), body, []), line)]

    def _for_head(self, end: int) -> ast.For | list[ast.stmt]:
        """`const x of xs`, or the three parts of the other kind."""
        is_declared = self._is("const", "let", "var")
        at = self._at + 1 if is_declared else self._at
        of = self._ends.get(at, at) + 1
        if of < end and self._tokens[of].text in ("of", "in"):
            self._at = at
            target = self._primary() if self._is("{", "[") else self._name_node()
            self._take()
            return ast.For(target, self.expression(), [], [])
        return self._statements(end)

    def _while(self) -> list[ast.stmt]:
        line = self._take().line
        return [placed(ast.While(self._in_brackets(), self._block(), []), line)]

    def _do(self) -> list[ast.stmt]:
        self._take()
        return self._block()

    def _try(self) -> list[ast.stmt]:
        line = self._take().line
        body, handlers, final = self._block(), [], []
        if self._accept("catch"):
            if self._is("("):
                self._at = self._end_of(self._at)
                self._take()
            handlers.append(ast.ExceptHandler(None, None, self._block()))
        if self._accept("finally"):
            final = self._block()
        return [placed(ast.Try(body, handlers, [], final), line)]

    def _switch(self) -> list[ast.stmt]:
        line = self._take().line
        test = self._in_brackets()
        if not self._is("{"):
            raise Unreadable
        end = self._end_of(self._at)
        self._take()
        body: list[ast.stmt] = []
        while self._at < end:
            if self._accept("case"):
                self.expression()
                self._expect(":")
            elif self._accept("default"):
                self._expect(":")
            else:
                body += self._statement()
        self._take()
        return [placed(ast.If(test, body, []), line)]

    def _return(self) -> list[ast.stmt]:
        line = self._take().line
        is_empty = self._is(";", "}") or self._token.starts_line or self._token.kind == "end"
        value = None if is_empty else self.expression()
        self._accept(";")
        return [placed(ast.Return(value), line)]

    def _throw(self) -> list[ast.stmt]:
        self._take()
        return self._expression_statement()

    def _skip_line(self) -> list[ast.stmt]:
        self._take()
        while not (self._token.starts_line or self._is(";", "}") or self._token.kind == "end"):
            self._take()
        return []

    def _skip_declaration(self) -> list[ast.stmt]:
        """`interface X { … }`, `type X = …`; or a statement that begins with one of these words as a name."""
        if self._peek().kind != "name":
            return self._expression_statement()
        self._take()
        while not (self._is(";") or self._token.kind == "end"):
            if self._is("{"):
                self._at = self._end_of(self._at)
                self._take()
                break
            if self._token.starts_line and not self._is("|", "&"):
                break
            self._take()
        return []

    # Modules

    def _import(self) -> list[ast.stmt]:
        """As assignments of `require(…)`."""
        line = self._token.line
        if self._peek().text in ("(", "."):
            return self._expression_statement()
        self._take()
        self._accept("type")
        if self._token.kind == "string":
            return [placed(ast.Expr(require_node(self._take().text, line)), line)]
        targets: list[ast.expr] = []
        while not self._is("from"):
            if self._accept("*"):
                self._expect("as")
            if self._is("{"):
                targets.append(self._imported_names())
            elif not self._accept(","):
                targets.append(self._name_node())
        self._take()
        module = require_node(self._take().text, line)
        self._accept(";")
        return [placed(ast.Assign([target], module), line) for target in targets]

    def _imported_names(self) -> ast.expr:
        line = self._take().line
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        while not self._accept("}"):
            self._accept("type")
            name = self._take().text
            keys.append(constant_node(name, line))
            alias = self._name() if self._accept("as") else name
            values.append(placed(ast.Name(alias, ast.Load()), line))
            self._accept(",")
            if self._token.kind == "end":
                raise Unreadable
        return placed(ast.Dict(keys, values), line)

    def _export(self) -> list[ast.stmt]:
        line = self._take().line
        if self._accept("default"):
            if self._is("function", "async", "class", "abstract"):
                return self._statement()
            target = placed(ast.Name("default", ast.Load()), line)
            return [placed(ast.Assign([target], self.expression()), line)]
        if self._is("{", "*"):
            return self._skip_line() if not self._is("{") else self._skip_exported()
        return self._statement()

    def _skip_exported(self) -> list[ast.stmt]:
        self._at = self._end_of(self._at)
        return self._skip_line()
