"""Shell text as pipelines of commands: enough to see what feeds what. Never fails, and reads each character once per
level of nesting; what is nested deeper than MAX_NESTING is a plain word."""

import re

import msgspec

MAX_NESTING = 6
MAX_LINE = 4000
HOLE = "\0"  # stands in a word for what only a run would show
_PLAIN = re.compile(r"[^\s\\'\"`$|;&<>()#]+")
_VARIABLE = re.compile(r"\$(?:\{[^{}\n]{0,200}\}|\w{1,80}|[@*#?$!-])")
_OPERATOR = re.compile(r"\|\||&&|\|&|&>>|&>|;;|[|;&\n]")
_REDIRECTION = re.compile(r"\d?(?:<<<|<<-?|>>|>\||>&|<&|[<>])")
_GROUP = re.compile(r"\{\s")
_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\`$]+")
_KEYWORDS = {"do", "then", "else", "elif", "if", "while", "until", "!", "{", "}", "(", "done", "fi", "time"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,80}\+?=")
_CONTINUED = re.compile(r"(?:\\|\|\|?|&&|\|&)[ \t]{0,80}(?:[ \t]#[^\n]{0,300})?\n|\n(?=[ \t]{0,80}(?:\||&&))")
_LINE_COMMENT = re.compile(r"[ \t]{0,80}#[^\n]*(?:\n|\Z)")


class Command(msgspec.Struct):
    """A simple command, or a group of them (no words): what runs inside it is `inner`."""

    words: list[str] = []
    assigned: list[str] = []  # `A=b` before the command
    inner: list["list[Command]"] = []  # pipelines whose output is in its words or its input
    writes: list[str] = []
    reads: list[str] = []
    loops: bool = False  # begins the body or the condition of a loop

    @property
    def name(self) -> str:
        return self.words[0] if self.words else ""


CommandPipeline = list[Command]


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Commands with the lines they go on in, each with its offset. A comment behind a pipe does not end it."""
    lines, at = [], 0
    while at < len(text):
        end = _end_of_command(text, at)
        lines.append((at, text[at : min(end, at + MAX_LINE)]))
        at = end + 1
    return lines


def _end_of_command(text: str, at: int) -> int:
    while True:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        start = max(at, end - 400)
        go_on = _CONTINUED.search(text, start, end + 1) if end < len(text) else None
        if go_on is None or go_on.end() <= end:
            go_on = _CONTINUED.match(text, end) if end < len(text) else None
        if go_on is None:
            return end
        at = max(go_on.end(), end + 1)
        while comment := _LINE_COMMENT.match(text, at):  # lines that are only a comment, between a pipe and its shell
            if comment.end() <= at:
                break
            at = comment.end()


def parse(text: str) -> list[CommandPipeline]:
    return _PipelineParser(text[:MAX_LINE]).pipelines("")


class _PipelineParser:
    def __init__(self, text: str, nesting: int = 0) -> None:
        self._text = text
        self._nesting = nesting
        self._at = 0

    def pipelines(self, closer: str) -> list[CommandPipeline]:
        """Up to the closing bracket, or to the end."""
        found: list[CommandPipeline] = []
        pipeline: CommandPipeline = []
        command = Command()
        while self._at < len(self._text):
            mark = self._text[self._at]
            if closer and mark == closer:
                self._at += 1
                break
            if operator := _OPERATOR.match(self._text, self._at):
                self._at = operator.end()
                if operator.group() == "\n" and pipeline and not _says_something(command):
                    continue  # a pipe goes on in the next line
                pipeline += [command] if _says_something(command) else []
                command = Command()
                if operator.group() not in ("|", "|&"):
                    found += [pipeline] if pipeline else []
                    pipeline = []
                continue
            self._step(mark, command)
        pipeline += [command] if _says_something(command) else []
        return found + ([pipeline] if pipeline else [])

    def _step(self, mark: str, command: Command) -> None:
        if mark.isspace() or mark == ")":
            self._at += 1
        elif mark == "\\" and self._text[self._at + 1 : self._at + 2] == "\n":
            self._at += 2
        elif mark == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif mark == "(" and self._at and self._text[self._at - 1] not in " \t\n;|&(!":
            self._at += 1
            self._nested(")")  # `name(…)` is a call or a definition, no part of a command
        elif mark == "(" or (mark == "{" and not command.words and _GROUP.match(self._text, self._at)):
            self._at += 1
            command.inner += self._nested(")" if mark == "(" else "}")
        elif redirection := _REDIRECTION.match(self._text, self._at):
            self._redirect(redirection.group(), command)
        else:
            self._add(self._word(command), command)

    def _add(self, word: str, command: Command) -> None:
        if not command.words and word in _KEYWORDS:
            command.loops = command.loops or word in ("while", "until", "do")
        elif not command.words and _ASSIGNMENT.match(word):
            command.assigned.append(word)
        else:
            command.words.append(word)

    def _redirect(self, redirection: str, command: Command) -> None:
        mark = redirection.lstrip("0123456789")
        if redirection in ("<", ">") and self._text.startswith("(", self._at + 1):
            self._at += 2
            command.inner += self._nested(")")
            command.words.append(HOLE + mark)
            return
        self._at += len(redirection)
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if self._text[self._at : self._at + 1] in ("<", ">") and self._text.startswith("(", self._at + 1):
            self._redirect(self._text[self._at], command)  # `bash < <(…)`
            return
        target = self._word(command)
        if mark[0] == "<":
            command.reads.append(target)
        elif mark not in (">&",):
            command.writes.append(target)

    def _word(self, command: Command) -> str:
        """One word without its quotes; substitutions in it are pipelines inside the command."""
        pieces: list[str] = []
        while self._at < len(self._text):
            mark = self._text[self._at]
            if plain := _PLAIN.match(self._text, self._at):
                pieces.append(plain.group())
                self._at = plain.end()
            elif mark == "#" and pieces:
                pieces.append(mark)
                self._at += 1
            elif mark == "\\":
                pieces.append(self._text[self._at + 1 : self._at + 2].strip("\n"))
                self._at += 2
            elif mark in "'\"`$":
                pieces.append(self._quoted(mark, command))
            else:
                break
        if not pieces:
            self._at += 1  # a mark that begins no word
        return "".join(pieces)

    def _quoted(self, mark: str, command: Command) -> str:
        if mark == "'":
            end = self._text.find("'", self._at + 1)
            end = len(self._text) if end < 0 else end
            word, self._at = self._text[self._at + 1 : end], end + 1
            return word
        if mark == "`":
            end = self._text.find("`", self._at + 1)
            end = len(self._text) if end < 0 else end
            inside, self._at = self._text[self._at + 1 : end], end + 1
            command.inner += (
                _PipelineParser(inside, self._nesting + 1).pipelines("") if self._nesting < MAX_NESTING else []
            )
            return f"{HOLE}`"
        if mark == "$":
            return self._dollar(command)
        self._at += 1
        return self._double(command)

    def _dollar(self, command: Command) -> str:
        if self._text.startswith("$(", self._at):
            self._at += 2
            command.inner += self._nested(")")
            return HOLE
        if variable := _VARIABLE.match(self._text, self._at):
            self._at = variable.end()
            return variable.group()
        self._at += 1
        return "" if self._text[self._at : self._at + 1] in ("'", '"') else "$"

    def _double(self, command: Command) -> str:
        pieces: list[str] = []
        while self._at < len(self._text):
            mark = self._text[self._at]
            if mark == '"':
                self._at += 1
                break
            if mark == "\\":
                pieces.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            elif mark in "`$":
                pieces.append(self._quoted(mark, command))
            elif literal := _IN_DOUBLE_QUOTES.match(self._text, self._at):
                pieces.append(literal.group())
                self._at = literal.end()
        return "".join(pieces)

    def _nested(self, closer: str) -> list[CommandPipeline]:
        if self._nesting >= MAX_NESTING:
            return []
        self._nesting += 1
        found = self.pipelines(closer)
        self._nesting -= 1
        return found


def _says_something(command: Command) -> bool:
    return bool(command.words or command.inner or command.assigned or command.reads or command.writes)
