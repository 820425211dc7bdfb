"""Files of a project that list commands: package.json, Makefile, pyproject.toml, Dockerfile, workflows, tasks."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from shared.scanner.flow.shell import Shell
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN, Value

MAX_COMMANDS = 200
MAX_NESTING = 12
MAX_YAML_NESTING = 40
_COMMAND_KEYS = frozenset({"command", "cmd", "run", "script", "exec", "bash", "shell", "oncreatecommand"})
_JSON_KEYS = ("command", "scripts", "tasks", "hooks", "cmd", "run", "script", "exec", "bash", "shell")
_COMMAND_MAPS = frozenset({"scripts", "tasks", "hooks", "commands"})
_SECRET = re.compile(r"\$\{\{\s{0,5}(?:secrets|env|vars)\.(\w{1,80})\s{0,5}\}\}")
_RUN = re.compile(
    r"^([ \t]*)(?:-[ \t]+)?(?:run|script|command|entrypoint|before_script|after_script)[ \t]*:[ \t]*"
    r"([|>][-+\d]{0,2}[ \t]*$)?",
    re.MULTILINE,
)
_TOML = re.compile(
    r"[ \t]*[\w.\"-]{1,80}[ \t]*=[ \t]*(?:\{[^}\n]{0,200}?cmd[ \t]*=[ \t]*)?"
    r"(\"(?:[^\"\\\n]|\\.){1,2000}\"|'[^'\n]{1,2000}')"
)
_MAKE_VARIABLE = re.compile(r"^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*(.*)$")
_MAKE_SHELL = re.compile(r"\$\(shell (.*)\)\s*$")
_MAKE_USE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_DOCKER = re.compile(r"^[ \t]*(RUN|CMD|ENTRYPOINT|ENV|ARG)[ \t]+(?:--[a-z-]{1,20}=\S{1,200}[ \t]+){0,8}", re.IGNORECASE)
MAX_YAML = 100_000
_YAML_KEYS = frozenset(
    {"run", "script", "before_script", "after_script", "command", "commands", "cmd", "cmds", "entrypoint", "entry"}
)
_ONE_COMMAND = frozenset({"command", "cmd", "entrypoint", "entry"})  # of which a list is one, with its arguments
_TOML_TABLES = ("script", "task", "hook")

CommandLine = tuple[int, str]  # line, text


def is_project_file(path: str, text: str) -> bool:
    reader = _reader_of(path)
    return reader is not None and (reader is not _of_json or any(f'"{key}' in text for key in _JSON_KEYS))


def follow_project_file(script: Script, tracker: Tracker) -> Value:
    reader = _reader_of(script.path)
    shell = Shell(script.path, tracker)
    for count, (line, command) in enumerate(reader(script.text) if reader else ()):
        if count >= MAX_COMMANDS:
            break
        shell.run_text(_SECRET.sub(r"${\1}", command), line)
    return UNKNOWN


def _reader_of(path: str) -> Any:
    name = PurePosixPath(path.lower()).name
    if name.endswith((".json", ".jsonc")):
        return _of_json
    if name.endswith((".yml", ".yaml")):
        return _of_yaml
    if name in ("makefile", "gnumakefile") or name.endswith(".mk"):
        return _of_makefile
    if name.startswith("dockerfile") or name.endswith(".dockerfile"):
        return _of_dockerfile
    return _of_toml if name.endswith(".toml") else None


def _of_json(text: str) -> Iterator[CommandLine]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _located(_commands_in(document, 0, False), text)


def _located(commands: Iterable[str], text: str) -> Iterator[CommandLine]:
    """With the line on which each begins, as far as it is written there without an escape."""
    at = 0
    for command in commands:
        at = max(at, text.find(json.dumps(command)[1:60].split("\\")[0], at))
        yield text.count("\n", 0, at) + 1, command


def _commands_in(node: Any, depth: int, named: bool) -> Iterator[str]:
    if isinstance(node, str):
        yield from [node] if named and len(node) > 3 else []
    elif depth > MAX_NESTING:
        return
    elif isinstance(node, list):
        for item in node:
            yield from _commands_in(item, depth + 1, named)
    elif isinstance(node, dict):
        if isinstance(node.get("command"), str) and isinstance(node.get("args"), list):
            yield " ".join([node["command"], _as_command(node["args"])])
            return
        for key, value in node.items():
            is_map = key.lower() in _COMMAND_MAPS and isinstance(value, dict)
            yield from _commands_in(
                value, depth + 1, key.lower() in _COMMAND_KEYS or is_map or (named and isinstance(value, str))
            )


def _as_command(words: list[Any]) -> str:
    return " ".join(_quoted(word) for word in words if isinstance(word, str))


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w./:=@-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _of_yaml(text: str) -> Iterator[CommandLine]:
    documents = _yaml_documents(text) if len(text) <= MAX_YAML else None
    if documents is None:
        yield from _yaml_by_patterns(text)
    else:
        yield from _commands_of_yaml(documents, "")


class _Line(str):
    """A text of YAML that knows on which line it begins."""

    __slots__ = ("line",)
    line: int


_END = object()


def _yaml_documents(text: str) -> list[Any] | None:
    """None: it is no YAML, or nested deeper than a list of commands is. Only its events are read: no object is made."""
    import yaml  # not before a skill has such a file

    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return list(iter(partial(_next_node, events, 0), _END))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _next_node(events: Iterator[Any], depth: int) -> Any:
    """A text, the items of a list, or of a mapping the pairs as tuples; _END where these end. Aliases are nothing."""
    if depth > MAX_YAML_NESTING:
        raise RecursionError
    for event in events:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            found = _Line(event.value)
            found.line = event.start_mark.line + (2 if event.style in ("|", ">") else 1)
            return found
        if kind == "AliasEvent":
            return None
        if kind == "SequenceStartEvent":
            return list(iter(partial(_next_node, events, depth + 1), _END))
        if kind == "MappingStartEvent":
            nodes = list(iter(partial(_next_node, events, depth + 1), _END))
            return tuple(zip(nodes[::2], nodes[1::2], strict=False))
        if kind in ("SequenceEndEvent", "MappingEndEvent"):
            return _END
    return _END


def _commands_of_yaml(node: Any, key: str) -> Iterator[CommandLine]:
    if isinstance(node, _Line):
        yield from [(node.line, str(node))] if key else []
    elif isinstance(node, list):
        if key in _ONE_COMMAND and node and isinstance(node[0], _Line):
            yield node[0].line, _as_command(node)
        else:
            for item in node:
                yield from _commands_of_yaml(item, key)
    elif isinstance(node, tuple):
        for name, value in node:
            named = isinstance(name, str) and name.lower() in _YAML_KEYS
            yield from _commands_of_yaml(value, name.lower() if named else "")


def _yaml_by_patterns(text: str) -> Iterator[CommandLine]:
    for match in _RUN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match.group(2) is None:
            end = text.find("\n", match.end())
            command = text[match.end() : len(text) if end < 0 else end].strip()
            yield line, _unquoted(command)
        else:
            yield line + 1, _block(text, match.end() + 1, len(match.group(1)))


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _block(text: str, start: int, indent: int) -> str:
    """The lines that are indented deeper than the key."""
    lines = []
    at = start
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        lines.append(line)
        at = end + 1
    return "\n".join(lines)


def _of_makefile(text: str) -> Iterator[CommandLine]:
    """Recipes as one script, with the variables of make as variables of the shell."""
    lines = []
    continued = False
    for line in text.split("\n"):
        if line.startswith("\t") or continued:
            lines.append(_of_make(line if continued else line.lstrip("\t @-")))
            continued = line.endswith("\\")
        elif match := _MAKE_VARIABLE.match(line):
            name, value = match.groups()
            shell = _MAKE_SHELL.match(value)
            lines.append(f"{name}=$({_of_make(shell.group(1))})" if shell else f'{name}="{_of_make(value)}"')
        else:
            lines.append("")
    yield 1, "\n".join(lines)


def _of_make(text: str) -> str:
    """make replaces its variables before the shell sees them, inside of single quotes too."""
    parts, at = [], 0
    for match in _MAKE_USE.finditer(text):
        parts.append(text[at : match.start()])
        is_quoted = text.count("'", 0, match.start()) % 2 == 1
        parts.append(f"'\"${{{match.group(1)}}}\"'" if is_quoted else f"${{{match.group(1)}}}")
        at = match.end()
    return "".join([*parts, text[at:]]).replace("$$", "$")


def _of_dockerfile(text: str) -> Iterator[CommandLine]:
    lines = []
    continued = False
    for line in text.split("\n"):
        match = None if continued else _DOCKER.match(line)
        if match and match.group(1).upper() in ("ENV", "ARG"):
            lines.append("export " + line[match.end() :])
        elif match:
            lines.append(_in_shell(line[match.end() :]))
        else:
            lines.append(line if continued else "")
        continued = (match is not None or continued) and line.rstrip().endswith("\\")
    yield 1, "\n".join(lines)


def _in_shell(command: str) -> str:
    """Docker also takes a list of words, which no shell sees."""
    try:
        words = json.loads(command) if command.startswith("[") else None
    except (ValueError, RecursionError):
        return command
    return _as_command(words) if isinstance(words, list) else command


def _of_toml(text: str) -> Iterator[CommandLine]:
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        yield from _toml_by_patterns(text)
    else:
        yield from _located(_commands_of_toml(tables, 0, False), text)


def _commands_of_toml(node: Any, depth: int, named: bool) -> Iterator[str]:
    """All texts below a table that is named after tasks. A list in `cmd` is one command, any other is several."""
    if isinstance(node, str):
        yield from [node] if named else []
    elif depth > MAX_NESTING:
        return
    elif isinstance(node, list):
        for item in node:
            yield from _commands_of_toml(item, depth + 1, named)
    elif isinstance(node, dict):
        for key, value in node.items():
            if named and key == "cmd" and isinstance(value, list):
                yield _as_command(value)
            else:
                is_table = isinstance(value, dict | list) and any(word in key.lower() for word in _TOML_TABLES)
                yield from _commands_of_toml(value, depth + 1, named or is_table)


def _toml_by_patterns(text: str) -> Iterator[CommandLine]:
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("["):
            section = line.lower()
        elif ("script" in section or "task" in section or "hook" in section) and (match := _TOML.match(line)):
            yield number, _unquoted(match.group(1))
