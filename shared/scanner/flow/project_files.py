"""Files of a project that hold commands: manifests, build, task, CI and container files, settings, units, schedules.

One table says which reader a name has. `command_trees.py` reads what is a tree (JSON, YAML, TOML), `command_lines.py`
what is lines. What a reader yields is followed as one session of the shell, or in the language that the file names.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import PurePosixPath

from shared.scanner.flow.command_lines import (
    ListedCommand,
    of_crontab,
    of_dockerfile,
    of_makefile,
    of_pipeline,
    of_procfile,
    of_property_list,
    of_settings,
    whole,
)
from shared.scanner.flow.command_trees import may_hold_commands, of_json, of_toml, of_yaml, with_variables
from shared.scanner.flow.shell import Shell
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN, Value

MAX_COMMANDS = 200
Reader = Callable[[str], Iterator[ListedCommand]]
_NAMES: tuple[tuple[Reader, str], ...] = (
    (of_makefile, "makefile gnumakefile justfile .justfile"),
    (of_dockerfile, "dockerfile containerfile"),
    (of_toml, "pipfile"),
    (of_procfile, "procfile"),
    (of_pipeline, "jenkinsfile"),
    (of_crontab, "crontab"),
    (of_settings, ".gitconfig .npmrc .hgrc .gitmodules gitconfig"),
    (whole, ".envrc .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin"),
)
_SUFFIXES: tuple[tuple[Reader, str], ...] = (
    (of_json, ".json .jsonc .code-workspace"),
    (of_yaml, ".yml .yaml"),
    (of_toml, ".toml"),
    (of_makefile, ".mk .just"),
    (of_dockerfile, ".dockerfile .containerfile"),
    (of_settings, ".service .timer .path .socket .desktop .ini .cfg .conf"),
    (of_property_list, ".plist"),
    (of_crontab, ".cron .crontab"),
)
_FOLDERS: dict[str, Reader] = {"cron.d": of_crontab, ".husky": whole, ".githooks": whole}
_READERS = {name: reader for reader, names in (*_NAMES, *_SUFFIXES) for name in names.split()}


def is_project_file(path: str, text: str) -> bool:
    reader = _reader_of(path)
    return reader is not None and (reader is not of_json or may_hold_commands(text))


def follow_project_file(script: Script, tracker: Tracker) -> Value:
    reader = _reader_of(script.path)
    shell = Shell(script.path, tracker)
    for command in islice(reader(script.text) if reader else (), MAX_COMMANDS):
        text = with_variables(command.text)
        if command.language:
            program = Script(path=script.path, text=text, first_line=command.line, language=command.language)
            tracker.interpret(program)
        else:
            shell.run_text(text, command.line)
    return UNKNOWN


def _reader_of(path: str) -> Reader | None:
    file = PurePosixPath(path.lower())
    reader = _READERS.get(file.name) or _READERS.get(file.suffix)
    if reader is None and file.name.startswith(("dockerfile.", "containerfile.")):
        return of_dockerfile
    return reader or (_FOLDERS.get(file.parent.name) if not file.suffix else None)
