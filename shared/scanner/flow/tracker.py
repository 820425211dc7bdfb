"""What the front ends of all languages share while one skill is followed: its files, what was written and sent."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

import msgspec

from shared.scanner.context import MarkdownLayout
from shared.scanner.flow.sinks import Channel, host_of, is_authorization, is_in_host_name, theft
from shared.scanner.flow.sources import path_source, variable_source
from shared.scanner.flow.values import (
    EMPTY,
    HOLE,
    UNKNOWN,
    Location,
    Origin,
    Source,
    Value,
    either,
    from_source,
    joined,
)
from shared.scanner.hosts import NOBODY, SkillIdentity
from shared.scanner.matching import Deadline
from shared.scanner.report import FlowStep

MAX_FLOWS = 20
MAX_FILES = 200
MAX_RUNS = 500
MAX_RUNS_OF_ONE = 3
MAX_DEPTH = 6


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """Source text in one language, and how it is called."""

    path: str
    text: str
    first_line: int = 1  # of the file, for a block of a page
    arguments: tuple[Value, ...] = ()
    stdin: Value = EMPTY
    language: str = ""  # of syntax.LANGUAGES, where the path does not say it


class Flow(msgspec.Struct, frozen=True):
    source: Source
    steps: tuple[FlowStep, ...]  # from the source to the sink
    reason: str  # why it is theft: follows the last step

    @property
    def sink(self) -> FlowStep:
        return self.steps[-1]

    @property
    def description(self) -> str:
        return " → ".join(f"{step.what} ({step.path}:{step.line})" for step in self.steps) + f", {self.reason}"


FrontEnd = Callable[[Script, "Tracker"], Value]


class Tracker:
    """One per skill. Front ends report reads, writes, runs and sends; it collects the flows."""

    def __init__(self, shipped: Mapping[str, str], deadline: Deadline, skill: SkillIdentity = NOBODY) -> None:
        self.shipped = shipped
        self.layouts: dict[str, MarkdownLayout] = {}  # of pages, where the caller has them
        self.flows: list[Flow] = []
        self._deadline = deadline
        self._skill = skill
        self._written: dict[str, Value] = {}
        self._environment: dict[str, Value] = {}
        self._by_name: dict[str, list[str]] = {}
        self._runs: dict[str, int] = {}
        self._depth = 0
        self._follow: Callable[[Script, Tracker], Value] = lambda script, tracker: UNKNOWN
        for path in shipped:
            self._by_name.setdefault(PurePosixPath(path).name.lower(), []).append(path)

    def check(self) -> None:
        """Raises OutOfTime. Call it once per statement."""
        self._deadline.check()

    def read_file(self, path: Value, at: Location) -> Value:
        """The content of a file: what was written to it before, or what its path says it holds."""
        if (content := self.written(path)) is not None:
            return content
        source = path_source(path.text) if path.text != HOLE else None
        content = from_source(source, at) if source else UNKNOWN
        return either([content, Value(HOLE, path.origins)]) if path.origins else content

    @property
    def has_written(self) -> bool:
        """Whether anything that must not leave is in a file that a script made."""
        return any(content.origins for content in self._written.values())

    def write_file(self, path: Value, content: Value, at: Location) -> None:
        """What was there before stays possible: nothing says which of two writes happened last."""
        key = _key(path.text)
        known = self._written.get(key)
        if key in ("", "dev/null", "/dev/null") or (known is None and len(self._written) >= MAX_FILES):
            return
        step = at.step(f"written to {_short(path.text)}")
        written = Value(content.text, tuple(origin.then(step) for origin in content.origins))
        self._written[key] = written if known is None else joined([known, written], "\n")

    def written(self, path: Value) -> Value | None:
        """What the skill itself wrote to a file, to one of several, or into a folder."""
        whole = self._written.get(_key(path.text))
        if whole is not None or not self._written:
            return whole
        keys = [key for key in map(_key, path.text.split()[:20]) if key]
        found = [self._written[key] for key in keys if key in self._written]
        found = found or [value for name, value in self._written.items() if value.origins and _is_inside(name, keys)]
        return joined(found, "\n") if found else None

    def variable(self, name: str, at: Location) -> Value:
        """An environment variable: as a script of the skill exported it, or as its name says."""
        if name in self._environment:
            return self._environment[name]
        source = variable_source(name)
        return from_source(source, at) if source else UNKNOWN

    def export(self, name: str, value: Value) -> None:
        if len(self._environment) < MAX_FILES:
            self._environment[name] = value

    def send(self, content: Value, address: Value, channel: Channel, at: Location) -> None:
        """`content` leaves for `address` (a URL, a host, user@host:path), which may carry sources too."""
        authorizes = channel is Channel.HEADER and is_authorization(content)
        self._judge(content, channel, address, at, authorizes)
        if address.origins:
            in_name = is_in_host_name(address)
            self._judge(address, Channel.HOST_NAME if in_name else Channel.ADDRESS, address, at)

    def _judge(self, content: Value, channel: Channel, address: Value, at: Location, authorizes: bool = False) -> None:
        if not content.origins or len(self.flows) >= MAX_FLOWS:
            return
        host = host_of(address, self._skill)
        for origin in content.origins:
            if reason := theft(origin.source, host, channel, authorizes):
                name = host.name.replace("variable", "…")[:80] if host else "an address it is given"
                self._add(origin, at.step(f"sent to {name}"), reason)

    def _add(self, origin: Origin, sink: FlowStep, reason: str) -> None:
        flow = Flow(origin.source, (*origin.steps, sink), reason)
        if all((known.source, known.sink) != (flow.source, sink) for known in self.flows):
            self.flows.append(flow)

    def runs(self, path: Value) -> str | None:
        """The shipped file that a command runs or imports by this path, if there is one."""
        text = path.text.replace("\\", "/").rstrip("/")
        candidates = self._by_name.get(text.rpartition("/")[2].lower(), ())
        if not candidates:
            return None
        tail = PurePosixPath(text.lstrip("./~")).parts[-2:]
        fitting = [one for one in candidates if PurePosixPath(one).parts[-len(tail) :] == tail] if tail else []
        return next(iter(fitting or candidates), None)

    def run(self, path: str, arguments: tuple[Value, ...] = (), stdin: Value = EMPTY) -> Value:
        """Follows a shipped file as a program; returns what it prints. Bounded in number and depth."""
        if not self.may_run(path):
            return UNKNOWN
        return self.interpret(Script(path=path, text=self.shipped[path], arguments=arguments, stdin=stdin))

    def may_run(self, path: str) -> bool:
        """Counts the run."""
        runs = self._runs.get(path, 0)
        if runs >= MAX_RUNS_OF_ONE or len(self._runs) + runs >= MAX_RUNS:
            return False
        self._runs[path] = runs + 1
        return True

    def interpret(self, script: Script) -> Value:
        """Follows source text in the language that it names, or that its path says."""
        if self._depth >= MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            return self._follow(script, self)
        finally:
            self._depth -= 1

    def was_run(self, path: str) -> bool:
        return path in self._runs

    def uses(self, follow: FrontEnd) -> None:
        """The function that follows a script in whatever language it is written."""
        self._follow = follow


def _key(path: str) -> str:
    text = path.replace("\\", "/").strip("\"' ")
    return text.removeprefix("./")


def _is_inside(name: str, folders: list[str]) -> bool:
    return any(name.startswith(folder.rstrip("/*.") + "/") for folder in folders if folder.rstrip("/*."))


def _short(path: str) -> str:
    shown = path.replace(HOLE, "…")
    return shown if len(shown) <= 60 else "…" + shown[-59:]
