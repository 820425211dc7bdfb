"""Splits JavaScript and TypeScript into tokens, in one pass."""

import re

import msgspec

MAX_TOKENS = 200_000
_TOKEN = re.compile(
    r"[ \t\r\f\v\u00a0\ufeff]*+(?:(?P<line>\n)"
    r"|(?P<comment>//[^\n]*|/\*)"
    r"|(?P<name>[A-Za-z_$\u0080-\U0010ffff#@][\w$\u0080-\U0010ffff]*)"
    r"|(?P<number>0[xXbBoO][0-9a-fA-F_]+n?|\.?\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?n?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\(?:.|\n))*+\"|'(?:[^'\\\n]|\\(?:.|\n))*+')"
    r"|(?P<mark>>>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|\+=|-="
    r"|\*=|/=|%=|&=|\|=|\^=|\*\*|<<|[{}()\[\];,<>+\-*/%&|^!~?:=.`])|(?P<space>))"
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n]){0,200}\]){1,300}/[a-z]{0,9}")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\(?:.|\n)|\$(?!\{))*+", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\n)|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_BEFORE_REGEX = {
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "await",
    "else",
    "do",
    "yield",
}
OPENING = {"(": ")", "[": "]", "{": "}", "${": "}"}


class JsToken(msgspec.Struct, frozen=True):
    kind: str  # name, number, string, mark, regex, chunk (of a template), end
    text: str
    line: int
    starts_line: bool = False


class NoScript(Exception):
    """The text cannot be read as a script."""


def tokenized(text: str) -> list[JsToken]:
    return _Tokenizer(text).tokens


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._new_line = True
        self._open: list[str] = []
        self.tokens: list[JsToken] = []
        while self._at < len(text):
            self._next()
            if len(self.tokens) > MAX_TOKENS:
                raise NoScript
        self._add("end", "")

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        assert match is not None
        kind = match.lastgroup or ""
        found = match.group(kind)
        self._at = match.start(kind)
        if kind == "comment" or (found in ("/", "/=") and self._regex_may_follow()):
            self._comment_or_regex(found)
            return
        self._at = match.end()
        if kind == "line":
            self._line, self._new_line = self._line + 1, True
        elif kind == "string":
            self._add(kind, unescaped(found[1:-1]))
            self._line += found.count("\n")
        elif kind == "mark":
            self._mark(found)
        elif kind == "space":
            self._at += 1  # a character that no script holds
        else:
            self._add(kind, found)

    def _mark(self, mark: str) -> None:
        if mark == "`":
            self._template()
        elif mark == "}" and self._open and self._open[-1] == "${":
            self._open.pop()
            self._add("mark", "}")
            self._chunk()
        else:
            if mark in OPENING:
                self._open.append(mark)
            elif mark in ")]}" and self._open:
                self._open.pop()
            self._add("mark", mark)

    def _template(self) -> None:
        self._add("mark", "`")
        self._chunk()

    def _chunk(self) -> None:
        """The literal text of a template, up to its end or to `${`."""
        match = _TEMPLATE.match(self._text, self._at)
        assert match is not None
        self._add("chunk", unescaped(match.group()))
        self._line += match.group().count("\n")
        self._at = match.end()
        if self._text.startswith("${", self._at):
            self._open.append("${")
            self._add("mark", "${")
            self._at += 2
        else:
            self._add("mark", "`")
            self._at += 1

    def _comment_or_regex(self, found: str) -> None:
        if found == "/*":
            end = self._text.find("*/", self._at + 2)
            end = len(self._text) if end < 0 else end + 2
        elif found.startswith("//"):
            end = self._at + len(found)
        else:
            match = _REGEX.match(self._text, self._at)
            end = match.end() if match else self._at + 1
            self._add("regex" if match else "mark", "/")
        lines = self._text.count("\n", self._at, end)
        self._line += lines
        self._new_line = self._new_line or lines > 0
        self._at = end

    def _regex_may_follow(self) -> bool:
        if not self.tokens:
            return True
        last = self.tokens[-1]
        if last.kind == "name":
            return last.text in _BEFORE_REGEX
        return last.kind == "mark" and last.text not in (")", "]", "}", "`", "++", "--")

    def _add(self, kind: str, text: str) -> None:
        self.tokens.append(JsToken(kind, text, self._line, self._new_line))
        self._new_line = False


def unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else ""
    return "" if match[4] else _ESCAPED.get(match[5], match[5])
