"""What a value is known to hold: its text, as far as constants say, and the sources it carries.

Immutable and bounded: a text keeps at most MAX_TEXT characters, a value at most MAX_ORIGINS origins, an origin at most
MAX_STEPS steps. Joining values is linear in their number.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from shared.scanner.report import MAX_STEPS, FlowStep

HOLE = "\0"  # stands for a part of the text that only a run would show
MAX_TEXT = 4000
MAX_ORIGINS = 8
MAX_SHOWN = 60


class SourceKind(StrEnum):
    SECRET = "secret"  # noqa: S105 - one variable that is named like a secret
    ENVIRONMENT = "environment"  # all variables, or those that look like secrets
    CREDENTIAL = "credential"  # a file, keychain or command that holds what opens an account
    HISTORY = "history"  # of a shell
    AGENT = "agent"  # conversations, memory and settings of an agent
    FILES = "files"  # of the workspace
    WORKSPACE = "workspace"  # the contents of all of them
    FACTS = "facts"  # about the machine and its user
    DOWNLOAD = "download"  # text from the network: harmless to send, not to run


class Source(msgspec.Struct, frozen=True):
    kind: SourceKind
    name: str  # for people: `GITHUB_TOKEN`, `~/.ssh/id_rsa`
    service: str = ""  # the word for the service it belongs to, as in hosts.yaml, if its name says so


class Location(msgspec.Struct, frozen=True):
    path: str
    line: int

    def step(self, what: str) -> FlowStep:
        return FlowStep(self.path, self.line, what)


class Origin(msgspec.Struct, frozen=True):
    """A source, and what happened to it since it was read."""

    source: Source
    steps: tuple[FlowStep, ...]

    def then(self, step: FlowStep) -> "Origin":
        if step in self.steps or len(self.steps) >= MAX_STEPS - 1:  # one is left for the sink
            return self
        return Origin(self.source, (*self.steps, step))


class Value(msgspec.Struct, frozen=True):
    text: str = HOLE
    origins: tuple[Origin, ...] = ()

    @property
    def is_known(self) -> bool:
        return HOLE not in self.text

    def through(self, step: FlowStep) -> "Value":
        """Changed by something that keeps the content: an encoding, a filter, a copy. Nothing of the text is left."""
        if not self.origins:
            return UNKNOWN
        return Value(HOLE, tuple(origin.then(step) for origin in self.origins))

    def with_text(self, text: str) -> "Value":
        return Value(_bounded(text), self.origins)

    def plus(self, others: Iterable["Value"]) -> "Value":
        """The same text, with the sources of others as well: what is said about where it came from."""
        return Value(self.text, _union([self, *others]))


UNKNOWN = Value()
EMPTY = Value("")


def constant(text: str) -> Value:
    return Value(_bounded(text))


def from_source(source: Source, at: Location, text: str = HOLE) -> Value:
    return Value(text, (Origin(source, (at.step(f"reads {_shown(source)}"),)),))


def joined(values: Iterable[Value], separator: str = "") -> Value:
    """One text after the other."""
    values = list(values)
    return Value(_bounded(separator.join(value.text for value in values)), _union(values))


def either(values: Iterable[Value]) -> Value:
    """One of them, and nothing says which."""
    values = list(values)
    texts = {value.text for value in values}
    return Value(texts.pop() if len(texts) == 1 else HOLE, _union(values))


def _shown(source: Source) -> str:
    name = source.name if len(source.name) <= MAX_SHOWN else source.name[: MAX_SHOWN - 1] + "…"
    return f"`{name.replace(HOLE, '…')}`"


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + HOLE


def _union(values: list[Value]) -> tuple[Origin, ...]:
    carrying = [value.origins for value in values if value.origins]
    if len(carrying) < 2:
        return carrying[0] if carrying else ()
    by_source: dict[Source, Origin] = {}
    for origin in (origin for origins in carrying for origin in origins):
        by_source.setdefault(origin.source, origin)
        if len(by_source) == MAX_ORIGINS:
            break
    return tuple(by_source.values())
