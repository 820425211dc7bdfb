"""Notebooks: the code cells are one program, in sequence, with lines for the shell among those of Python."""

import json
import re
from collections.abc import Iterator
from typing import Any

from shared.scanner.flow.python import follow_python
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN, Value

MAX_CELLS = 500
_MAGIC_CELL = re.compile(r"\s*%%(\w{1,40})[^\n]*\n")
_SHELL_ESCAPE = re.compile(r"([ \t]*)(?:(\w[\w, \t]{0,80})=[ \t]*)?!{1,2}([^\n=][^\n]*)")
_OTHER_LINE = re.compile(r"([ \t]*)[%?][^\n]*")
_ASSIGNED = re.compile(r"^[ \t]*(\w+)[ \t]*=(?!=)", re.MULTILINE)
_PUT_IN = re.compile(r"\{(\w+)\}|\$(\w+)|\$\{(\w+)\}")
_LANGUAGES = {"bash": "shell", "sh": "shell", "script": "shell", "javascript": "script", "js": "script"}


def follow_notebook(script: Script, tracker: Tracker) -> Value:
    cells = list(_code_cells(script.text))
    assigned = {name for text, _ in cells for name in _ASSIGNED.findall(text)}
    for text, line in cells:
        magic = _MAGIC_CELL.match(text)
        language = _LANGUAGES.get(magic[1].lower()) if magic else None
        if magic and language:
            code = text[magic.end() :]
            tracker.interpret(Script(path=script.path, text=code, first_line=line + 1, language=language))
        else:
            follow_python(Script(path=script.path, text=as_python(text, assigned), first_line=line), tracker)
    return UNKNOWN


def _code_cells(notebook: str) -> Iterator[tuple[str, int]]:
    """The source of each code cell, and the line of the file on which it begins."""
    try:
        cells = json.loads(notebook)["cells"][:MAX_CELLS]
    except (ValueError, RecursionError, TypeError, KeyError):
        return
    at = 0
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source")
        lines = [line for line in source if isinstance(line, str)] if isinstance(source, list) else [source]
        text = "".join(line for line in lines if isinstance(line, str))
        at = max(notebook.find(json.dumps(_first(lines), ensure_ascii=False), at), at)
        if cell.get("cell_type") == "code":
            yield text, notebook.count("\n", 0, at) + 1


def _first(lines: list[Any]) -> Any:
    return lines[0] if lines else ""


def as_python(text: str, assigned: set[str]) -> str:
    """Lines for the shell become calls; what else only a notebook understands becomes nothing."""
    if "!" not in text and "%" not in text and "?" not in text:
        return text
    return "\n".join(_as_python(line, assigned) for line in text.split("\n"))


def _as_python(line: str, assigned: set[str]) -> str:
    shell = _SHELL_ESCAPE.fullmatch(line)
    if shell is not None:
        target = f"{shell[2].rstrip()} = " if shell[2] else ""
        return f"{shell[1]}{target}subprocess.getoutput({_command(shell[3], assigned)})"
    other = _OTHER_LINE.fullmatch(line)
    return f"{other[1]}pass" if other is not None else line


def _command(command: str, assigned: set[str]) -> str:
    """The command with the values of the notebook's own names; others belong to the shell."""
    parts, end = [], 0
    for match in _PUT_IN.finditer(command):
        name = match[1] or match[2] or match[3]
        if name in assigned:
            parts += [repr(command[end : match.start()]), f"str({name})"]
            end = match.end()
    return " + ".join([*parts, repr(command[end:])])
