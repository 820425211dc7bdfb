"""Reads the tokens of a script one after the other, and skips types, which nothing follows."""

from collections.abc import Sequence

from shared.scanner.flow.javascript_tokens import OPENING, JsToken

_TYPE_PREFIX = {"keyof", "typeof", "readonly", "infer", "unique", "asserts", "new", "abstract"}
_IN_TYPES = frozenset([",", "|", "&", "[", "]", ".", "{", "}", ":", ";", "?", "(", ")", "=>"])
MAX_AHEAD = 60  # tokens that are looked at to tell types from a comparison


class Unreadable(Exception):
    """The statement at hand cannot be read."""


class JsReader:
    def __init__(self, tokens: list[JsToken]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._ends = _matching(tokens)

    # Tokens

    @property
    def _token(self) -> JsToken:
        return self._tokens[self._at]

    def _peek(self, ahead: int = 1) -> JsToken:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _is(self, *texts: str) -> bool:
        token = self._tokens[self._at]
        return token.text in texts and token.kind in ("mark", "name")

    def _take(self) -> JsToken:
        token = self._tokens[self._at]
        if self._at < len(self._tokens) - 1:
            self._at += 1
        return token

    def _accept(self, *texts: str) -> bool:
        if self._is(*texts):
            self._take()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise Unreadable

    def _name(self) -> str:
        if self._token.kind != "name":
            raise Unreadable
        return self._take().text

    def _line_before(self) -> int:
        return self._tokens[max(0, self._at - 1)].line

    def _end_of(self, at: int) -> int:
        """The bracket that closes the one at this token."""
        end = self._ends.get(at)
        if end is None:
            raise Unreadable
        return end

    # Types are not followed

    def _skip_type(self) -> None:
        while True:
            self._accept("|", "&")
            while self._token.text in _TYPE_PREFIX and self._peek().kind in ("name", "string"):
                self._take()
            is_function = self._is("(")
            self._skip_type_atom()
            if self._is("is", "extends") and not self._token.starts_line:
                self._take()
            elif not (self._accept("|", "&") or (is_function and self._accept("=>"))):
                return

    def _skip_type_atom(self) -> None:
        if self._is("(", "[", "{"):
            self._at = self._end_of(self._at)
            self._take()
        elif self._is("`"):
            self._skip_template()
        elif self._token.kind in ("name", "string", "number"):
            self._take()
            while self._accept("."):
                self._take()
        else:
            raise Unreadable
        if self._is("<"):
            self._skip_type_arguments()
        while self._is("[") and not self._token.starts_line:
            self._at = self._end_of(self._at)
            self._take()

    def _are_type_arguments(self) -> bool:
        """`call<T>(…)` and not `a < b`: only words that a type is made of, then a bracket."""
        depth = 0
        for ahead in range(MAX_AHEAD):
            token = self._peek(ahead)
            if token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
                if depth == 0:
                    return self._peek(ahead + 1).text in ("(", "`")
            elif token.kind not in ("name", "string") and token.text not in _IN_TYPES:
                return False
        return False

    def _skip_type_arguments(self) -> None:
        depth = 0
        while self._token.kind != "end":
            token = self._take()
            if token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
                if depth == 0:
                    return
        raise Unreadable

    def _skip_template(self) -> None:
        self._take()
        while not self._accept("`"):
            if self._take().kind == "end":
                raise Unreadable


def _matching(tokens: Sequence[JsToken]) -> dict[int, int]:
    """The closing bracket of every opening one."""
    ends: dict[int, int] = {}
    waiting: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in OPENING:
            waiting.append(at)
        elif token.text in (")", "]", "}") and waiting and OPENING[tokens[waiting[-1]].text] == token.text:
            ends[waiting.pop()] = at
    return ends
