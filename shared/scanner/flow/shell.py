"""Shell scripts, followed as a shell would run them, with every branch taken and every loop gone through once."""

import re

import msgspec

from shared.scanner.flow.shell_commands import COMMANDS, CommandCall
from shared.scanner.flow.shell_network import NETWORK
from shared.scanner.flow.shell_parser import parse_shell
from shared.scanner.flow.shell_programs import PROGRAMS
from shared.scanner.flow.shell_tree import (
    Assignment,
    Compound,
    Expansion,
    Function,
    Node,
    Pipeline,
    Redirection,
    Simple,
    Substitution,
    Word,
    WordPart,
)
from shared.scanner.flow.sinks import Channel
from shared.scanner.flow.sources import command_source
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import (
    EMPTY,
    HOLE,
    UNKNOWN,
    Location,
    Origin,
    Source,
    SourceKind,
    Value,
    constant,
    from_source,
    joined,
)

HANDLERS = {**COMMANDS, **PROGRAMS, **NETWORK}
MAX_VARIABLES = 1000
MAX_CALLS_OF_ONE = 5
MAX_NESTED = 12
MAX_WRAPPED = 20  # commands that are running: functions, substitutions and wrappers nest
MAX_TEXTS = 60  # strings that are run as commands, in one script
_DEV_TCP = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)")
_FACTS = frozenset({"USER", "LOGNAME", "HOSTNAME", "HOSTTYPE", "OSTYPE"})


def follow_shell(script: Script, tracker: Tracker) -> Value:
    return Shell(script.path, tracker, script.arguments).run_text(script.text, script.first_line, script.stdin)


