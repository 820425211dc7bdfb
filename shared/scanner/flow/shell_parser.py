"""Shell text as commands: quoting, expansions, substitutions, here-documents, pipes, compound commands and functions.

One pass over the text, without going back. What is not closed ends with the text, and what is nested deeper than
MAX_DEPTH is dropped: a reader of hostile text must end, not be right about nonsense.
"""

import re

from shared.scanner.flow.shell_tree import (
    Assignment,
    Compound,
    Expansion,
    Function,
    Node,
    Pipeline,
    Redirection,
    Simple,
    Word,
)
from shared.scanner.flow.shell_words import MAX_DEPTH, NAME, ShellWords

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\n]{0,100}\])?(\+?)=")
_FUNCTION = re.compile(r"(?:function[ \t]+)?([\w:.-]+)[ \t]*\([ \t]*\)\s*(?=[{(])|function[ \t]+([\w:.-]+)\s*(?=[{(])")
_REDIRECTION = re.compile(r"(?:\d|\{\w{1,20}\})?(<<<|<<-?|<>|>>|>\||&>>?|>&|<&|<(?!\()|>(?!\())")
_HERE_WORD = re.compile(r"[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|<>()'\"]+))")
_RESERVED = re.compile(
    r"(if|then|elif|else|fi|for|while|until|select|do|done|case|esac|in|\{|\}|\[\[|!|time)(?=[\s;&|()]|\Z)"
)
_STOPS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_DECLARES = frozenset({"export", "local", "declare", "readonly", "typeset", "env", "sudo", "alias"})


def parse_shell(text: str, first_line: int = 1, depth: int = 0) -> list[Node]:
    return _Parser(text, first_line, depth).nodes(frozenset())


