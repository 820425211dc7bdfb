"""The parts of a shell script, as the parser leaves them."""

import msgspec


class Expansion(msgspec.Struct, frozen=True):
    """`$name`, or `${name OPERATOR argument}`; the operator `!` is `${!name}`, `#` the length."""

    name: str
    operator: str
    argument: "Word | None"


class Substitution(msgspec.Struct, frozen=True):
    body: list["Node"]
    is_file: bool = False  # <( … )


WordPart = str | Expansion | Substitution


class Word(msgspec.Struct, frozen=True):
    parts: tuple[WordPart, ...]
    line: int

    @property
    def literal(self) -> str:
        """The text of a word without expansions; empty otherwise."""
        return "".join(part for part in self.parts if isinstance(part, str)) if self.is_literal else ""

    @property
    def is_literal(self) -> bool:
        return all(isinstance(part, str) for part in self.parts)


class Assignment(msgspec.Struct, frozen=True):
    name: str
    words: list[Word]  # several for an array
    appends: bool


class Redirection(msgspec.Struct):
    operator: str
    descriptor: str
    target: Word  # or the text of the here-document


class Simple(msgspec.Struct, frozen=True):
    line: int
    assignments: list[Assignment]
    words: list[Word]
    redirections: list[Redirection]


class Pipeline(msgspec.Struct, frozen=True):
    commands: list["Node"]


class Compound(msgspec.Struct, frozen=True):
    kind: str  # group, if (any body may run), loop or test
    line: int
    bodies: list[list["Node"]]
    variable: str = ""
    words: list[Word] = []
    redirections: list[Redirection] = []


class Function(msgspec.Struct, frozen=True):
    name: str
    body: list["Node"]


Node = Simple | Pipeline | Compound | Function
