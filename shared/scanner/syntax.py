"""Comments and string literals of a source text, by the rules of its language.

Written for text whose author wants it to be misread. Each scanner is linear, and where only a parser could tell what
comes next it stops: from there on nothing is a comment. What is not closed is not a comment either.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import PurePosixPath

import msgspec

from shared.scanner.cues import READS_ITSELF, RUNS_OUTPUT
from shared.scanner.shell_syntax import COMMENT, STRING, SyntaxToken, line_end, scan_powershell, scan_shell

# These end a line, and with it a comment, in some languages and not in others.
ODD_LINE_ENDS = re.compile("\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

LANGUAGES = {
    "shell": ".sh .bash .zsh .ksh .command bash sh shell zsh ksh",
    "powershell": ".ps1 .psm1 .psd1 powershell ps1 pwsh ps",
    "batch": ".bat .cmd bat batch cmd dos",
    "python": ".py .pyw .pyi python py python3",
    "script": ".js .mjs .cjs .ts .mts .cts .tsx .jsx .jsonc .json5 js javascript ts typescript jsx tsx jsonc json5",
    "c": ".java .c .cc .cpp .h .hpp .go java c cpp c++ go golang",
    "hash": ".rb .pl .pm .r ruby rb perl pl r",
    "sql": ".sql sql",
    "lua": ".lua lua",
    "config": ".yaml .yml .toml .env yaml yml toml env dotenv",
    "ini": ".ini .cfg .conf .properties ini properties",
    "lines": ".mk .dockerfile .gitignore makefile gnumakefile dockerfile make docker",
    "html": ".html .htm .xml .svg .plist html xml plist svg",
}
_LANGUAGE_OF = {name: language for language, names in LANGUAGES.items() for name in names.split()}
_PROGRAMS = {"sh": "shell", "bash": "shell", "zsh": "shell", "dash": "shell", "ksh": "shell", "python": "python"}
_PROGRAMS |= {"node": "script", "deno": "script", "bun": "script", "ruby": "hash", "perl": "hash", "pwsh": "powershell"}
_VERSION = re.compile(r"[0-9.]{1,10}\Z")


@lru_cache(1024)
def _language_by_name(path: str) -> str:
    name = PurePosixPath(path).name
    return _LANGUAGE_OF.get(PurePosixPath(name).suffix) or _LANGUAGE_OF.get(name, "")


def language_of_file(path: str, text: str) -> str:
    by_name = _language_by_name(path.lower())
    if not text.startswith("#!"):
        return by_name
    words = text[2:200].split("\n", 1)[0].replace("/", " ").split()
    by_program = next((_PROGRAMS[w] for word in words if (w := _VERSION.sub("", word)) in _PROGRAMS), "")
    if by_name and by_program and by_name != by_program:
        return ""  # the name says one language, the first line another: it is unknown which one will run it
    return by_name or by_program


def language_of_fence(tag: str) -> str:
    return "" if tag.startswith(".") else _LANGUAGE_OF.get(tag, "")


class Syntax(msgspec.Struct, frozen=True):
    """Where the comments and the strings of a text are. Comments with only white space between them are one."""

    comments: list[tuple[int, int]] = []
    strings: list[tuple[int, int]] = []


class Span(msgspec.Struct, frozen=True):
    """A match in a text: lines and columns count from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class SourceSyntax:
    """The comments and strings of some lines of source text, asked for by line and column."""

    def __init__(self, lines: list[str], language: str, first_line: int = 1) -> None:
        text = "\n".join(lines)
        self._syntax = read_syntax(text, language) if not READS_ITSELF.search(text) else Syntax()
        if language == "shell" and RUNS_OUTPUT.search(_without(text, self._syntax)):
            self._syntax = Syntax(self._syntax.comments)  # what is only searched for may be run as well
        self._first_line = first_line
        self._lines = lines
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def is_comment(self, span: Span, matched: list[str]) -> bool:
        return self._is_inside(self._syntax.comments, span, matched)

    def is_string(self, span: Span, matched: list[str]) -> bool:
        return self._is_inside(self._syntax.strings, span, matched)

    def _is_inside(self, spans: list[tuple[int, int]], span: Span, matched: list[str]) -> bool:
        """Whether the whole match, found in the lines `matched`, is inside one of the spans."""
        start = self._offset(span.line, span.column, matched) if spans else None
        end = self._offset(span.end_line, span.end_column, matched) if spans else None
        return start is not None and end is not None and is_inside(spans, start, max(start + 1, end))

    def _offset(self, line: int, column: int, matched: list[str]) -> int | None:
        """Columns of the matched text are those of the original unless a character was removed from the line."""
        number = line - self._first_line
        if not 0 <= number < len(self._lines) or len(self._lines[number]) != len(matched[line - 1]):
            return None
        return self._starts[number] + column - 1


