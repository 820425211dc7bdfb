"""Comments and strings of shells, whose quotes nest: a substitution inside a string is code with strings of its own."""

import re
from collections.abc import Iterator

COMMENT, STRING = "comment", "string"
SyntaxToken = tuple[str, int, int]  # COMMENT or STRING, start, end

MAX_DEPTH = 50
MAX_HEREDOCS = 10  # on one line
# In code, inside double quotes and inside ${...}: what changes the meaning of the next character.
_CODE = re.compile(
    r"\\.?|'|\$'|\"|\$\(\(|\$\(|\$\{|\$\[|\(\(|\(|\)|\}|`|<<<|<<-?|#|\n|(?<![\w$-])(?:case|let)(?![\w-])", re.DOTALL
)
_DOUBLE = re.compile(r"\\.?|\"|\$\(\(|\$\(|\$\{|\$\[|`", re.DOTALL)
_BRACES = re.compile(r"\\.?|'|\"|\$\(\(|\$\(|\$\{|\$\[|\}|`", re.DOTALL)
_SINGLE = re.compile(r"[^']*'")
_DOLLAR_SINGLE = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL)
_HERE_WORD = re.compile(r"[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_][\w.-]*))(?=[\s;&|)<>]|\Z)")
_CLOSED_BY = {"$(": ")", "(": ")", "${": "}", '"': '"', "`": "`"}
_WORD_ENDS = " \t\n;&|"  # a # after one of these begins a word, and with it a comment


class _Unclear(Exception):
    """Only a shell could tell what the rest of the text is."""


def scan_shell(text: str) -> Iterator[SyntaxToken]:
    """POSIX shells, bash and zsh. Yields what is certain, and stops at arithmetic and `case` inside a substitution."""
    scanner = _Shell(text)
    try:
        while (token := scanner.step()) is not None:
            yield from token
    except _Unclear:
        return


class _Shell:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._escaped = 0  # where the last escape ended: a # right behind it belongs to the word
        self._open: list[tuple[str, int]] = []
        self._heredocs: list[tuple[str, bool]] = []

    def step(self) -> list[SyntaxToken] | None:
        """The tokens that end at the next mark; None at the end of the text."""
        inside = self._open[-1][0] if self._open else ""
        pattern = _DOUBLE if inside == '"' else _BRACES if inside == "${" else _CODE
        match = pattern.search(self._text, self._at)
        if match is None:
            return None
        mark, start, self._at = match.group(), match.start(), match.end()
        if self._open and mark == _CLOSED_BY[inside]:
            return self._close()
        if mark[0] == "\\":
            self._escaped = self._at
            return []
        return self._in_code(mark, start, inside)

    def _in_code(self, mark: str, start: int, inside: str) -> list[SyntaxToken]:
        if mark in ("'", "$'"):
            return self._literal(mark, start, inside)
        if mark in ('"', "`", "$(", "${", "("):
            return self._enter(mark, start)
        if mark == "\n":
            return list(self._documents())
        if mark == "#":
            return self._comment(start)
        if mark in ("<<", "<<-"):
            return self._announce(strip_tabs=mark == "<<-")
        if mark in ("$((", "((", "$[", "let") or (mark == "case" and self._open):
            raise _Unclear
        return []

    def _close(self) -> list[SyntaxToken]:
        kind, opened = self._open.pop()
        if self._heredocs and "\n" in self._text[opened : self._at]:
            raise _Unclear
        return [(STRING, opened, self._at)] if kind == '"' and not self._open else []

    def _enter(self, mark: str, start: int) -> list[SyntaxToken]:
        if len(self._open) >= MAX_DEPTH or (mark == "`" and any(kind == "`" for kind, _ in self._open)):
            raise _Unclear
        self._open.append((mark, start))
        return []

    def _literal(self, mark: str, start: int, inside: str) -> list[SyntaxToken]:
        literal = (_SINGLE if mark == "'" else _DOLLAR_SINGLE).match(self._text, self._at)
        if literal is None or inside == "${" or (self._heredocs and "\n" in literal.group()):
            raise _Unclear
        self._at = literal.end()
        return [] if self._open else [(STRING, start, self._at)]

    def _comment(self, start: int) -> list[SyntaxToken]:
        if start and (self._text[start - 1] not in _WORD_ENDS or self._escaped == start):
            return []
        if any(kind == "`" for kind, _ in self._open):
            raise _Unclear
        self._at = line_end(self._text, start)
        return [(COMMENT, start, self._at)]

    def _announce(self, strip_tabs: bool) -> list[SyntaxToken]:
        word = _HERE_WORD.match(self._text, self._at)
        line = self._text[self._text.rfind("\n", 0, self._at) + 1 : self._at]
        is_index = line.count("[") > line.count("]")  # an index is arithmetic
        if word is None or is_index or len(self._heredocs) >= MAX_HEREDOCS:
            raise _Unclear
        self._heredocs.append((next(filter(None, word.groups())), strip_tabs))
        self._at = word.end()
        return []

    def _documents(self) -> Iterator[SyntaxToken]:
        """The here-documents that the line announced follow it."""
        for word, strip_tabs in self._heredocs:
            start = self._at
            self._at = _heredoc_end(self._text, start, word, strip_tabs)
            yield STRING, start, self._at
        self._heredocs = []


def _heredoc_end(text: str, start: int, word: str, strip_tabs: bool) -> int:
    at = start
    while at < len(text):
        end = line_end(text, at)
        line = text[at:end]
        if (line.lstrip("\t") if strip_tabs else line) == word:
            return end
        at = end + 1
    raise _Unclear


_PS_CODE = re.compile(r"`.?|<#|@'|@\"|'|\"|#|[\u2018-\u201f]", re.DOTALL)
_PS_SINGLE = re.compile(r"[^'\u2018-\u201f]*'")
_PS_DOUBLE = re.compile(r"(?:[^\"`$\u2018-\u201f]|`.|\$(?!\())*\"", re.DOTALL)
_PS_WORD_ENDS = " \t\n;|()}"


def scan_powershell(text: str) -> Iterator[SyntaxToken]:
    """Stops at a string with code inside it, and at typographic quotes, which are quotes here."""
    at = 0
    while match := _PS_CODE.search(text, at):
        mark, start, at = match.group(), match.start(), match.end()
        if mark == "#":
            if start and (text[start - 1] not in _PS_WORD_ENDS or text[start - 2 : start - 1] == "`"):
                continue
            at = line_end(text, start)
        elif mark[0] != "`":
            at = _powershell_end(text, mark, at)
        if at < 0:
            return
        if mark[0] != "`":
            yield (COMMENT if "#" in mark else STRING), start, at


def _powershell_end(text: str, mark: str, at: int) -> int:
    """Behind what the mark opened; -1 if it is not closed. A doubled quote is two literals side by side."""
    if mark in ("'", '"'):
        literal = (_PS_SINGLE if mark == "'" else _PS_DOUBLE).match(text, at)
        return literal.end() if literal else -1
    closer = {"<#": "#>", "@'": "\n'@", '@"': '\n"@'}.get(mark)
    if mark[0] == "@" and text[at : line_end(text, at)].strip():
        return -1  # not the beginning of a here-string, but an @ before a quote
    found = text.find(closer, at) if closer else -1
    return found + len(closer or "") if found >= 0 else -1


def line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
