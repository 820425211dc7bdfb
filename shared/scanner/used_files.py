"""What a skill runs or follows although its name does not say so: pictures, fonts and sounds, which are then read like
scripts, and pages, settings or sources of another language, in which then nothing is a comment."""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath

from shared.scanner.anchored import AnchoredPattern
from shared.scanner.media import MEDIA_SUFFIXES
from shared.scanner.syntax import language_of_file

NEAR = 160
NEAR_COPY = 1000
MAX_MENTIONS = 2000
_SUFFIXES = "|".join(sorted((*MEDIA_SUFFIXES, "pdf"), key=len, reverse=True))
MAX_NAME = 200
_NAME = re.compile(rf"[\w.+*?@~%-]{{0,{MAX_NAME}}}\.(?:{_SUFFIXES})\b", re.IGNORECASE)
_SUFFIX = re.compile(rf"\.(?:{_SUFFIXES})\b", re.IGNORECASE)
_LETTERS_OF_NAME = re.compile(r"[\w.+*?@~%-]{0,200}")
_SHELLS = r"(?:ba|z|da|k|a|fi|c|tc)?sh|pwsh|powershell|cmd"
_RUNNERS = rf"(?:{_SHELLS}|source|\.|exec|eval|command|nohup|sudo|env|python[\d.]*|pypy\d*|node|deno|bun|tsx|perl|ruby"
_RUNNERS += r"|php|lua|tclsh|osascript|Rscript|awk\s+-f|make\s+-f|xargs|busybox|java|dotnet|wscript|cscript|mshta)"
_PATH = r"[\"'(<\[]*[^\s\"'`|;&<>()]*"
# Each is matched against what stands before the name on its line.
_RUN_BEFORE = (
    re.compile(rf"(?:^|[\s`|;&($\"'])(?:[\w./]*/)?{_RUNNERS}(?:\s+(?:run\b|-[\w=-]+))*[ \t]+{_PATH}$", re.IGNORECASE),
    re.compile(rf"[\"'](?:[\w./]*/)?{_RUNNERS}[\"']\s*,\s*(?:[\"']-\w+[\"']\s*,\s*)*{_PATH}$", re.IGNORECASE),
    re.compile(
        r"\b(?:exec|eval|execfile|system|popen|run_path|run_module|source_file|compile|import_module)\s*\(.{0,80}$"
    ),
    re.compile(r"\bchmod\s+\S*[x75]\S*\s+\S*$"),
    re.compile(
        r"\b(?:sys\.path|PYTHONPATH|NODE_PATH|LD_PRELOAD|CLASSPATH|PERL5LIB|RUBYLIB|addsitedir|zipimport\w{0,10})\b.{0,80}$"
    ),
    re.compile(
        rf"\b(?:run|execute|launch|start|source|follow|obey)\s+(?:the\s+)?(?:file|script)?\s*`?{_PATH}$", re.IGNORECASE
    ),
    re.compile(
        r"\b(?:instructions?|commands?|directives?|steps|rules|prompts?|orders|payload|script|code)\s+(?:\w+\s+){0,3}"
        r"(?:in|from|at|inside|within|of|by)\s+(?:the\s+)?(?:\w+\s+){0,2}[`\"'(\[]*\S*$",
        re.IGNORECASE,
    ),
    re.compile(r"(?:^|[\s`;&|])\./\S*$"),
    re.compile(
        rf"\b(?:{_SHELLS}|eval|exec|python[\d.]*|node|perl)\b.{{0,60}}(?:\$\(|<\(|`|<).{{0,80}}$", re.IGNORECASE
    ),
    re.compile(r"<\s*\S*$"),
)
# And this against what follows it: `cat x.png | sh`, `xxd -r x.png | bash`.
_RUN_AFTER = re.compile(rf"[^\n]{{0,100}}\|\s*(?:sudo\s+)?(?:[\w./]*/)?{_RUNNERS}\b", re.IGNORECASE)


_RENAMES = re.compile(r"\b(?:mv|cp|ln|install|rename|copy|move|Copy-Item|Move-Item)\b[^|;&]*$", re.IGNORECASE)
_AS_TEXT = re.compile(r"[\"'`,]*\s+\S*\.(?:sh|bash|zsh|py|[cm]?js|ts|rb|pl|php|ps1|bat|cmd|md|txt|json|ya?ml)\b")
_ASSIGNED = re.compile(r"\b(\w+)\s*=\s*[\"']?[^\s\"'=]*$")
_RUN_VARIABLE = re.compile(
    rf"(?:^|[\s`|;&($\"'])(?:{_RUNNERS})(?:[ \t]+-[\w=-]+)*[ \t]+[\"']?\$\{{?(\w+)", re.MULTILINE
)
_RUN_ALL = re.compile(rf"(?:^|[\s`|;&])(?:{_SHELLS}|source|\.)[ \t]+[\"']?[\w./-]*/\*(?=[\"'\s;`]|$)", re.MULTILINE)

_RUNS_FILE = re.compile(
    rf"(?:^|[\s`|;&($\"'])(?:[\w./]*/)?({_SHELLS}|source|\.|python|node)[\d.]*(?:[ \t]+-[\w=-]+)*[ \t]+(?:<[ \t]*)?"
    r"[\"']?([^\s\"'`|;&<>()]{1,200})",
    re.MULTILINE | re.IGNORECASE,
)
# A shell that runs what is printed: `cut -c3- x.py | sh`, `eval "$(sed s/#// x.sh)"`.
_RUNS_OUTPUT = re.compile(
    rf"\|\s*(?:sudo\s+)?(?:[\w./]*/)?(?:{_SHELLS})\b|\b(?:eval|source|{_SHELLS})\b[^\n]{{0,20}}(?:\$\(|<\(|`)",
    re.IGNORECASE,
)
_LINES_THAT_RUN_FILES = AnchoredPattern("runs file", _RUNS_FILE)
_RUNS_PRINTED = AnchoredPattern("runs output", _RUNS_OUTPUT)
_FILE = re.compile(r"[\w.+@~%-]{1,200}\.\w{1,12}(?![\w/])")
_RUN_BY = {"python": "python", "node": "script"}