class Shell:
    """The state of one shell: what its variables hold, what its functions do, where it is."""

    def __init__(self, path: str, tracker: Tracker, arguments: tuple[Value, ...] = (), line: int = 1) -> None:
        self.path = path
        self.tracker = tracker
        self.variables: dict[str, Value] = {}
        self.sockets: dict[str, Value] = {}
        self.remotes: dict[str, Value] = {}
        self.staged = EMPTY  # for the next push
        self.folder = ""
        self._arguments = list(arguments)
        self._functions: dict[str, list[Node]] = {}
        self._calls: dict[str, int] = {}
        self._line = line
        self._nested = 0
        self._wrapped = 0
        self._branches = 0
        self._texts = 0
        self._carried: tuple[Origin, ...] = ()

    @property
    def at(self) -> Location:
        return Location(self.path, self._line)

    def run_text(self, text: str, first_line: int, stdin: Value = EMPTY) -> Value:
        return self.run(parse_shell(text, first_line), stdin)

    def run_string(self, commands: Value, arguments: list[Value] | None = None, stdin: Value = EMPTY) -> Value:
        """`eval`, `sh -c` and what is piped into a shell."""
        self._texts += 1
        if self._nested >= MAX_NESTED or self._texts > MAX_TEXTS or commands.text in ("", HOLE):
            return UNKNOWN
        line, arguments_before, carried = self._line, self._arguments, self._carried
        self._arguments = arguments_before if arguments is None else arguments
        self._carried = commands.origins  # by the holes of the text
        output = self.run([_on_line(node, line) for node in parse_shell(commands.text, line)], stdin)
        self._arguments, self._line, self._carried = arguments_before, line, carried
        return output

    def run_file(self, path: Value, arguments: list[Value], stdin: Value, sourced: bool = False) -> Value | None:
        """A file of the skill, or one that a command wrote. None if it is neither."""
        written = self.tracker.written(self.resolved(path))
        if written is not None and written.is_known:
            return self.run_string(written, arguments, stdin)
        shipped = self.tracker.runs(path) if path.is_known else None
        if shipped is None:
            return None
        if not sourced:
            return self.tracker.run(shipped, tuple(arguments), stdin)
        return self._source(shipped)

    def _source(self, shipped: str) -> Value:
        if self._nested >= MAX_NESTED or not self.tracker.may_run(shipped):
            return UNKNOWN
        kept, line, self.path = self.path, self._line, shipped
        output = self.run_text(self.tracker.shipped[shipped], 1)
        self.path, self._line = kept, line
        return output

    def run(self, nodes: list[Node], stdin: Value = EMPTY) -> Value:
        self._nested += 1
        try:
            if self._nested > MAX_NESTED * 3:
                return UNKNOWN
            outputs = [output for node in nodes if (output := self._node(node, stdin)) != EMPTY]
        finally:
            self._nested -= 1
        return outputs[0] if len(outputs) == 1 else joined(outputs, "\n")

    def _node(self, node: Node, stdin: Value) -> Value:
        if isinstance(node, Simple):
            return self._simple(node, stdin)
        if isinstance(node, Pipeline):
            for command in node.commands:
                stdin = self._node(command, stdin)
            return stdin
        if isinstance(node, Function):
            self._functions[node.name] = node.body
            return EMPTY
        return self._compound(node, stdin)

    def _compound(self, node: Compound, stdin: Value) -> Value:
        self._line = node.line
        streams = self._redirected(node.redirections, stdin)
        if node.variable:
            self.assign(node.variable, joined(self._expanded(node.words), " "))
        else:
            self._expanded(node.words)
        self._branches += node.kind in ("if", "loop")
        outputs = [self.run(body, streams.stdin) for body in node.bodies]
        self._branches -= node.kind in ("if", "loop")
        output = joined([one for one in outputs if one != EMPTY], "\n")
        return self._delivered(output, streams)

    # Simple commands

    def _simple(self, command: Simple, stdin: Value) -> Value:
        self.tracker.check()
        self._line = command.line
        for assignment in command.assignments:
            self._assign(assignment, exported=bool(command.words))
        words = self._expanded(command.words)
        streams = self._redirected(command.redirections, stdin)
        self._line = command.line
        return self._delivered(self.call(words, streams.stdin) if words else EMPTY, streams)

    def call(self, words: list[Value], stdin: Value) -> Value:
        """The output of a command, which may be the argument of another: `sudo env …`."""
        self._wrapped += 1
        output = self._called(words, stdin) if self._wrapped <= MAX_WRAPPED else UNKNOWN
        self._wrapped -= 1
        return output

    def call_at(self, words: list[Value], stdin: Value, line: int) -> Value:
        """A command of a script in another language."""
        self._line = line
        return self.call(words, stdin)

    def _called(self, words: list[Value], stdin: Value) -> Value:
        name = words[0].text.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
        if name in self._functions:
            return self._call_function(name, words[1:], stdin)
        handler = HANDLERS.get(name)
        if handler is not None and ("/" not in words[0].text or words[0].text.startswith(("/bin", "/usr"))):
            return handler(CommandCall(self, name, words[1:], stdin))
        source = command_source([word.text for word in words])
        if source is not None:
            return from_source(source, self.at)
        output = self.run_file(words[0], words[1:], stdin) if words[0].is_known else None
        return Value(HOLE, stdin.origins) if output is None else output

    def _call_function(self, name: str, arguments: list[Value], stdin: Value) -> Value:
        self._calls[name] = self._calls.get(name, 0) + 1
        if self._calls[name] > MAX_CALLS_OF_ONE or self._nested > MAX_NESTED:
            return UNKNOWN
        kept, self._arguments = self._arguments, arguments
        output = self.run(self._functions[name], stdin)
        self._arguments = kept
        return output

    # Variables

    def assign(self, name: str, value: Value, appends: bool = False) -> None:
        known = self.variables.get(name)
        if known is not None and appends:
            value = joined([known, value])
        elif known is not None and self._branches:  # another branch may have run: its sources stay possible
            value = (value if value.text not in ("", HOLE) else value.with_text(known.text)).plus([known])
        if known is not None or len(self.variables) < MAX_VARIABLES:
            self.variables[name] = value

    def _assign(self, assignment: Assignment, exported: bool) -> None:
        values = [self.value(word) for word in assignment.words]
        value = values[0] if len(values) == 1 else joined(values, " ")
        self.assign(assignment.name, value, assignment.appends)
        if exported:
            self.tracker.export(assignment.name, value)

    def lookup(self, name: str) -> Value:
        if name.isdigit():
            index = int(name) - 1
            return self._arguments[index] if 0 <= index < len(self._arguments) else UNKNOWN
        if name in "@*":
            return joined(self._arguments, " ") if self._arguments else UNKNOWN
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return constant("~")
        if name in ("$", "RANDOM", "UID", "EUID"):
            return constant("0")  # a number that makes a name unique
        if name == "PWD":
            return constant(self.folder or ".")
        if name in _FACTS:
            return from_source(Source(SourceKind.FACTS, f"${name}"), self.at)
        return self.tracker.variable(name, self.at)

    def shift(self) -> None:
        self._arguments = self._arguments[1:]

    # Words

    def value(self, word: Word) -> Value:
        parts = [self._part(part) for part in word.parts]
        return parts[0] if len(parts) == 1 else joined(parts)

    def _part(self, part: WordPart) -> Value:
        if isinstance(part, str):
            return Value(part, self._carried) if HOLE in part else constant(part)
        if isinstance(part, Expansion):
            return self._expansion(part)
        line = self._line
        output = self.run(part.body)
        self._line = line
        return output if part.is_file else output.with_text(output.text.rstrip("\n"))

    def _expanded(self, words: list[Word]) -> list[Value]:
        """Unquoted expansions are split into words; a process substitution is a file with its output."""
        values = []
        for word in words:
            value = self.value(word)
            is_split = len(word.parts) == 1 and not isinstance(word.parts[0], str)
            if is_split and isinstance(word.parts[0], Substitution) and word.parts[0].is_file:
                values.append(self._substituted_file(value))
            elif is_split and (" " in value.text or "\n" in value.text or not value.text):
                values.extend(Value(text, value.origins) for text in value.text.split()[:200])
            else:
                values.append(value)
        return values

    def _substituted_file(self, content: Value) -> Value:
        path = constant(f"/dev/fd/{self.path}:{self._line}")
        self.tracker.write_file(path, content, self.at)
        return path

    def _expansion(self, part: Expansion) -> Value:
        if part.operator == "#":
            return constant("0")
        value = self.lookup(part.name)
        if part.operator == "!":
            return joined([self.lookup(name) for name in value.text.split()[:20] if name.isidentifier()] or [UNKNOWN])
        if not part.operator or part.argument is None:
            return value
        argument = self.value(part.argument)
        if part.operator in (":-", "-", ":=", "="):
            is_set = part.name in self.variables and value.text not in ("", HOLE)
            return value if is_set else argument.plus([value])
        if part.operator in (":+", "+"):
            return argument.plus([value])
        if part.operator in ("/", "//") and value.is_known and argument.is_known:
            old, _, new = argument.text.partition("/")
            return value.with_text(value.text.replace(old, new)) if old else value
        return value if part.operator in ("#", "##", "%", "%%") else Value(HOLE, value.origins)

    # Files and streams

    def resolved(self, path: Value) -> Value:
        text = path.text
        if not self.folder or (text.startswith(("/", "~", "-", HOLE, "./")) and not text.startswith("./")):
            return path
        return path.with_text(f"{self.folder}/{text.removeprefix('./')}")

    def read(self, path: Value) -> Value:
        return self.tracker.read_file(self.resolved(path), self.at)

    def write(self, path: Value, content: Value) -> None:
        self.tracker.write_file(self.resolved(path), content, self.at)

    def _redirected(self, redirections: list[Redirection], stdin: Value) -> "_Streams":
        streams = _Streams(stdin)
        for one in redirections:
            target = self.value(one.target)
            if one.operator in ("<<", "<<<"):
                streams.stdin = target
            elif one.operator in ("<", "<>"):
                self._open(one, target, streams)
            elif one.operator in (">&", "<&"):
                streams.copy_to = target.text
            elif one.descriptor != "2":
                streams.target = target
                self._open_socket(one.descriptor, target)
        return streams

    def _open(self, redirection: Redirection, target: Value, streams: "_Streams") -> None:
        if not self._open_socket(redirection.descriptor, target):
            streams.stdin = self.read(target)

    def _open_socket(self, descriptor: str, target: Value) -> bool:
        socket = _DEV_TCP.match(target.text)
        if socket is not None and descriptor:
            self.sockets[descriptor.strip("{}")] = target.with_text(socket.group(1))
        return socket is not None

    def _delivered(self, output: Value, streams: "_Streams") -> Value:
        """What is left for the next command of a pipe."""
        if streams.copy_to in self.sockets:
            self.tracker.send(output, self.sockets[streams.copy_to], Channel.SOCKET, self.at)
            return EMPTY
        if streams.target is None:
            return EMPTY if streams.copy_to == "2" else output
        if socket := _DEV_TCP.match(streams.target.text):
            self.tracker.send(output, streams.target.with_text(socket.group(1)), Channel.SOCKET, self.at)
        else:
            self.write(streams.target, output)
        return EMPTY


class _Streams(msgspec.Struct):
    stdin: Value
    target: Value | None = None
    copy_to: str = ""


def _on_line(node: Node, line: int) -> Node:
    """A string that is run has no lines of its own in the file."""
    if isinstance(node, Simple):
        return msgspec.structs.replace(node, line=line)
    if isinstance(node, Pipeline):
        return Pipeline([_on_line(command, line) for command in node.commands])
    return node
