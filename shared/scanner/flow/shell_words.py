"""The words of a shell script: quotes, expansions, substitutions, comments and here-documents."""

import re
from bisect import bisect_left

from shared.scanner.flow.shell_tree import Expansion, Node, Redirection, Substitution, Word, WordPart

MAX_DEPTH = 30
_BLANKS = re.compile(r"(?:[ \t\r]|\\\n)*")
_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>(){}#*?~]+|[{}#*?~]")
_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_IN_TEXT = re.compile(r"[^\\$`]+")
_IN_BRACES = re.compile(r"[^}'\"\\$`]+")
NAME = re.compile(r"[A-Za-z_]\w*|[0-9]|[@*#?$!-]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
_INDEX = re.compile(r"\[[^\]\n}]{0,100}\]")
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|//?|\^\^?|,,?|:|@")


class ShellWords:
    """A place in the text. The parser of commands adds `nodes`, which substitutions need."""

    def __init__(self, text: str, first_line: int, depth: int) -> None:
        self._text = text
        self._length = len(text)
        self._at = 0
        self._depth = depth
        self._first_line = first_line
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._documents: list[tuple[Redirection, str, bool]] = []  # announced, and not read yet

    def nodes(self, stops: frozenset[str], closer: str = "") -> list[Node]:
        raise NotImplementedError

    def _within(self, text: str, line: int) -> "ShellWords":
        """A reader of a part of the text that has its own rules."""
        return type(self)(text, line, self._depth + 1)

    def _word(self) -> Word:
        line, parts = self._line(), list[WordPart]()
        while self._at < self._length:
            char = self._text[self._at]
            if char in " \t\r\n;|)&" or (char in "<>" and not self._text.startswith(("<(", ">("), self._at)):
                break
            if char == "(" and not parts:
                break
            parts.extend(self._part(char))
        return Word(tuple(parts), line)

    def _part(self, char: str) -> list[WordPart]:
        if plain := _PLAIN.match(self._text, self._at):
            self._at = plain.end()
            return [plain.group()]
        if char == "'":
            return [self._single()]
        if char == '"':
            self._at += 1
            return [*self._expanded(_IN_DOUBLE, '"'), ""]  # the empty text marks it as quoted
        if char in "$`\\":
            return self._special(char)
        if char in "<>":
            return [self._substitution(2, is_file=True)]
        self._at += 1
        return [char]

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            self._at += 1
            return "'"
        text, self._at = self._text[self._at + 1 : end], end + 1
        return text

    def _expanded(self, plain: re.Pattern[str], closer: str) -> list[WordPart]:
        """Text with expansions up to the closer, which is consumed, or the end."""
        parts: list[WordPart] = []
        while self._at < self._length:
            if run := plain.match(self._text, self._at):
                parts.append(run.group())
                self._at = run.end()
                continue
            char = self._text[self._at]
            if char == closer:
                self._at += 1
                break
            if char in "$`\\":
                parts.extend(self._special(char, closer))
            elif closer == "}" and char == "'":
                parts.append(self._single())
            elif closer == "}" and char == '"':
                self._at += 1
                parts.extend(self._expanded(_IN_DOUBLE, '"'))
            else:
                self._at += 1
                parts.append(char)
        return parts

    def _special(self, char: str, inside: str = "") -> list[WordPart]:
        if char == "\\":
            return self._escape(inside)
        if char == "`":
            return [self._backticks()]
        follows = self._text[self._at + 1 : self._at + 2]
        if follows == "(":
            return self._dollar_bracket()
        if follows == "{":
            return [self._braces()]
        if follows == "'" and not inside:
            return [self._ansi()]
        name = NAME.match(self._text, self._at + 1)
        self._at += 1
        if name is None:
            return [] if follows == '"' else ["$"]
        self._at = name.end()
        return [Expansion(name.group(), "", None)]

    def _escape(self, inside: str) -> list[WordPart]:
        follows = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if follows == "\n":
            return []
        return ["\\" + follows] if inside and follows not in '"\\$`' else [follows]

    def _ansi(self) -> str:
        end = self._at + 2
        while (end := self._text.find("'", end)) >= 0 and _is_escaped(self._text, end):
            end += 1
        end = self._length if end < 0 else end
        text, self._at = self._text[self._at + 2 : end], end + 1
        return _ANSI.sub(_ansi_character, text)

    def _dollar_bracket(self) -> list[WordPart]:
        if self._text.startswith("$((", self._at):
            end = self._text.find("))", self._at)
            self._at = self._length if end < 0 else end + 2
            return ["0"]
        return [self._substitution(2)]

    def _substitution(self, opener: int, is_file: bool = False) -> Substitution:
        self._at += opener
        documents, self._documents = self._documents, []
        body = self.nodes(frozenset(), ")") if self._depth < MAX_DEPTH else self._dropped(")")
        self._documents = documents
        self._at += 1
        return Substitution(body, is_file)

    def _dropped(self, closer: str) -> list[Node]:
        end = self._text.find(closer, self._at)
        self._at = self._length if end < 0 else end
        return []

    def _backticks(self) -> Substitution:
        line, start = self._line(), self._at + 1
        end = start
        while (end := self._text.find("`", end)) >= 0 and _is_escaped(self._text, end):
            end += 1
        end = self._length if end < 0 else end
        self._at = end + 1
        inner = self._text[start:end].replace("\\`", "`")
        return Substitution(self._within(inner, line).nodes(frozenset()) if self._depth < MAX_DEPTH else [])

    def _braces(self) -> WordPart:
        self._at += 2
        is_length = self._text.startswith("#", self._at) and not self._text.startswith("#}", self._at)
        is_indirect = self._text.startswith("!", self._at)
        self._at += is_length or is_indirect
        name = NAME.match(self._text, self._at)
        self._at = name.end() if name else self._at
        if index := _INDEX.match(self._text, self._at):
            self._at = index.end()
        operator = _OPERATOR.match(self._text, self._at)
        self._at = operator.end() if operator else self._at
        self._depth += 1
        argument = self._expanded(_IN_BRACES, "}") if self._depth < MAX_DEPTH else self._dropped_text()
        self._depth -= 1
        shown = "#" if is_length else "!" if is_indirect else operator.group() if operator else ""
        return Expansion(name.group() if name else "", shown, Word(tuple(argument), self._line()))

    def _dropped_text(self) -> list[WordPart]:
        self._dropped("}")
        self._at += 1
        return []

    # Blanks, comments, here-documents

    def _blanks(self) -> None:
        match = _BLANKS.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = self._length if end < 0 else end

    def _newline(self) -> None:
        self._at += 1
        documents, self._documents = self._documents, []
        for redirection, delimiter, is_quoted in documents:
            self._read_document(redirection, delimiter, is_quoted)

    def _read_document(self, redirection: Redirection, delimiter: str, is_quoted: bool) -> None:
        end = re.compile(rf"^[ \t]*{re.escape(delimiter)}[ \t\r]*$", re.MULTILINE).search(self._text, self._at)
        stop = end.start() if end else self._length
        body, line = self._text[self._at : stop], self._line()
        self._at = end.end() if end else self._length
        if is_quoted or self._depth >= MAX_DEPTH:
            redirection.target = Word((body,), line)
        else:
            redirection.target = Word(tuple(self._within(body, line)._expanded(_IN_TEXT, "")), line)

    def _line(self) -> int:
        return bisect_left(self._newlines, self._at) + self._first_line


def _is_escaped(text: str, at: int) -> bool:
    start = at
    while start > 0 and text[start - 1] == "\\" and at - start < 20:
        start -= 1
    return (at - start) % 2 == 1


def _ansi_character(match: re.Match[str]) -> str:
    digits, octal, point, char = match.groups()
    if char is not None:
        return _ESCAPES.get(char, char)
    return chr(int(digits or point, 16) if digits or point else int(octal, 8) & 0xFF) or ""
