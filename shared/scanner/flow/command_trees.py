"""Commands in JSON, YAML and TOML: one walk over the tree, by the names of the keys.

A tree is a text, a list, or a mapping (a dict, or the pairs of one as a tuple).
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from shared.scanner.flow.command_lines import ListedCommand, as_command, of_toml_lines, of_yaml_lines
from shared.scanner.flow.sources import PIPELINE_SECRETS

MAX_NESTING = 40
MAX_YAML = 100_000
MAX_COMMENTED = 200_000
# Each text or list below such a key is a command, or a list of commands.
_KEYS = {
    *("run", "script", "scripts", "exec", "command", "commands", "cmd", "cmds", "bash", "sh", "shell", "pwsh"),
    *("powershell", "ps", "entrypoint", "entry", "sequence", "composite", "inlinescript", "before_install"),
    *("after_success", "after_failure", "before_deploy", "install", "before-all", "before-build"),
    *("apikeyhelper", "awsauthrefresh", "awscredentialexport", "otelheadershelper"),
}
_KEY_ENDINGS = ("command", "_script", "-script")  # postCreateCommand, build_script
_ONE_COMMAND = frozenset({"command", "cmd", "entrypoint", "entry", "exec", "test"})  # of which a list is the words
_MAP_WORDS = ("script", "task", "hook", "commands", "lint-staged")  # of names to commands
_PAIRS = (  # what is run, and what it is given
    *(("entrypoint", "command"), ("entrypoint", "args"), ("command", "args"), ("entry", "args"), ("cmd", "args")),
    *(("runtimeexecutable", "runtimeargs"), ("executable", "args"), ("program", "args")),
)
_VARIABLES = frozenset({"env", "environment", "variables"})
_LANGUAGES = {
    "pwsh": "powershell",
    "powershell": "powershell",
    "ps": "powershell",
    "python": "python",
    "node": "script",
}
_SHOWN = tuple(f'"{key}' for key in ("command", "scripts", "tasks", "hooks", "cmd", "run", "script", "exec", "program"))
_SHOWN += ('"bash', '"shell', 'Command"', 'Helper"', '"lint-staged')
_C_OPTION = re.compile(r"-[a-z]{0,4}c\Z")
_ASSIGNABLE = re.compile(r"[\w${}./:@ -]{1,300}\Z")
# A variable of a pipeline, or `toJSON(secrets)`: all its secrets at once.
_REFERENCE = re.compile(
    r"\$\{\{\s{0,5}(?:toJSON\(\s{0,5}(?=secrets\b)|(?:secrets|env|vars)\.)(\w{1,80})\s{0,5}\)?\s{0,5}\}\}"
)
# A string, closed or not, and the comments of JSON as editors write it.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?')
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[}\]])')


class _FoundCommand(NamedTuple):
    first: str  # as it is written: what says on which line it begins
    text: str
    language: str = ""


class _Line(str):
    """A text of YAML that knows on which line it begins."""

    __slots__ = ("line",)
    line: int


def may_hold_commands(text: str) -> bool:
    """A cheap look at JSON, most of which is data."""
    return any(key in text for key in _SHOWN)


def of_json(text: str) -> Iterator[ListedCommand]:
    yield from _located(commands_of_tree(_json(text)), text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(without_comments(text)) if len(text) <= MAX_COMMENTED else None
    except (ValueError, RecursionError):
        return None


def without_comments(text: str) -> str:
    """The lines stay."""
    text = _COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    return _LAST_COMMA.sub(lambda found: found[1] or "", text)


def of_toml(text: str) -> Iterator[ListedCommand]:
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        yield from of_toml_lines(text)
    else:
        yield from _located(commands_of_tree(tables), text)


def of_yaml(text: str) -> Iterator[ListedCommand]:
    documents = _yaml_documents(text) if len(text) <= MAX_YAML else None
    if documents is None:
        yield from of_yaml_lines(text)
        return
    for found in commands_of_tree(documents):
        yield ListedCommand(getattr(found.first, "line", 1), found.text, found.language)


def _located(commands: Iterable[_FoundCommand], text: str) -> Iterator[ListedCommand]:
    """With the line on which each begins, as far as it is written there without an escape."""
    at, line = 0, 1
    for command in commands:
        start = text.find(json.dumps(command.first)[1:60].split("\\")[0], at)
        if start > at:
            line += text.count("\n", at, start)
            at = start
        yield ListedCommand(line, command.text, command.language)


def commands_of_tree(node: Any, key: str = "", language: str = "", depth: int = 0) -> Iterator[_FoundCommand]:
    """`key`: under which the node stands, if it names commands."""
    if isinstance(node, str):
        if key and len(node) > 3:
            yield _FoundCommand(node, str(node), _LANGUAGES.get(key, language))
    elif depth > MAX_NESTING:
        return
    elif isinstance(node, list):
        if _is_one_command(node, key):
            yield _FoundCommand(node[0], _words_of(node), language)
        else:
            for item in node:
                yield from commands_of_tree(item, key, language, depth + 1)
    elif isinstance(node, dict | tuple):
        yield from _of_mapping(list(node.items() if isinstance(node, dict) else node), key, language, depth)


def _is_one_command(node: list[Any], key: str) -> bool:
    """The words of one. Texts with spaces in front are several commands."""
    is_words = bool(node) and isinstance(node[0], str) and " " not in node[0]
    return is_words and (key in _ONE_COMMAND or key.endswith("command"))


def _words_of(node: list[Any]) -> str:
    words = [str(word) for word in node if isinstance(word, str)]
    if words and words[0].lower() in ("cmd", "cmd-shell") and words[0].isupper():  # a health check of a container
        return words[1] if words[0] == "CMD-SHELL" and len(words) > 1 else as_command(words[1:])
    return as_command(words)


def _of_mapping(pairs: list[tuple[Any, Any]], key: str, language: str, depth: int) -> Iterator[_FoundCommand]:
    named = {name.lower(): value for name, value in pairs if isinstance(name, str)}
    language = _language_said(named, language)
    for name in sorted(_VARIABLES & named.keys()):
        yield from _variables(named[name])
    read: tuple[str, ...] = ()
    for what, given in _PAIRS:
        kinds = str | list if given == "command" else list
        if isinstance(named.get(what), str | list) and isinstance(named.get(given), kinds):
            read = (what, given)
            yield from _joined(named[what], named[given], language)
            break
    if not read and isinstance(args := named.get("args"), list) and args and _is_c_option(args[0]):
        yield _FoundCommand(args[0], "sh " + _words_of(args), language)  # the program is the image's
    for name, value in named.items():
        if name not in read:
            yield from commands_of_tree(value, _key_below(name, value, key), language, depth + 1)


def _key_below(name: str, value: Any, key: str) -> str:
    is_mapping = isinstance(value, dict | tuple)
    if any(word in name for word in _MAP_WORDS) and is_mapping:
        return "*"
    if name in _KEYS or name.endswith(_KEY_ENDINGS) or (name == "test" and key == "healthcheck"):
        return name
    if name == "healthcheck" and is_mapping:
        return name
    inherits = key == "*" or (key.endswith("command") and key != "command")
    return key if inherits and not is_mapping else ""


def _is_c_option(word: Any) -> bool:
    return isinstance(word, str) and _C_OPTION.match(word) is not None


def _joined(what: str | list[Any], given: str | list[Any], language: str) -> Iterator[_FoundCommand]:
    first = next((word for word in ([what] if isinstance(what, str) else what) if isinstance(word, str)), "")
    if first:
        parts = (str(part) if isinstance(part, str) else _words_of(part) for part in (what, given))
        yield _FoundCommand(first, " ".join(parts), language)


def _language_said(named: dict[str, Any], language: str) -> str:
    """By `shell: pwsh` of a step, or the action that runs a script."""
    if isinstance(shell := named.get("shell"), str):
        words = shell.split()
        return _LANGUAGES.get(words[0].lower(), "") if words else language
    action = named.get("uses")
    return "script" if isinstance(action, str) and "github-script@" in action else language


def _variables(node: Any) -> Iterator[_FoundCommand]:
    """Those that are set to another one, which may be a secret: `env: {A: ${{ secrets.B }}}`."""
    if isinstance(node, list):
        pairs = [item.partition("=")[::2] for item in node if isinstance(item, str)]
    else:
        pairs = list(node.items() if isinstance(node, dict) else node if isinstance(node, tuple) else ())
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, str) and "$" in value and name.isidentifier():
            plain = with_variables(value)
            if _ASSIGNABLE.match(plain):
                yield _FoundCommand(value, f'export {name}="{plain}"')


def with_variables(text: str) -> str:
    """The expressions of a pipeline as variables of the shell."""
    return _REFERENCE.sub(lambda found: f"${{{PIPELINE_SECRETS if found[1] == 'secrets' else found[1]}}}", text)


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
    if depth > MAX_NESTING:
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
