"""Code that runs what only a run would name: the file that an interpreter is given, or the text that is evaluated, is
computed. Such code can reach every file of its skill, so none of them is merely shown: see used_files.py."""

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import PurePosixPath

from shared.scanner.command_regions import command_regions
from shared.scanner.context import (
    CODE,
    COMMAND,
    MARKDOWN,
    SHELL_FILES,
    MarkdownLayout,
    ScriptLayout,
    TextLayout,
    text_layout_for,
)
from shared.scanner.cues import LOADS_STARTER, STARTS_PROGRAMS
from shared.scanner.media import MEDIA_SUFFIXES
from shared.scanner.remote_commands import RUNNERS, base, last_name, runs_input, started_paths, unwrapped
from shared.scanner.shell_commands import HOLE, Command, CommandPipeline, logical_lines, parse
from shared.scanner.syntax import language_of_file, without_literals

_MEDIA = frozenset(MEDIA_SUFFIXES)
_COMPUTED = ("$", HOLE, "{}", "*", "?")
_ALTERNATIVES = re.compile(r"\{[^{}\s]{0,80},[^{}\s]{0,80}\}")  # which a shell writes out: `logo.{png,x}`
_VARIABLE = re.compile(r"\$\$?(?:\{(\w{1,80})(?::?[-=]([^}]{0,100}))?\}|(\w{1,80}))")
_LOOPED = re.compile(r"(?:^|[\s;])for[ \t]{1,8}(\w{1,80})[ \t]{1,8}in[ \t]{1,8}([^;\n]{1,400})", re.MULTILINE)
_SET = re.compile(r"(?:^|[\s;])(\w{1,80})=[\"']?([^\s\"';]{1,200})", re.MULTILINE)
_SHELL_SUFFIXES = frozenset({"", *MARKDOWN, *SHELL_FILES, ".txt", ".mk", ".ksh"}) - {".ps1", ".psm1", ".bat", ".cmd"}
_RUNS_FOUND = {"-exec", "-execdir", "-ok", "-okdir"}
_COPIES = {"cp", "mv", "ln", "install", "rename", "copy", "move", "copy-item", "move-item"}
_COPY_CALL = re.compile(
    r"\b(?:copy\w{0,12}|move|rename|replace|symlink|link)\w{0,8}\(\s{0,8}[\"'`]([^\"'`\n]{1,200})[\"'`]\s{0,8},\s{0,8}[\"'`]([^\"'`\n]{1,200})"
)
_INTERPRETER = (
    r"(?:[\w./]{0,40}/)?(?:(?:ba|z|da|k)?sh|pwsh|powershell|python[\d.]{0,4}|node|deno|bun|perl|ruby|php|lua|osascript)"
)
_GIVEN = r"\(\s{0,8}(?![\"'`)\s\d]|[rbuf][\"'])"  # something other than a literal, as the first argument
# Text that is evaluated, objects that are loaded with their code, programs whose command is computed.
_IN_CODE = re.compile(
    rf"(?<![.\w$])(?<!def )(?<!function )(?:exec|eval|execfile){_GIVEN}|\beval\(\s{{0,8}}f?[\"'`][^\n]{{0,100}}[{{+]"
    rf"|\bos\.(?:system|popen|exec[a-z]{{1,4}}|spawn[a-z]{{1,4}}|startfile){_GIVEN}"
    rf"|\b(?:execSync|execFile|execFileSync|spawnSync|spawn|fork|system|popen|shell_exec|passthru){_GIVEN}"
    r"|\bsubprocess\.\w{2,16}\(\s{0,8}(?![\"'\[)\s]|[rb][\"'])[^\n]{0,200}shell\s{0,4}=\s{0,4}True"
    rf"|\[\s{{0,8}}(?:[\"']{_INTERPRETER}[\"']|sys\.executable|process\.execPath)\s{{0,8}},\s{{0,8}}(?:[\"']-[a-ln-zA-Z]{{1,20}}[\"']\s{{0,8}},\s{{0,8}})?(?![\"'\s])(?![^\]\n]{{0,120}}\.(?:py|sh|js|mjs)\b)"
    rf"|[\[(]\s{{0,8}}[\"']{_INTERPRETER}[\"']\s{{0,8}}[\]),]\s{{0,8}}[^\n]{{0,80}}(?:input|stdin)\s{{0,4}}[=:]"
    rf"|[\"'`]{_INTERPRETER}(?:[ \t]-[\w-]{{1,20}})?[ \t](?:[\w.-]{{1,40}}/){{0,4}}(?:[\"']\s{{0,4}}\+|\$?\{{)"
    r"|\bnew Function\((?![\"']return this[\"']\))|(?<![.\w`\"'])Function\((?![\"']return this[\"']\))"
    r"|\bvm\.(?:run|Script|compile)|\brequire\(\s{0,8}(?![\"'`)\s])"
    r"|\b(?:marshal|pickle|dill|cloudpickle|joblib)\.loads?\b|\brunpy\.|SourceFileLoader|zipimport|\bload_source\b|\bMarshal\.load"
    r"|\b(?:instance|class|module)_eval\b|\beval[ \t]+(?:\$|substr|uncompress|decode|unpack|join|File|IO|Zlib)"
    r"|\b(?:iex|Invoke-Expression)[ \t]+[(\"']{0,2}\$|\[scriptblock\]::Create|Reflection\.Assembly\]::Load"
)
_SHOWN_THINGS = r"(?:pictures?|images?|photos?|screenshots?|icons?|logos?|fonts?|sounds?|recordings?|videos?)"
_PICTURES_OBEYED = re.compile(
    rf"\b{_SHOWN_THINGS}\b[^.\n]{{0,80}}\b(?:execute|run|obey|follow|carry out|do)\s+(?:exactly\s+)?"
    r"(?:what|whatever|everything"
    r"|the (?:instructions|commands|steps|code|text)|it says|them all)",
    re.IGNORECASE,
)
_ALL_OF_FOLDER = re.compile(
    r"\b(?:each|every|all|any)\b[^.\n]{0,60}\b(?:in|under|of|from)\s+(?:the\s+)?[`\"']?(?:\./)?([\w-]{1,60})/?[`\"']?[^.\n]{0,60}"
    r"\b(?:scripts?|run|execute|source|follow)\b",
    re.IGNORECASE,
)