def files_run_as_commands(texts: Iterable[str]) -> set[str]:
    """The names of files that a program runs as another language than their names say, or a shell in parts."""
    return {name for text in texts for name in _run_as_commands(text.replace("\\\n", "  "))}


def _run_as_commands(text: str) -> Iterator[str]:
    for program, path in _RUNS_FILE.findall(_LINES_THAT_RUN_FILES.lines_of(text)):
        if "." in path[1:] and language_of_file(path, "") != _RUN_BY.get(program.lower(), "shell"):
            yield PurePosixPath(path).name.lower()
    for match in islice(_RUNS_PRINTED.finditer(text), MAX_MENTIONS):
        before, after = _around(text, match)
        line = before if match.group().startswith("|") else after.partition("\n")[0]
        yield from (name.lower() for name in _FILE.findall(line))


# Between two parts of a word, which languages join by a plus, a dot or nothing.
_JOINTS = re.compile(
    r"[\"'][ \t]{0,4}(?:\+|\.\.?|&)?[ \t]{0,4}\$?[\"'](?=[\w.])|(?<=[\w/.])[\"']{1,2}(?=[\w.])"
    r"|(?<=[\w/])\\\n?(?=[\w.])"
    r"|(?<=\w)[\"'](?=/)|(?<=/)[\"'](?=\w)"
)
_COPIED_TO = re.compile(r"[\"']?[ \t]{0,8}(?:>|of=|[ \t])[ \t]{0,8}(?:of=)?[\"']?([^\s\"'`|;&<>()]{1,200})")


_WORD_AFTER = r"(?:\./)?([^\s\"'`|;&<>()]{1,200})"
_RUN_BY_NAME = re.compile(rf"[\s`|;&($\"'](?:{_RUNNERS}|chmod\s+\S{{1,9}})[ \t]+[\"']?{_WORD_AFTER}")
_STARTED = re.compile(rf"[;&\n][ \t]*{_WORD_AFTER}")


def _runs(path: str, text: str) -> bool:
    """Whether the file that a picture was copied to is run soon after."""
    return path in _RUN_BY_NAME.findall(text) or path in _STARTED.findall(text)


class UsedFiles:
    """The file names with a media suffix in any text of a skill that is run or followed."""

    def __init__(self, texts: Iterable[str], media: Iterable[str]) -> None:
        self._media = {_last_word(path) for path in media}
        self._mentions = MAX_MENTIONS
        self._names = {name for text in texts for name in self._used_in_both(text)}

    def has(self, path: str) -> bool:
        """True for all when there are more mentions than can be looked at."""
        name = _last_word(path)
        return self._mentions <= 0 or name in self._names or any(fnmatchcase(name, glob) for glob in self._globs)

    @cached_property
    def _globs(self) -> list[str]:
        return [name for name in self._names if "*" in name or "?" in name][:50]

    def _used_in_both(self, text: str) -> Iterator[str]:
        """As it is written, and as programs put names together: `"a/logo".png`, `'logo' + '.png'`, `log\\o.png`."""
        yield from self._used_in(text.replace("\\\n", "  "))
        if (joined := _JOINTS.sub("", text)) != text:
            yield from self._used_in(joined)

    def _used_in(self, text: str) -> Iterator[str]:
        if _RUN_ALL.search(text):
            yield "*"
        run_variables: set[str] | None = None
        for match in _names_in(text):
            name = match.group().lower()
            if name not in self._media and "*" not in name and "?" not in name:
                continue
            self._mentions -= 1
            if self._mentions <= 0:
                return
            before, after = _around(text, match)
            if _is_run(before, after) or self._is_copy_run(text, match.end()):
                yield name
            elif assigned := _ASSIGNED.search(before):
                run_variables = set(_RUN_VARIABLE.findall(text)) if run_variables is None else run_variables
                if assigned[1] in run_variables:
                    yield name

    def _is_copy_run(self, text: str, at: int) -> bool:
        copy = _COPIED_TO.match(text, at)
        return copy is not None and _runs(copy[1].removeprefix("./"), text[copy.end() : copy.end() + NEAR_COPY])


def _names_in(text: str) -> Iterator[re.Match[str]]:
    """From the suffix back: a long text of letters has few of them, and any of its letters could begin a name."""
    end = 0
    for suffix in _SUFFIX.finditer(text):
        if suffix.start() >= end:
            before = text[max(end, suffix.start() - MAX_NAME) : suffix.start()][::-1]
            letters = _LETTERS_OF_NAME.match(before)
            if match := _NAME.match(text, suffix.start() - (letters.end() if letters else 0)):
                end = match.end()
                yield match


def _is_run(before: str, after: str) -> bool:
    if any(pattern.search(before) for pattern in _RUN_BEFORE) or _RUN_AFTER.match(after):
        return True
    return bool(_RENAMES.search(before) and _AS_TEXT.match(after))


def _last_word(path: str) -> str:
    return re.split(r"[^\w.+*?@~%-]", PurePosixPath(path).name.lower())[-1]


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    line_start = max(text.rfind("\n", max(0, match.start() - NEAR), match.start()) + 1, match.start() - NEAR, 0)
    return text[line_start : match.start()], text[match.end() : match.end() + NEAR]