def read_syntax(text: str, language: str) -> Syntax:
    scan = _SCANNERS.get(language)
    if scan is None or ODD_LINE_ENDS.search(text):
        return Syntax()
    tokens = list(scan(text))
    comments = [(start, end) for kind, start, end in tokens if kind == COMMENT and not _is_obeyed(text, start, end)]
    return Syntax(_joined(text, comments), [(start, end) for kind, start, end in tokens if kind == STRING])


# What a program obeys although it stands in a comment: how a file is started, what `go generate` runs, the SQL of one
# dialect, and in Java a line end written as an escape.
_OBEYED = re.compile(r"//go:|/\*[!+]|(?:[^\\]|\\(?!u))*\\u+00")


def _is_obeyed(text: str, start: int, end: int) -> bool:
    if text[end : end + 40].lstrip().startswith('import "C"'):
        return True  # C that is compiled with a Go program
    return (start == 0 and text.startswith("#!")) or _OBEYED.match(text, start, end) is not None


def without_literals(text: str, language: str) -> str:
    return _without(text, read_syntax(text, language))


def _without(text: str, syntax: Syntax) -> str:
    pieces, at = [], 0
    for start, end in sorted(syntax.comments + syntax.strings):
        pieces.append(text[at:start])
        at = end
    return " ".join([*pieces, text[at:]])


def _joined(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        touches = bool(joined) and not text[joined[-1][1] : start].strip()
        first = joined.pop()[0] if touches else start
        joined.append((first, end))
    return joined


def is_inside(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    index = bisect_right(spans, start, key=lambda span: span[0]) - 1
    return index >= 0 and end <= spans[index][1]


_QUOTED = {
    quote: re.compile(rf"{quote}[^{quote}\\\n]*(?:\\(?:\r\n|.|\n)[^{quote}\\\n]*)*(?:{quote}|(?=\n)|\Z|\\\Z)")
    for quote in "\"'"
}


def _quoted_end(text: str, start: int) -> int:
    """The end of a literal in one line. One that is not closed ends with its line; no compiler would accept it."""
    match = _QUOTED[text[start]].match(text, start)
    return match.end() if match else line_end(text, start)


def _behind(text: str, closer: str, start: int) -> int:
    """Behind the next `closer`, or -1. A caller that gets -1 stops, so that no two searches reach the end."""
    found = text.find(closer, start)
    return found + len(closer) if found >= 0 else -1


def _scan_marks(
    marks: re.Pattern[str], literal_end: Callable[[str, int, str], int], text: str
) -> Iterator[SyntaxToken]:
    """Where `#` begins a comment and every other mark a literal. Stops at a literal without a clear end."""
    at = 0
    while match := marks.search(text, at):
        start, mark = match.start(), match.group()
        at = line_end(text, start) if mark == "#" else literal_end(text, start, mark)
        if at < 0:
            return
        yield (COMMENT if mark == "#" else STRING), start, at


_PYTHON = re.compile(r"#|'''|\"\"\"|'|\"")


def _python_literal_end(text: str, start: int, mark: str) -> int:
    end = _triple_end(text, mark, start + 3) if len(mark) == 3 else _quoted_end(text, start)
    return end if end >= 0 and _is_plain_or_balanced(text, start, end) else -1


def _triple_end(text: str, mark: str, start: int) -> int:
    at = start
    while (end := _behind(text, mark, at)) > 0:
        content = text[at : end - 3]
        if (len(content) - len(content.rstrip("\\"))) % 2 == 0:
            return end
        at = end - 2  # the first quote is escaped
    return -1


_INNER_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def _is_plain_or_balanced(text: str, start: int, end: int) -> bool:
    """Newer versions allow quotes inside the braces of an f-string, older ones do not: both must see the same end."""
    prefix = text[max(0, start - 2) : start].lower()
    if not ("f" in prefix or "t" in prefix):
        return True
    literal = text[start:end].strip(text[start])
    if any("{" in inner or "}" in inner for inner in _INNER_QUOTED.findall(literal)):
        return False
    return literal.count("{") == literal.count("}")


_SCRIPT = re.compile(r"//|/\*|</|/>|/|'|\"|`|\{|\}|<!--|-->")
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])+/")
_TEMPLATE = re.compile(r"[^`\\$]*(?:(?:\\.|\$(?!\{))[^`\\$]*)*(`|\$\{|\Z)", re.DOTALL)
_OPERATORS = "(,=:[!&|?;+-*%<>~^"