class _Parser(ShellWords):
    # Lists of commands

    def nodes(self, stops: frozenset[str], closer: str = "") -> list[Node]:
        """Commands up to one of the reserved words, or the closing bracket; neither is consumed."""
        found: list[Node] = []
        self._depth += 1
        while self._skip_to_command(closer):
            if (word := self._reserved()) in _STOPS:
                if word in stops:
                    break
                self._at += len(word)
                continue
            before = self._at
            node = self._pipeline()
            if node is not None and self._depth <= MAX_DEPTH:
                found.append(node)
            if self._at == before:
                self._at += 1
        self._depth -= 1
        return found

    def _skip_to_command(self, closer: str) -> bool:
        """False at the end of the text or of the list."""
        while True:
            self._blanks()
            if self._at >= self._length:
                return False
            char = self._text[self._at]
            if char == closer:
                return False
            if char == "#":
                self._comment()
            elif char == "\n":
                self._newline()
            elif char in ";&|)":
                self._at += 1
            else:
                return True

    def _pipeline(self) -> Node | None:
        commands = [self._command()]
        while True:
            self._blanks()
            if not self._text.startswith("|", self._at) or self._text.startswith("||", self._at):
                break
            self._at += 2 if self._text.startswith("|&", self._at) else 1
            self._blanks()
            while self._text.startswith(("\n", "#"), self._at):
                self._skip_one()
                self._blanks()
            commands.append(self._command())
        present = [command for command in commands if command is not None]
        return present[0] if len(present) == 1 else Pipeline(present) if present else None

    def _skip_one(self) -> None:
        if self._text.startswith("\n", self._at):
            self._newline()
        elif self._text.startswith("#", self._at):
            self._comment()
        else:
            self._blanks()

    def _command(self) -> Node | None:
        self._blanks()
        if self._depth >= MAX_DEPTH:
            return self._simple()
        if self._text.startswith("(", self._at):
            return self._bracketed()
        if function := _FUNCTION.match(self._text, self._at):
            self._at = function.end()
            body = self._command()
            return Function(function.group(1) or function.group(2), [body] if body else [])
        reserved = self._reserved()
        if reserved in ("!", "time"):
            self._at += len(reserved)
            return self._simple()
        if reserved in _COMPOUND:
            self._at += len(reserved)
            return self._with_redirections(_COMPOUND[reserved](self))
        return self._simple()

    def _bracketed(self) -> Node | None:
        if self._text.startswith("((", self._at):
            end = self._text.find("))", self._at)
            self._at = self._length if end < 0 else end + 2
            return None
        self._at += 1
        body = self.nodes(frozenset(), ")")
        self._at += 1
        return self._with_redirections(Compound("group", self._line(), [body]))

    def _reserved(self) -> str:
        match = _RESERVED.match(self._text, self._at)
        return match.group(1) if match else ""

    # Compound commands

    def _if(self) -> Compound:
        line, bodies = self._line(), []
        while True:
            bodies.append(self.nodes(frozenset({"then", "elif", "else", "fi"})))
            word = self._reserved()
            self._at += len(word)
            if word in ("fi", ""):
                return Compound("if", line, bodies)

    def _for(self) -> Compound:
        line = self._line()
        self._blanks()
        name = NAME.match(self._text, self._at)
        if name is None:
            end = self._text.find("))", self._at)  # for (( … ))
            self._at = end + 2 if end >= 0 and self._text.startswith("((", self._at) else self._at
            return Compound("loop", line, [self._loop_body()])
        self._at = name.end()
        self._blanks()
        words = self._words_of_for() if self._reserved() == "in" else [Word((Expansion("@", "", None),), line)]
        return Compound("loop", line, [self._loop_body()], variable=name.group(), words=words)

    def _words_of_for(self) -> list[Word]:
        self._at += 2
        words: list[Word] = []
        while True:
            self._blanks()
            if self._at >= self._length or self._text[self._at] in "\n;&|)":
                return words
            before = self._at
            words.append(self._word())
            self._at += self._at == before

    def _while(self) -> Compound:
        line = self._line()
        condition = self.nodes(frozenset({"do"}))
        return Compound("loop", line, [condition, self._loop_body()])

    def _loop_body(self) -> list[Node]:
        self.nodes(frozenset({"do"}))
        self._at += len("do") if self._reserved() == "do" else 0
        body = self.nodes(frozenset({"done"}))
        self._at += len("done") if self._reserved() == "done" else 0
        return body

    def _case(self) -> Compound:
        line = self._line()
        self._blanks()
        self._word()
        bodies = []
        while self._skip_to_command("") and self._reserved() != "esac":
            self._at += 2 if self._reserved() == "in" else 0
            self._pattern()
            bodies.append(self._case_body())
        self._at += len("esac") if self._reserved() == "esac" else 0
        return Compound("if", line, bodies)

    def _pattern(self) -> None:
        """`a|b)`"""
        while self._skip_to_pattern():
            before = self._at
            self._word()
            self._at += self._at == before

    def _skip_to_pattern(self) -> bool:
        self._blanks()
        if self._at >= self._length or self._reserved() == "esac":
            return False
        char = self._text[self._at]
        if char in "\n|(":
            self._skip_one() if char == "\n" else self._advance()
            return True
        if char == ")":
            self._at += 1
            return False
        return True

    def _advance(self) -> None:
        self._at += 1

    def _case_body(self) -> list[Node]:
        """Up to `;;` or `esac`. Commands are read one by one, since `;;` is no reserved word."""
        found: list[Node] = []
        self._depth += 1
        while True:
            self._blanks()
            if self._at >= self._length or self._text.startswith((";;", ";&"), self._at) or self._reserved() == "esac":
                break
            if self._text[self._at] in "\n;&|)#":
                self._skip_one() if self._text[self._at] in "\n#" else self._advance()
                continue
            before = self._at
            node = self._pipeline()
            if node is not None and self._depth <= MAX_DEPTH:
                found.append(node)
            self._at += self._at == before
        self._depth -= 1
        self._at += 2 if self._text.startswith((";;", ";&"), self._at) else 0
        return found

    def _group(self) -> Compound:
        line = self._line()
        body = self.nodes(frozenset({"}"}))
        self._at += 1 if self._text.startswith("}", self._at) else 0
        return Compound("group", line, [body])

    def _test(self) -> Compound:
        """`[[ … ]]`: substitutions inside it run."""
        line = self._line()
        words = []
        while True:
            self._blanks()
            if self._at >= self._length or self._text.startswith(("]]", "\n"), self._at):
                break
            before = self._at
            words.append(self._word())
            self._at += self._at == before
        self._at += 2 if self._text.startswith("]]", self._at) else 0
        return Compound("test", line, [], words=words)

    def _with_redirections(self, compound: Compound) -> Compound:
        redirections = []
        while True:
            self._blanks()
            if (one := self._redirection()) is None:
                break
            redirections.append(one)
        compound.redirections.extend(redirections)
        return compound

    # Simple commands

    def _simple(self) -> Simple | None:
        command = Simple(self._line(), [], [], [])
        while True:
            self._blanks()
            if self._at >= self._length or self._text[self._at] in "\n;|)":
                break
            if self._text[self._at] == "#":
                self._comment()
                break
            if (redirection := self._redirection()) is not None:
                command.redirections.append(redirection)
            elif self._text[self._at] == "&":
                break
            elif not self._assigned(command):
                before = self._at
                command.words.append(self._word())
                if self._at == before:
                    self._at += 1
        return command if command.words or command.assignments or command.redirections else None

    def _assigned(self, command: Simple) -> bool:
        first = command.words[0].literal if command.words else ""
        match = _ASSIGNMENT.match(self._text, self._at) if not command.words or first in _DECLARES else None
        if match is None or (first in ("env", "sudo") and len(command.words) > 1):
            return False
        self._at = match.end()
        if self._text.startswith("(", self._at):
            self._at += 1
            command.assignments.append(Assignment(match.group(1), self._array(), bool(match.group(2))))
        else:
            command.assignments.append(Assignment(match.group(1), [self._word()], bool(match.group(2))))
        return True

    def _array(self) -> list[Word]:
        words = []
        while self._at < self._length and self._text[self._at] != ")":
            if self._text[self._at] in " \t\r\n#":
                self._skip_one()
                continue
            before = self._at
            words.append(self._word())
            self._at += self._at == before
        self._at += 1
        return words

    def _redirection(self) -> Redirection | None:
        match = _REDIRECTION.match(self._text, self._at)
        if match is None:
            return None
        operator = match.group(1)
        descriptor = match.group()[: -len(operator)]
        self._at = match.end()
        if operator in ("<<", "<<-"):
            return self._announce(operator)
        self._blanks()
        return Redirection(operator, descriptor, self._word())

    def _announce(self, operator: str) -> Redirection:
        redirection = Redirection("<<", "", Word((), self._line()))
        word = _HERE_WORD.match(self._text, self._at)
        if word is not None:
            self._at = word.end()
            is_quoted = word.group(1) is not None or word.group(2) is not None or "\\" in word.group()
            delimiter = next((group for group in word.groups() if group is not None), "")
            self._documents.append((redirection, delimiter, is_quoted))
        return redirection


_COMPOUND = {
    "if": _Parser._if,
    "for": _Parser._for,
    "select": _Parser._for,
    "while": _Parser._while,
    "until": _Parser._while,
    "case": _Parser._case,
    "{": _Parser._group,
    "[[": _Parser._test,
}