class Variables:
    """What the variables of a script are set to or loop over, read in one pass."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _values(self) -> dict[str, set[str]]:
        values: dict[str, set[str]] = {}
        for pattern in (_LOOPED, _SET):
            for name, words in pattern.findall(self._text):
                values.setdefault(name, set()).update(words.split())
        return values

    @cached_property
    def _only_scripts(self) -> dict[str, bool]:
        return {name: all(map(_names_a_script, values)) for name, values in self._values.items()}

    def names_a_script(self, variable: re.Match[str]) -> bool:
        """Whether it can only be a name that no picture has. Its default counts too."""
        name, default = variable[1] or variable[3], variable[2]
        if default and not _names_a_script(default):
            return False
        return self._only_scripts.get(name, bool(default))


class SkillCode:
    """What the code of a skill runs: names that stand there, or any name at all."""

    def __init__(self, texts: Iterable[tuple[str, str]], media: Iterable[str]) -> None:
        self.runs_any = False
        media = list(media)
        self._media = {last_name(path): path for path in media}
        self._folders = {path.split("/")[-2].lower() for path in media if "/" in path}
        self._started: set[str] = set()
        self._written: set[str] = set()
        self._copies: list[tuple[str, str]] = []  # a picture, and the name it is copied to
        for path, text in texts:
            self._read(text_layout_for(path, text, text), PurePosixPath(path).suffix.lower() in _SHELL_SUFFIXES)

    @property
    def runs_made_text(self) -> bool:
        """Text that it computes, or puts into a file before it runs that."""
        return self.runs_any or not self._written.isdisjoint(self._started)

    def runs(self, path: str) -> bool:
        name = last_name(path)
        return (
            self.runs_any
            or name in self._started
            or any(of == name and copy in self._started for of, copy in self._copies)
        )

    def _read(self, layout: TextLayout, is_shell: bool) -> None:
        for region in command_regions(layout, ()) if is_shell else ():
            variables = Variables(region.text)
            for _, line in logical_lines(region.text):
                for pipeline in parse(line):
                    self._read_pipeline(pipeline, variables)
        code = _code_in(layout)
        self._copies += [(last_name(of), last_name(to)) for of, to in _COPY_CALL.findall(code)]
        instructed = isinstance(layout, MarkdownLayout) and self._instructs(layout.text)
        self.runs_any = self.runs_any or instructed or _IN_CODE.search(code) is not None

    def _instructs(self, text: str) -> bool:
        named = (match[1].lower() in self._folders for match in _ALL_OF_FOLDER.finditer(text))
        return _PICTURES_OBEYED.search(text) is not None or any(named)

    def _read_pipeline(self, pipeline: CommandPipeline, variables: Variables) -> None:
        is_fed = False  # by a file whose name is computed
        of: list[str] = []
        for stage in pipeline:
            command, through_xargs = unwrapped(stage)
            for inner in command.inner:
                self._read_pipeline(inner, variables)
            self._started |= set(map(last_name, started_paths(command)))
            self._written |= set(map(last_name, _copied_to(command)))
            of += self._pictures_in(command)
            self._copies += [(one, last_name(other)) for one in of for other in _copied_to(command)]
            if _runs_computed(command, variables, through_xargs) or (is_fed and runs_input(command)):
                self.runs_any = True
            is_fed = is_fed or any(_is_computed(word, variables) for word in (*command.words[1:], *command.reads))

    def _pictures_in(self, command: Command) -> list[str]:
        words = (*command.words[1:], *command.reads)
        return [name for word in words if (name := last_name(word.removeprefix("if="))) in self._media]


def _copied_to(command: Command) -> list[str]:
    words = command.words[1:]
    to = [*command.writes, *(word[3:] for word in words if word.startswith("of="))]
    is_copy, is_tee = base(command.name) in _COPIES, base(command.name) == "tee"
    return to + (words[-1:] if is_copy else words if is_tee else [])


def _code_in(layout: TextLayout) -> str:
    if isinstance(layout, MarkdownLayout):
        blocks = [layout.lines[first - 1 : last] for first, last, _ in layout.code_blocks()]
        return "\n".join(line for lines in blocks for line in lines)
    return "\n".join(layout.lines) if isinstance(layout, ScriptLayout) and layout.kinds in (CODE, COMMAND) else ""


def _runs_computed(command: Command, variables: Variables, through_xargs: bool) -> bool:
    name, words = base(command.name), command.words[1:]
    if name in RUNNERS and through_xargs:
        return True
    if name == "find" and (at := next((n for n, word in enumerate(words) if word in _RUNS_FOUND), -1)) >= 0:
        names = [words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-name", "-iname")]
        found = Command(words=words[at + 1 :])
        is_run = base(found.name) in RUNNERS or found.name == "{}" or base(found.name) == "chmod"
        return is_run and not (names and all(map(_names_a_script, names)))
    if name == "eval" or (name in RUNNERS and {"-c", "-e"} & set(words)):
        return any(
            (_VARIABLE.fullmatch(word) and _is_computed(word, variables)) or _IN_CODE.search(word) for word in words
        )
    if name not in RUNNERS and name != "chmod":  # a variable alone may be a prompt, or the name of a program
        return (
            command.name.startswith(("./", "~/", "../"))
            and "$" in command.name
            and _is_computed(command.name, variables)
        )
    return any(_is_computed(path, variables) for path in started_paths(command))


def _is_computed(word: str, variables: Variables) -> bool:
    if _ALTERNATIVES.search(word):
        return True
    if not any(mark in word for mark in _COMPUTED) or word in ("$@", "$*", "$?", "$!", "$0") or _names_a_script(word):
        return False
    variable = _VARIABLE.fullmatch(word)
    return variable is None or not variables.names_a_script(variable)


def _names_a_script(word: str) -> bool:
    """Its last part is a name that no picture has: `$DIR/setup.sh`, `*.py`, `~/.cargo/env`."""
    last = word.strip("\"'").rpartition("/")[2]
    if any(mark in last for mark in ("$", HOLE, "{")) or not last:
        return False
    suffix = last.rpartition(".")[2].lower() if "." in last[1:] else ""
    return suffix not in _MEDIA and not {"*", "?"} & set(suffix or last)


def starts_programs(path: str, text: str) -> bool:
    """Whether the code outside strings and comments can run a command. A list of dangerous commands cannot."""
    if path.lower().endswith(MARKDOWN) or not (STARTS_PROGRAMS.search(text) or LOADS_STARTER.search(text)):
        return False
    code = without_literals(text, language_of_file(path, text))
    return bool(STARTS_PROGRAMS.search(code) or LOADS_STARTER.search(text))
