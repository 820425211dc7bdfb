"""Code from another machine that is run: piped into an interpreter, substituted into a command, or saved and started
later, whatever tool brings it.

An address that trusted.yaml lists excuses only a command that does nothing but download it and run it: what stands
between or beside the two could be anything.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec

from shared.scanner.anchored import AnchoredPattern
from shared.scanner.command_regions import Region, command_regions
from shared.scanner.context import CODE, Place
from shared.scanner.hosts import HostKind, find_host
from shared.scanner.matching import Deadline, Hit, TextFile, hit_at
from shared.scanner.pack import load_pack
from shared.scanner.remote_commands import (
    RUNNERS,
    base,
    built_addresses,
    cloned,
    is_plain_download,
    is_remote,
    last_name,
    mounts_home,
    package_addresses,
    passed_on,
    passes_on,
    runs_input,
    runs_words,
    saved_names,
    started_paths,
    unpacks,
    unwrapped,
    variables_in,
)
from shared.scanner.shell_commands import HOLE, Command, CommandPipeline, logical_lines, parse
from shared.scanner.trust import OTHER_SOURCE, is_listed, is_listed_repository, is_on_forge, is_trusted_command

PIPED, SAVED, PACKAGE, MOUNT = "RC-PIPE-SHELL", "RC-DOWNLOAD-RUN-LATER", "SC-REMOTE-PACKAGE", "PR-HOME-MOUNT"
BUILT = "SC-REMOTE-BUILD"
SIGNAL = "SIG-REMOTE-TOOL"
# A line worth reading as commands: something is piped, substituted, saved, copied or unpacked.
_WORTH = re.compile(
    r"[|`>]|\$\(|<\(|=\$|/dev/|clone|submodule|checkout|git\+|git@|github:|https?://|--git|-v\b|--volume|--mount|-outfile"
    r"|\bextension install|plugin|mcp add|\b(?:wget|scp|rsync|aria2c|iwr|copy|cp|npx|go run)\b|\s-[a-z]*o\b"
    r"|\bp?npm (?:i|install|add|exec|dlx|x|create|init)\b",
    re.IGNORECASE,
)
_REMOTE_WORD = re.compile(
    r"\b(?:curl|wget2?|aria2c|axel|iwr|irm|invoke-\w+|start-bits\w+|n(?:et)?c(?:at)?|socat|telnet|ssh|scp|rsync|dig|nslookup"
    r"|host|drill|whois|finger|[lts]?ftp|lynx|w3m|e?links|https?|xh|lwp-\w+|gsutil|rclone|s3cmd|mosquitto_sub|redis-cli"
    r"|smbclient|openssl|gh|glab|aws|az|gcloud|git|hg|svn|pip3?|pipx|uvx?|poetry|npm|npx|pnpm|yarn|bunx?|cargo|deno|go|gem"
    r"|docker|podman|nerdctl|ansible-\w+|kubectl|helm|nix|nix-env|asdf|mise|brew|code|claude)[ \t]|/dev/(?:tcp|udp)/",
    re.IGNORECASE,
)
_REMOTE_TOOL = AnchoredPattern("remote word", _REMOTE_WORD)
_RUN_WORD = re.compile(r"sh\b|cmd|iex|python|node|perl|ruby|php|eval|source|chmod|make|pip|npm|cd |[./$]", re.I)
_PROGRAM = re.compile(r"(?<![\w$])(\w{1,40})=[\"']?([\w./]{2,40})(?=[\"'\s;&]|\Z)")
_SCRIPT_BLOCK = "# /// script\n"
_DECLARED = re.compile(r"(?:git\+)?(?:https?|ssh)://[^\s\"'\],;]{4,300}")
MAX_DECLARED = 200  # lines of such a block
_STREAM = re.compile(r"/dev/fd/\d|&\d|COPROC")
_NOWHERE = {"", "null", "stdout", "stderr", "&1", "1", "2", "-"}
_PLACEHOLDER = re.compile(r"(?<=[/=:@{\"'.-])<[\w -]{1,60}>")
# What makes a known name another command, or sends a known address to another host, for the rest of the file.
_REDEFINES = re.compile(
    r"(?:^|[;&{\s])(?:function\s+)?(?:curl|wget|(?:ba|z|da|k)?sh|sudo|tee|gpg|tar)\s*\(\s*\)|\balias\s+(?:curl|wget|(?:ba|z)?sh|sudo)="
    r"|\b(?:https?|all|HTTPS?|ALL)_(?:proxy|PROXY)=|\.(?:curlrc|wgetrc)\b|/etc/hosts\b|\bhash\s+-p|\bLD_PRELOAD="
    r"|\bPATH=[\"']?(?:\.|/tmp|/var/tmp|\$\(?(?:PWD|pwd)|\$\{?(?:SKILL|SCRIPT|DIR|HERE)|assets|scripts|bin\b|\"?\$\(dirname)",
    re.MULTILINE,
)
_REDEFINITION = AnchoredPattern("redefines", _REDEFINES)

Lines = tuple[int, int, int]  # first, last, and the column in which a part of a line begins, or 0


class _Came(msgspec.Struct, frozen=True):
    """A file or folder from another machine, by its last name, and the lines of the command that brought it."""

    name: str
    lines: Lines
    is_folder: bool = False
    is_on_forge: bool = False  # where building what was cloned is how people install; starting a file of it is not


class CommandReader:
    """Reads the commands of one file in order, and remembers what they brought from other machines."""

    def __init__(self, redefines: bool = False) -> None:
        self.found: list[tuple[str, Lines]] = []  # rule and lines
        self.came: list[_Came] = []
        self.run: list[_Came] = []
        self.started: set[str] = set()
        self._redefines = redefines
        self._variables: set[str] = set()
        self._programs: dict[str, str] = {}  # by the variable that stands for one
        self._has_stream = False  # a descriptor of the shell from which another machine is read
        self._folder = ""
        self._line, self._lines = "", (1, 1, 0)
        self._unpacked: Lines | None = None

    def read(self, region: Region, reads_all: bool = False) -> None:
        """One region: a script, a block of code, or the text of a string."""
        self._unpacked, self._folder = None, ""
        text, number, counted = region.text, region.line, 0
        tools = [match.start() for match in _REMOTE_TOOL.finditer(text)]
        if not (tools or reads_all or self._is_waiting):
            return
        self._programs |= {name: program for name, program in _PROGRAM.findall(text) if base(program) in RUNNERS}
        for start, line in logical_lines(text):
            names_tool = bisect_left(tools, start) < bisect_left(tools, start + len(line))
            if names_tool or ((reads_all or self._is_waiting) and _RUN_WORD.search(line)):
                number, counted = number + text.count("\n", counted, start), start
                self._line, self._lines = line, (number, number + line.count("\n"), region.column)
                for pipeline in parse(_PLACEHOLDER.sub(lambda match: "_" * len(match.group()), line)):
                    self._read(pipeline)

    @property
    def _is_waiting(self) -> bool:
        """For something to be run."""
        return bool(self.came or self._variables or self._unpacked or self._has_stream)

    def _read(self, pipeline: CommandPipeline) -> bool:
        """Whether its output comes from another machine."""
        remote = False
        for stage in pipeline:
            command, through_xargs = unwrapped(self._named(stage))
            inner = sum(map(self._read, command.inner)) > 0  # each has to be read
            if self._runs_remote(command, remote, inner, through_xargs) and not self._is_trusted():
                self.found.append((PIPED, self._lines))
            if mounts_home(command):
                self.found.append((MOUNT, self._lines))
            if not all(map(_is_known, package_addresses(command))):
                self.found.append((PACKAGE, self._lines))
            given = passed_on(command)
            if not all(map(self._is_known_build, built_addresses(command))) or (
                given and not all(map(_is_known, package_addresses(given)))
            ):
                self.found.append((BUILT, self._lines))
            self._remember(command, remote, inner)
            prints_inner = inner and base(command.name) in ("", "echo", "printf", "cat")
            remote = is_remote(command) or prints_inner or (remote and passes_on(command))
        return remote

    def _named(self, command: Command) -> Command:
        """With the name of the program where a variable stands for it."""
        if not command.name.startswith("$"):
            return command
        name = next((self._programs[one] for one in variables_in(command.words[:1]) if one in self._programs), "")
        return msgspec.structs.replace(command, words=[name, *command.words[1:]]) if name else command

    def _runs_remote(self, command: Command, remote: bool, inner: bool, through_xargs: bool) -> bool:
        if remote and (runs_input(command) or (through_xargs and base(command.name) in RUNNERS)):
            return True
        given = variables_in([*command.words, *command.reads]) & self._variables
        if self._has_stream and base(command.name) in RUNNERS and any(map(_STREAM.search, given_files(command))):
            return True
        opens_socket = is_remote(command) and base(command.name) in RUNNERS
        if inner and command.name == f"{HOLE}`" and self._line.lstrip().startswith("`"):
            return True
        return opens_socket or (bool(inner or given) and runs_words(command))

    def _is_trusted(self) -> bool:
        entries = load_pack().trusted["installers"]
        return not self._redefines and is_trusted_command(self._line, entries) and is_plain_download(self._line)

    def _is_known_build(self, address: str) -> bool:
        """Manifests and charts come from where their projects publish them."""
        host = find_host(address) if address.startswith("https://") else None
        return (host is not None and (host.vouched or host.kind is HostKind.FORGE)) or _is_known(address)

    def _remember(self, command: Command, remote: bool, inner: bool) -> None:
        if inner:
            self._variables |= {word.partition("=")[0].rstrip("+") for word in command.assigned if HOLE in word}
        if inner and command.name in ("mapfile", "readarray", "read"):
            self._variables |= {word for word in command.words[1:] if word.isidentifier()}
        if (inner and command.name == f"{HOLE}<") or (command.name == "coproc" and _names_tool(command)):
            self._has_stream = True
        if command.name == "for" and variables_in(command.words[3:]) & self._variables:
            self._variables |= {*command.words[1:2]}
        if remote and command.loops and command.name == "read":
            self._variables |= {word for word in command.words[1:] if not word.startswith("-")}
        if (clone := cloned(command)) and not is_listed_repository(clone[0], load_pack().trusted["repositories"]):
            self.came.append(_Came(clone[1], self._lines, True, is_on_forge(clone[0])))
        if remote or is_remote(command):
            self._save(command)
        if unpacks(command) and not self._is_trusted() and (remote or self._is_about_saved(command)):
            self._unpacked = self._lines
        self._start(command)

    def _save(self, command: Command) -> None:
        names = [*command.writes, *(saved_names(command) if is_remote(command) else ())]
        if base(command.name) == "tee":
            names += [word for word in command.words[1:] if not word.startswith("-")]
        names = [last for name in names if (last := last_name(name)) not in _NOWHERE]
        if names and not self._is_trusted():
            self.came += [_Came(name, self._lines) for name in names]

    def _is_about_saved(self, command: Command) -> bool:
        names = {each.name for each in self.came}
        return any(last_name(word) in names for word in command.words[1:])

    def _start(self, command: Command) -> None:
        if command.name in ("cd", "pushd") and len(command.words) > 1:
            self._folder = command.words[1]
            return
        for path in started_paths(command):
            is_relative = not path.startswith(("/", "~", "$"))
            whole = f"{self._folder}/{path}" if self._folder and is_relative else path
            folders = {part.lower() for part in whole.split("/")[:-1]}
            self.started.add(last_name(path))
            is_built = last_name(path) in ("makefile", "setup") or base(command.name) == "chmod"
            self.run += [
                each
                for each in self.came
                if each.is_folder and each.name in folders and not (is_built and each.is_on_forge)
            ]
            if self._unpacked and (path.startswith(("./", "/tmp")) or (self._folder and is_relative)):  # noqa: S108 - read, never used
                self.run.append(_Came("", self._unpacked))


def _names_tool(command: Command) -> bool:
    return is_remote(msgspec.structs.replace(command, words=command.words[1:]))


def given_files(command: Command) -> list[str]:
    return [*command.words[1:], *command.reads]


def _is_known(address: str) -> bool:
    trusted = load_pack().trusted
    return is_listed_repository(address, trusted["repositories"]) or is_listed(address, trusted["installers"])


def find_remote_runs(files: Iterable[TextFile], hits: Iterable[Hit], deadline: Deadline) -> list[Hit]:
    """`hits` say which lines name a program that talks to other machines."""
    files = list(files)
    lines: dict[str, list[int]] = {}
    for hit in hits:
        if hit.rule.id == SIGNAL:
            lines.setdefault(hit.path, []).append(hit.line)
    worth = [file for file in files if file.path in lines and _is_worth_reading(file, lines[file.path])]
    is_diverted = bool(worth) and any(OTHER_SOURCE.search(file.original) for file in files)
    read = [(file, _reader_of(file, lines[file.path], is_diverted, deadline)) for file in worth]
    came = any(not each.is_folder for _, reader in read for each in reader.came)
    started = set().union(
        *(reader.started for _, reader in read), *(_started_in(file, deadline) for file in files if came)
    )
    found = [hit for file, reader in read for hit in _hits(file, reader, started)]
    return found + [hit for file in files for hit in _declared_packages(file)]


def _hits(file: TextFile, reader: CommandReader, started: set[str]) -> Iterator[Hit]:
    for rule, lines in dict.fromkeys(reader.found):
        yield hit_at(file, rule, *lines)
    later = [*reader.run, *(each for each in reader.came if not each.is_folder and each.name in started)]
    for lines in dict.fromkeys(each.lines for each in later):
        yield hit_at(file, SAVED, *lines)


def _declared_packages(file: TextFile) -> Iterator[Hit]:
    """What a comment of a Python script has its runner install (PEP 723): from an address, or another registry."""
    start = file.original.find(_SCRIPT_BLOCK)
    if start < 0:
        return
    registries = load_pack().trusted["registries"]
    first = file.original.count("\n", 0, start) + 1
    for number, line in enumerate(file.layout.original_lines[first : first + MAX_DECLARED], first + 1):
        if not line.startswith("#") or line.rstrip() == "# ///":
            return
        if not all(_is_known(found) or is_listed(found, registries) for found in _DECLARED.findall(line)):
            yield msgspec.structs.replace(hit_at(file, PACKAGE, number, number, 1), place=Place(CODE))


def _is_worth_reading(file: TextFile, numbers: list[int]) -> bool:
    lines = file.layout.lines
    return any(_WORTH.search("\n".join(lines[number - 1 : number + 3])) for number in numbers)


def _reader_of(file: TextFile, lines: list[int], is_diverted: bool, deadline: Deadline) -> CommandReader:
    reader = CommandReader(is_diverted or _REDEFINITION.search(file.original) is not None)
    for region in command_regions(file.layout, lines):
        deadline.check()
        reader.read(region)
    return reader


def _started_in(file: TextFile, deadline: Deadline) -> set[str]:
    reader = CommandReader()
    for region in command_regions(file.layout, ()):
        deadline.check()
        reader.read(region, reads_all=True)
    return reader.started