def _scan_script(text: str) -> Iterator[SyntaxToken]:
    """JavaScript and TypeScript. Stops at JSX, and at a slash that might divide or open a regular expression."""
    at = depth = comment_end = 0
    templates: list[int] = []  # the depth of braces at which each open template goes on
    while match := _SCRIPT.search(text, at):
        start, mark = match.start(), match.group()
        at = match.end()
        if mark == "{":
            depth += 1
            continue
        if mark == "}" and (not templates or depth != templates[-1]):
            depth -= 1
            continue
        if mark in ("`", "}"):
            if mark == "}":
                templates.pop()
            literal = _TEMPLATE.match(text, at)
            if literal is None or not literal.group(1):
                return
            at = literal.end()
            if literal.group(1) == "${":
                templates.append(depth)
        else:
            at = _script_token_end(text, mark, start, comment_end)
        if at < 0:
            return
        is_comment = mark in ("//", "/*")
        comment_end = at if is_comment else comment_end
        yield (COMMENT if is_comment else STRING), start, at


def _script_token_end(text: str, mark: str, start: int, comment_end: int) -> int:
    if mark == "//":
        return line_end(text, start)
    if mark == "/*":
        return _behind(text, "*/", start + 2)
    if mark in ("'", '"'):
        return _quoted_end(text, start)
    before = text[max(0, comment_end, start - 40) : start].rstrip()
    if before.endswith(("++", "--", "!")):
        return -1  # `a++ /` and `a! /` divide, `+ +/` and `!/` do not
    if mark == "/" and before[-1:] and before[-1] in _OPERATORS:
        literal = _REGEX.match(text, start)
        return literal.end() if literal else -1
    divides = mark == "/" and (before[-1:].isalnum() or before[-1:] in ("_", "]")) and not _ends_in_keyword(before)
    return start + 1 if divides else -1


def _ends_in_keyword(before: str) -> bool:
    word = re.split(r"[^a-zA-Z]", before)[-1]
    return word in {"return", "typeof", "case", "in", "of", "do", "else", "void", "delete", "throw", "new", "await"} | {
        *("yield", "instanceof", "default", "extends", "break", "continue", "debugger"),
    }


_C = re.compile(r"//|/\*|\"\"\"|'|\"|`|[@$R]\"")


def _scan_c(text: str) -> Iterator[SyntaxToken]:
    """C, C++, Go and Java. Stops at raw and multi-line literals, whose rules differ, and at digit separators."""
    at = 0
    while match := _C.search(text, at):
        start, mark = match.start(), match.group()
        if len(mark) == 3 or mark[-1] == '"' != mark or (mark == "'" and text[start - 1 : start].isalnum()):
            return
        at = line_end(text, start) if mark == "//" else _c_token_end(text, mark, start)
        if at < 0 or (mark == "//" and text[at - 1] == "\\") or (mark == "/*" and "/*" in text[start + 2 : at]):
            return
        yield (COMMENT if mark[0] == "/" else STRING), start, at


def _c_token_end(text: str, mark: str, start: int) -> int:
    if mark in ("'", '"'):
        return _quoted_end(text, start)
    return _behind(text, "*/" if mark == "/*" else mark, start + len(mark))


# Beside comments and quotes: literals with brackets of the author's choice, here-documents, pages of documentation.
_HASH = re.compile(
    r"(?<!\S)#|'|\"|`|/|<<|^=\w|^__(?:END|DATA)__|(?<!\w)%\W|(?<![\w$@])(?:q[qwxr]?|m|s|y|tr)\s{0,9}[^\w\s,;=)]", re.M
)
_ANY_LINES = {quote: re.compile(rf"{quote}[^{quote}\\]*(?:\\.[^{quote}\\]*)*{quote}", re.DOTALL) for quote in "\"'"}


