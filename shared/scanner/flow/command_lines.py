"""Commands in files that are read line by line: Makefile, Dockerfile, units, settings, schedules, property lists."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple


class ListedCommand(NamedTuple):
    line: int
    text: str
    language: str = ""  # of syntax.LANGUAGES; empty for the shell


def as_command(words: list[str]) -> str:
    return " ".join(map(_quoted, words))


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w./:=@-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def whole(text: str) -> Iterator[ListedCommand]:
    """A script of the shell without a name that says so."""
    yield ListedCommand(1, text)


_MAKE_VARIABLE = re.compile(r"^(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*([:?!]?:?=)[ \t]*(.*)$")
_MAKE_SHELL = re.compile(r"\$\(shell (.*)\)\s*$|`([^`]*)`\s*$")
_MAKE_USE = re.compile(r"\$\(([A-Za-z_]\w*)\)|\{\{[ \t]{0,9}([A-Za-z_]\w*)[ \t]{0,9}\}\}")
_RULE_COMMAND = re.compile(r"^[\w.%/$() -]{1,200}::?[^=;#]{0,400};(.*)$")


def of_makefile(text: str) -> Iterator[ListedCommand]:
    """Recipes of make or just as one script, with the variables as variables of the shell."""
    lines = []
    continued = False
    for line in text.split("\n"):
        if continued or line.startswith(("\t", "  ")):
            lines.append(_of_make(line if continued else line.lstrip("\t @-")))
            continued = line.endswith("\\")
        elif match := _MAKE_VARIABLE.match(line):
            lines.append(_assignment(*match.groups()))
        else:
            rule = _RULE_COMMAND.match(line)
            lines.append(_of_make(rule[1].lstrip("\t @-")) if rule else "")
    yield ListedCommand(1, "\n".join(lines))


def _assignment(name: str, sign: str, value: str) -> str:
    shell = _MAKE_SHELL.match(value)
    if shell or sign.startswith("!"):
        return f"{name}=$({_of_make((shell[1] or shell[2] or '') if shell else value)})"
    return f'{name}="{_of_make(_unquoted(value))}"'


def _of_make(text: str) -> str:
    """make replaces its variables before the shell sees them, inside of single quotes too."""
    parts, at, quotes = [], 0, 0
    for match in _MAKE_USE.finditer(text):
        before = text[at : match.start()]
        quotes += before.count("'")
        name = match[1] or match[2]
        parts += [before, f"'\"${{{name}}}\"'" if quotes % 2 else f"${{{name}}}"]
        at = match.end()
    return "".join([*parts, text[at:]]).replace("$$", "$")


_SPACE = r"(?:[ \t]|\\\n)"
_INSTRUCTION = re.compile(
    rf"[ \t]*(?:ONBUILD{_SPACE}+)?(FROM|RUN|CMD|ENTRYPOINT|ENV|ARG|SHELL|HEALTHCHECK|COPY|ADD){_SPACE}+"
    rf"(?:--[a-z-]{{1,20}}(?:=\S{{1,200}})?{_SPACE}+){{0,8}}",
    re.IGNORECASE,
)
_HERE = re.compile(r"<<-?[\"']?([A-Za-z_]\w{0,40})[\"']?")
_HEALTH_COMMAND = re.compile(r"CMD\s+", re.IGNORECASE)
_SHELLS = ("sh", "bash", "ash", "dash", "zsh", "ksh")


def of_dockerfile(text: str) -> Iterator[ListedCommand]:
    """As one script, in which every instruction has the lines that it has in the file."""
    rows = text.split("\n")
    image = _Image()
    lines: list[str] = []
    while len(lines) < len(rows):
        start = len(lines)
        end = _end_of_instruction(rows, start)
        instruction = "\n".join(_continued(rows[start:end]))
        here = _HERE.search(instruction)
        body = _body(rows, end, here[1]) if here else []
        translated = image.translate(instruction, body).split("\n")[: end - start + len(body)]
        lines += translated + [""] * (end - start + len(body) - len(translated))
    yield ListedCommand(1, "\n".join(lines))


def _end_of_instruction(rows: list[str], start: int) -> int:
    at = start
    while at < len(rows) - 1 and (rows[at].rstrip().endswith("\\") or (at > start and _is_comment(rows[at]))):
        at += 1
    return at + 1


def _continued(rows: list[str]) -> list[str]:
    """Comments between the lines of an instruction are not a part of it."""
    return rows[:1] + ["\\" if _is_comment(row) else row for row in rows[1:]]


def _is_comment(row: str) -> bool:
    return row.lstrip().startswith("#")


def _body(rows: list[str], start: int, mark: str) -> list[str]:
    """The lines of a here-document, with the one that ends it; none where nothing does."""
    for at in range(start, len(rows)):
        if rows[at].strip() == mark:
            return rows[start : at + 1]
    return rows[start:]


class _Image:
    """What earlier instructions say about later ones."""

    def __init__(self) -> None:
        self._shell: list[str] = []  # other than one that reads as a shell does
        self._entry: list[str] = []

    def translate(self, instruction: str, body: list[str]) -> str:
        match = _INSTRUCTION.match(instruction)
        if match is None:
            return ""
        kind, rest = match[1].upper(), instruction[match.end() :]
        if kind in ("ENV", "ARG"):
            return "export " + rest
        if kind in ("COPY", "ADD"):
            return "\n".join([f"cat <<{_mark(body)} > {rest.split()[-1]}", *body]) if body and rest.split() else ""
        if kind == "HEALTHCHECK":
            rest = rest[health.end() :] if (health := _HEALTH_COMMAND.match(rest)) else ""
        return self._command(kind, rest, body)

    def _command(self, kind: str, rest: str, body: list[str]) -> str:
        words = _words(rest)
        if kind == "FROM":
            self._shell, self._entry = [], []
        elif kind == "SHELL" and words:
            self._shell = [] if words[0].rpartition("/")[2] in _SHELLS else words
        elif body:
            return _here_document(rest, body)
        elif words is not None:
            self._entry = words if kind == "ENTRYPOINT" else self._entry
            return as_command([*self._entry, *words] if kind == "CMD" else words)
        elif self._shell:
            return as_command([*self._shell, rest.replace("\\\n", " ")])
        else:
            return rest
        return ""


def _words(command: str) -> list[str] | None:
    """Docker also takes a list of words, which no shell sees."""
    try:
        words = json.loads(command.replace("\\\n", " ")) if command.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else None


def _mark(body: list[str]) -> str:
    return f"'{body[-1].strip()}'"


def _here_document(rest: str, body: list[str]) -> str:
    if not rest.startswith("<<"):
        return "\n".join([rest, *body])
    program = body[0][2:].split()[-1:] if body[0].startswith("#!") else []
    if program and program[0].rpartition("/")[2] not in _SHELLS:
        return "\n".join([f"{program[0]} <<{_mark(body)}", *body])
    return "\n".join(["", *body[:-1], ""])


_SETTING = re.compile(r"^[ \t]*([A-Za-z][\w.-]{0,60})[ \t]*=[ \t]*(.*)$")
_SETTING_KEYS = {
    *("exec", "execstart", "execstartpre", "execstartpost", "execstop", "execstoppost", "execreload"),
    *("execcondition", "commands", "commands_pre", "commands_post", "sshcommand", "fsmonitor", "pager"),
    *("editor", "askpass", "textconv", "clean", "smudge", "process", "helper", "script-shell"),
}
_UNIT_MARKS = "-@+!:|"


def of_settings(text: str) -> Iterator[ListedCommand]:
    """Units of systemd, entries of a desktop, git, npm, tox and supervisor: `key = command`, with what is indented."""
    rows = text.split("\n")
    at = 0
    while at < len(rows):
        match = _SETTING.match(rows[at])
        start, at = at, at + 1
        while at < len(rows) and match and (rows[at - 1].endswith("\\") or rows[at].startswith((" ", "\t"))):
            if _SETTING.match(rows[at]) and not rows[at - 1].endswith("\\"):
                break  # git indents its settings
            at += 1
        if match and (match[2].startswith(("!", '"!')) or _is_command_setting(match[1].lower())):
            value = _unquoted(match[2].strip()).lstrip(_UNIT_MARKS)
            yield ListedCommand(start + 1, "\n".join([value, *rows[start + 1 : at]]).replace("%h", "$HOME"))


def _is_command_setting(key: str) -> bool:
    return key in _SETTING_KEYS or key.endswith("command")


_FIELD = r"[\d*/,A-Za-z?#-]{1,40}"
_SCHEDULED = re.compile(rf"^[ \t]*(?:@[a-z]{{4,10}}|(?:{_FIELD}[ \t]+){{4}}{_FIELD})[ \t]+(.*)$")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w{0,80}[ \t]{0,9}=")
_USER = re.compile(r"(?:root|nobody|www-data|ubuntu|admin|daemon|\$USER)[ \t]+")


def of_crontab(text: str) -> Iterator[ListedCommand]:
    lines = []
    for line in text.split("\n"):
        match = _SCHEDULED.match(line)
        command = match[1] if match else line if _ASSIGNMENT.match(line) else ""
        user = _USER.match(command)
        lines.append(command[user.end() :] if user else command)
    yield ListedCommand(1, "\n".join(lines))


_PLIST_KEY = re.compile(r"<key>\s{0,9}Program(Arguments)?\s{0,9}</key>")
_PLIST_TEXT = re.compile(r"<string>([^<]{0,8000})</string>")


def of_property_list(text: str) -> Iterator[ListedCommand]:
    at = 0
    while match := _PLIST_KEY.search(text, at):
        end = text.find("</array>" if match[1] else "</string>", match.end())
        if end < 0:
            return
        at = end + len("</array>")
        words = [unescape(word) for word in _PLIST_TEXT.findall(text[match.end() : at + 1])]
        yield ListedCommand(text.count("\n", 0, match.start()) + 1, as_command(words))


_PROCESS = re.compile(r"^[\w-]{1,60}:[ \t]+(.*)$", re.MULTILINE)


def of_procfile(text: str) -> Iterator[ListedCommand]:
    for match in _PROCESS.finditer(text):
        yield ListedCommand(text.count("\n", 0, match.start()) + 1, match[1])


# A step of Jenkins: sh '…', sh(script: "…"), sh """…""".
_STEP = re.compile(
    r"\b(sh|bat|powershell|pwsh)\b[ \t]{0,9}\(?[ \t]{0,9}(?:[\w, :]{0,80}?script[ \t]{0,9}:[ \t]{0,9})?"
    r"(\"\"\"|'''|\"|')"
)


def of_pipeline(text: str) -> Iterator[ListedCommand]:
    at = 0
    while match := _STEP.search(text, at):
        end = text.find(match[2], match.end())
        if end < 0:
            return
        at = end + len(match[2])
        language = "powershell" if match[1] in ("powershell", "pwsh") else ""
        yield ListedCommand(text.count("\n", 0, match.end()) + 1, text[match.end() : end], language)


_RUN = re.compile(
    r"^([ \t]*)(?:-[ \t]+)?(?:run|script|command|cmd|entrypoint|entry|before_script|after_script|bash|\w{1,40}_script"
    r"|\w{1,40}Command)[ \t]*:[ \t]*([|>][-+\d]{0,2}[ \t]*$)?",
    re.MULTILINE,
)


def of_yaml_lines(text: str) -> Iterator[ListedCommand]:
    """What is no YAML, such as a template of it."""
    for match in _RUN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match.group(2) is None:
            end = text.find("\n", match.end())
            command = text[match.end() : len(text) if end < 0 else end].strip()
            yield ListedCommand(line, _unquoted(command))
        else:
            yield ListedCommand(line + 1, _block(text, match.end() + 1, len(match.group(1))))


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


_TOML = re.compile(
    r"[ \t]*[\w.\"-]{1,80}[ \t]*=[ \t]*(?:\{[^}\n]{0,200}?cmd[ \t]*=[ \t]*)?"
    r"(\"(?:[^\"\\\n]|\\.){1,2000}\"|'[^'\n]{1,2000}')"
)


def of_toml_lines(text: str) -> Iterator[ListedCommand]:
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("["):
            section = line.lower()
        elif ("script" in section or "task" in section or "hook" in section) and (match := _TOML.match(line)):
            yield ListedCommand(number, _unquoted(match.group(1)))
