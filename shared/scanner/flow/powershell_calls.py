"""What cmdlets and .NET methods do with values: read, change, write, run, send."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.scanner.flow.powershell_tokens import PsGroup, PsItem, PsToken
from shared.scanner.flow.sinks import Channel
from shared.scanner.flow.sources import command_source
from shared.scanner.flow.values import EMPTY, HOLE, UNKNOWN, Value, constant, from_source, joined

if TYPE_CHECKING:
    from shared.scanner.flow.powershell import PowerShell

_SOCKET = "socket:"  # marks the value of a connected object; its address follows
_SWITCHES = frozenset(
    (
        *(
            "-usebasicparsing",
            "-raw",
            "-recurse",
            "-force",
            "-asplaintext",
            "-passthru",
            "-noprofile",
            "-append",
            "-wait",
        ),
        *("-compress", "-nonewline", "-quiet", "-hidden", "-verbose", "-asbytestream", "-asjob", "-useb", "-file"),
    )
)


class PsCall:
    """A cmdlet with its parameters, its words and what the pipe gives it."""

    def __init__(self, shell: PowerShell, name: str, items: list[PsItem], given: Value) -> None:
        self.shell = shell
        self.name = name
        self.given = given
        self.blocks = [item for item in items if isinstance(item, PsGroup) and item.opener == "{"]
        self.words: list[Value] = []
        self._options: dict[str, Value] = {}
        self._read(items)

    def _read(self, items: list[PsItem]) -> None:
        parameter = ""
        glue = False
        for item in items:
            if isinstance(item, PsToken) and item.kind == "parameter":
                parameter = "" if item.text.lower() in _SWITCHES else item.text.lower().strip("-:")
                self._options.setdefault(item.text.lower().strip("-:"), EMPTY)
            elif isinstance(item, PsToken) and item.kind == "mark":
                glue = True
            elif isinstance(item, PsToken) and item.kind == "word" and item.text.startswith("@"):
                self._splat(self.shell.lookup(item.text))
            else:
                value = self.shell.value(item)
                if parameter:
                    self._options[parameter] = value
                elif self.words and (glue or (item.glued and isinstance(item, PsToken))):
                    self.words[-1] = joined([self.words[-1], value], "" if item.glued else " ")
                else:
                    self.words.append(value)
                parameter = ""
                glue = False

    def _splat(self, table: Value) -> None:
        """`@name`: the entries of a table as parameters."""
        for line in table.text.split("\n")[:40]:
            name, found, text = line.partition(": ")
            if found:
                self._options[name.strip().lower()] = Value(text, table.origins if HOLE in text else ())

    def option(self, *names: str) -> Value | None:
        """By its name or a beginning of it, as PowerShell allows."""
        for name in names:
            wanted = name.strip("$").lower()
            for given, value in self._options.items():
                if given and (given == wanted or (len(given) > 2 and wanted.startswith(given))):
                    return value
        return None

    def argument(self, position: int, *names: str) -> Value | None:
        value = self.option(*names)
        return value if value is not None else self.words[position] if position < len(self.words) else None

    def read(self, path: Value) -> Value:
        return self.shell.tracker.read_file(path, self.shell.at)

    def send(self, content: Value, address: Value, channel: Channel = Channel.BODY) -> None:
        self.shell.tracker.send(content, address, channel, self.shell.at)


def _get_content(call: PsCall) -> Value:
    path = call.argument(0, "path", "literalpath")
    return call.read(path) if path is not None else call.read(call.given)


def _list_folder(call: PsCall) -> Value:
    path = call.argument(0, "path", "literalpath") or constant(".")
    if path.text.lower().startswith("env:"):
        return call.shell.environment()
    name = call.option("filter", "include")
    return joined([path, name], "/") if name is not None else path


def _request(call: PsCall) -> Value:
    address = call.argument(0, "uri") or UNKNOWN
    for name in ("body", "form"):
        if (body := call.option(name)) is not None:
            call.send(body, address)
    if (path := call.option("infile")) is not None:
        call.send(call.read(path), address)
    if (headers := call.option("headers")) is not None:
        for line in headers.text.split("\n")[:20]:
            call.send(Value(line, headers.origins if HOLE in line else ()), address, Channel.HEADER)
    call.send(call.given, address)
    call.send(EMPTY, address, Channel.ADDRESS)
    return UNKNOWN


def _passes(call: PsCall) -> Value:
    """Filters and conversions."""
    given = call.argument(0, "inputobject", "string") if call.given == EMPTY else call.given
    return Value(HOLE, given.origins) if given is not None and given.origins else given or UNKNOWN


def _for_each(call: PsCall) -> Value:
    outputs = [call.shell.run_block(block, call.given) for block in call.blocks[:4]]
    return joined(outputs) if outputs else Value(HOLE, call.given.origins)


def _filter(call: PsCall) -> Value:
    for block in call.blocks[:2]:
        call.shell.run_block(block, call.given)
    return call.given


def _write(call: PsCall) -> Value:
    path = call.argument(0, "path", "filepath", "literalpath") or UNKNOWN
    content = call.option("value") or (call.words[1] if len(call.words) > 1 else call.given)
    call.shell.tracker.write_file(path, content, call.shell.at)
    return EMPTY


def _copy(call: PsCall) -> Value:
    source, target = call.argument(0, "path", "literalpath"), call.argument(1, "destination", "destinationpath")
    if source is not None and target is not None:
        content = call.read(source)
        packed = content.through(call.shell.at.step("zip")) if "archive" in call.name and content.origins else content
        call.shell.tracker.write_file(target, packed, call.shell.at)
    return EMPTY


def _join_path(call: PsCall) -> Value:
    parts = [value for value in (call.argument(0, "path"), call.argument(1, "childpath")) if value is not None]
    return joined([*parts, *call.words[2:]], "/")


def _evaluate(call: PsCall) -> Value:
    return call.shell.run_string(call.argument(0, "command") or call.given)


def _new_object(call: PsCall) -> Value:
    kind = call.argument(0, "typename") or UNKNOWN
    if "tcpclient" in kind.text.lower() or "udpclient" in kind.text.lower():
        address = call.option("argumentlist") or (call.words[1] if len(call.words) > 1 else UNKNOWN)
        return constant(_SOCKET + (address.text.split() or [HOLE])[0])
    rest = call.option("argumentlist") or joined(call.words[1:])
    return rest if rest.text.startswith(_SOCKET) else Value(HOLE, rest.origins)


def _resolve(call: PsCall) -> Value:
    call.send(EMPTY, call.argument(0, "name") or UNKNOWN, Channel.HOST_NAME)
    return UNKNOWN


def _mail(call: PsCall) -> Value:
    parts = [value for name in ("body", "subject") if (value := call.option(name)) is not None]
    attached = call.option("attachments")
    content = joined([*parts, *([call.read(attached)] if attached is not None else [])])
    recipient = call.option("to") or UNKNOWN
    call.send(content, constant(recipient.text.rpartition("@")[2] or HOLE), Channel.POST)
    return EMPTY


def _upload(call: PsCall) -> Value:
    source, target = call.argument(0, "source"), call.argument(1, "destination")
    if source is not None and target is not None and "://" in target.text:
        call.send(call.read(source), target)
    return EMPTY


def _run_external(call: PsCall) -> Value:
    """Programs of the shell are followed there."""
    from shared.scanner.flow.shell import Shell

    words = [constant(call.name.removesuffix(".exe")), *call.words]
    return Shell(call.shell.path, call.shell.tracker).call_at(words, call.given, call.shell.at.line)


def _source(call: PsCall) -> Value:
    found = command_source([call.name, *(word.text for word in call.words)])
    return from_source(found, call.shell.at) if found else UNKNOWN


def _silent(call: PsCall) -> Value:
    return EMPTY


PsHandler = Callable[[PsCall], Value]


def _named(handler: PsHandler, names: str) -> dict[str, PsHandler]:
    return dict.fromkeys(names.split(), handler)


CMDLETS: dict[str, PsHandler] = {
    **_named(_get_content, "get-content gc cat type import-csv import-clixml"),
    **_named(_list_folder, "get-childitem gci dir ls get-item gi resolve-path convert-path"),
    **_named(_request, "invoke-webrequest iwr invoke-restmethod irm curl wget"),
    **_named(
        _passes,
        "convertto-json convertfrom-json out-string select-object select sort-object convertto-csv write-output",
    ),
    **_named(
        _passes,
        "echo format-list format-table select-string convertto-xml get-unique measure-object tee-object join-string",
    ),
    **_named(_for_each, "foreach-object foreach %"),
    **_named(_filter, "where-object where ?"),
    **_named(_write, "set-content sc out-file add-content ac export-csv export-clixml"),
    **_named(_copy, "copy-item cp copy move-item mv compress-archive"),
    **_named(_join_path, "join-path"),
    **_named(_evaluate, "invoke-expression iex"),
    **_named(_new_object, "new-object"),
    **_named(_resolve, "resolve-dnsname nslookup"),
    **_named(_mail, "send-mailmessage"),
    **_named(_upload, "start-bitstransfer"),
    **_named(_run_external, "curl.exe scp ssh git nc ncat aws gh"),
    **_named(_source, "get-clipboard get-history whoami hostname systeminfo ipconfig cmdkey get-computerinfo"),
    **_named(
        _silent, "write-host write-verbose start-sleep new-item test-path remove-item out-null import-module add-type"
    ),
}


def call_static(shell: PowerShell, type_name: str, method: str, arguments: list[Value]) -> Value | None:
    """`[Type]::Method(…)`; None for one that is not known."""
    name = type_name.removeprefix("system.")
    first = arguments[0] if arguments else EMPTY
    if name == "environment" and method == "getenvironmentvariables":
        return shell.environment()
    if name == "environment" and method.startswith("getenvironmentvariable"):
        return shell.tracker.variable(first.text, shell.at)
    if name == "environment" and method == "getfolderpath":
        return constant("~")
    if name == "io.file" and method.startswith("read"):
        return shell.tracker.read_file(first, shell.at)
    if name == "io.file" and method.startswith(("write", "append")) and len(arguments) > 1:
        shell.tracker.write_file(first, arguments[1], shell.at)
        return EMPTY
    if name == "io.path" and method == "combine":
        return joined(arguments, "/")
    if name == "convert" and method in ("tobase64string", "tohexstring"):
        return first.through(shell.at.step("base64")) if first.origins else UNKNOWN
    if name == "net.dns":
        shell.tracker.send(EMPTY, first, Channel.HOST_NAME, shell.at)
        return UNKNOWN
    if name.endswith("tcpclient") and method == "new":
        return constant(_SOCKET + first.text)
    return None


_KEEPS_TEXT = frozenset({"tostring", "trim", "getstream", "trimend", "trimstart"})


def call_method(shell: PowerShell, value: Value, method: str, arguments: list[Value]) -> Value:
    everything = joined([value, *arguments])
    if method.startswith(("upload", "postasync", "putasync")) and arguments:
        content = joined(arguments[1:])
        if method.startswith("uploadfile"):
            content = shell.tracker.read_file(arguments[-1], shell.at)
        shell.tracker.send(content, arguments[0], Channel.BODY, shell.at)
        return UNKNOWN
    if method.startswith(("download", "getstringasync", "getasync", "openread")) and arguments:
        shell.tracker.send(EMPTY, arguments[0], Channel.ADDRESS, shell.at)
        return UNKNOWN
    if value.text.startswith(_SOCKET) and method in ("write", "writeline", "send", "writeasync"):
        shell.tracker.send(
            joined(arguments), value.with_text(value.text.removeprefix(_SOCKET)), Channel.SOCKET, shell.at
        )
        return UNKNOWN
    if method in _KEEPS_TEXT:
        return value
    return Value(HOLE, everything.origins)