def _hash_literal_end(text: str, start: int, mark: str) -> int:
    """Ruby, Perl and R: only simple quotes have a clear end."""
    before = text[start - 1 : start]
    literal = _ANY_LINES[mark].match(text, start) if mark in _ANY_LINES else None
    if literal is None or before.isalnum() or before in ("$", "?", "\\", "&") or "#{" in literal.group():
        return -1
    return literal.end()


def _scan_dashes(block: str, closer: str, text: str) -> Iterator[SyntaxToken]:
    """SQL and Lua. Stops at long brackets, dollar quotes and marks that only some dialects know."""
    marks = re.compile(rf"{re.escape(block)}|--|'|\"|\[=*\[|\$|`|#")
    at = 0
    while match := marks.search(text, at):
        start, mark = match.start(), match.group()
        if mark == block:
            at = _behind(text, closer, match.end())
            unclear = at < 0 or block in text[match.end() : at]
        elif mark == "--":
            at = line_end(text, start)
            unclear = text[start + 2 : start + 3] not in (" ", "\t", "\n", "\r", "", "-")
        else:
            at = _quoted_end(text, start) if mark in ("'", '"') else -1
            unclear = at < 0 or "\\" in text[start:at] or at - start < 2 or text[at - 1] != mark
        if unclear:
            return
        yield (STRING if mark in ("'", '"') else COMMENT), start, at


_CONFIG_LINE = {marks: re.compile(rf"^[ \t]*([{marks}])?[^\n]*", re.MULTILINE) for marks in ("#", "#;")}
_GOES_ON = re.compile(r"(?:[|>][-+0-9]{0,3}(?:[ \t]+#[^\n]*)?|\\|[\[{(,])\Z")


def _scan_config(marks: str, text: str) -> Iterator[SyntaxToken]:
    """Whole lines, up to the first value that goes on over several: it may be a script."""
    for match in _CONFIG_LINE[marks].finditer(text):
        line = match.group()
        if match.group(1):
            yield COMMENT, match.start(1), match.end()
        elif _GOES_ON.search(line[-400:].rstrip()) or line.count('"') % 2 or line.count("'") % 2 or '\\"' in line:
            return


def _scan_whole_lines(begins: re.Pattern[str], continuation: str, text: str) -> Iterator[SyntaxToken]:
    """Makefiles, Dockerfiles and batch files: a comment is a line of its own that no line continues into."""
    continued = False
    at = 0
    for line in text.split("\n"):
        goes_on = line.rstrip("\r").endswith(continuation)
        if not continued and not goes_on and begins.match(line):
            yield COMMENT, at, at + len(line)
        elif "<<" in line:
            return
        continued = goes_on
        at += len(line) + 1


def _scan_html(text: str) -> Iterator[SyntaxToken]:
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        before = text[at:start].lower()
        if "<script" in before or "<style" in before or "<![cdata[" in before:
            return
        at = _behind(text, "-->", start + 4)
        comment = text[start + 4 : at]
        if at < 0 or "--!>" in comment or comment.startswith((">", "->")):
            return
        yield COMMENT, start, at


_SCANNERS: dict[str, Callable[[str], Iterator[SyntaxToken]]] = {
    "shell": scan_shell,
    "powershell": scan_powershell,
    "batch": partial(
        _scan_whole_lines, re.compile(r"(?<![ \t])[ \t]*@?(?:rem[ \t]|::)(?:[^&]|(?<=>)&)*\Z", re.IGNORECASE), "^"
    ),
    "python": partial(_scan_marks, _PYTHON, _python_literal_end),
    "script": _scan_script,
    "c": _scan_c,
    "hash": partial(_scan_marks, _HASH, _hash_literal_end),
    "sql": partial(_scan_dashes, "/*", "*/"),
    "lua": partial(_scan_dashes, "--[[", "]]"),
    "config": partial(_scan_config, "#"),
    "ini": partial(_scan_config, "#;"),
    "lines": partial(_scan_whole_lines, re.compile("#"), "\\"),
    "html": _scan_html,
}
