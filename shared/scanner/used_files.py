"""Which pictures, fonts and sounds a skill runs, or tells the agent to follow: those are read like scripts."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from shared.scanner.media import MEDIA_SUFFIXES

NEAR = 160
_SUFFIXES = "|".join(sorted((*MEDIA_SUFFIXES, "pdf"), key=len, reverse=True))
_NAME = re.compile(rf"[\w.+*?@~%-]{{0,200}}\.(?:{_SUFFIXES})\b", re.IGNORECASE)
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


class UsedFiles:
    """The file names with a media suffix in any text of a skill that is run or followed."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._names = {name for text in texts for name in _used_in(text)}

    def has(self, path: str) -> bool:
        name = PurePosixPath(path).name.lower()
        match = _NAME.search(name)
        last_word = re.split(r"[^\w.+*?@~%-]", name)[-1]
        return bool(match) and (last_word in self._names or f"*{PurePosixPath(name).suffix}" in self._names)


def _used_in(text: str) -> Iterable[str]:
    for match in _NAME.finditer(text):
        line_start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - NEAR)
        before = text[line_start : match.start()]
        if any(pattern.search(before) for pattern in _RUN_BEFORE) or _RUN_AFTER.match(
            text[match.end() : match.end() + NEAR]
        ):
            yield match.group().lower()
