"""Scripts that SKILL.md has run and the skill does not ship: what will run is decided later, by another."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from shared.scanner.anchored import AnchoredPattern

PROGRAM = r"(?:sh|bash|zsh|py|js|mjs|cjs|ts|rb|pl|ps1|bat|cmd)"
PROGRAM_NAME = re.compile(rf"\.{PROGRAM}\Z")
_RUNS = re.compile(
    rf"(?<![\w./-])(?:python3?|bash|sh|zsh|node|source|bun|tsx|ruby|perl|pwsh|uv run|uv run python|chmod \+x)[ \t]+"
    rf"[\"']?([\w${{}}~./-]{{1,150}}\.{PROGRAM})\b|(?:^|[`\s;&|(])\./([\w./-]{{1,150}}\.{PROGRAM})\b",
    re.MULTILINE,
)
NAMED = re.compile(rf"[\w.-]{{1,150}}\.{PROGRAM}\b")
NEAR = 200
RUNS = AnchoredPattern("runs script", _RUNS)
# The folder of the skill itself, as pages write it.
OWN_FOLDER = re.compile(
    r"(?:\{baseDir\}|\$\{?[A-Z_]{0,20}(?:SKILL|PLUGIN)[A-Z_]{0,20}\}?|(?:(?:~|\.)/[\w/.-]{0,60})?skills/[\w.-]{1,60})/"
)
SHIPS = re.compile(
    r"\b(?:bundled|companion|included|accompanying|shipped|ships|comes with|provided|packaged|alongside)\b[^\n.]{0,60}"
    r"\bscripts?\b|\bscripts?\b[^\n.]{0,60}\b(?:bundled|included|shipped|ships|provided|alongside|comes) ",
    re.IGNORECASE,
)
MAKES = re.compile(
    r"\b(?:create|write|save|generate|download|copy|curl|wget|add|put|clone|touch|make)\w{0,3}\b|>|-o\b", re.IGNORECASE
)


class MissingScript(NamedTuple):
    name: str
    line: int
    is_promised: bool  # the page says that it comes with the skill, which has no script at all

    @property
    def rule(self) -> str:
        return "SC-SCRIPT-PROMISED" if self.is_promised else "SC-SCRIPT-MISSING"


def find_missing_on_pages(
    pages: Iterable[tuple[str, str]], paths: Collection[str]
) -> Iterator[tuple[str, MissingScript]]:
    """On SKILL.md and the pages that it leads to, each of which may make what a later one runs."""
    before: list[str] = []
    for path, text in pages:
        yield from ((path, one) for one in find_missing_scripts(text, paths, before))
        before.append(text)


def find_missing_scripts(page: str, paths: Collection[str], before: Sequence[str] = ()) -> list[MissingScript]:
    """`paths`: of all files of the skill. `before`: the pages that lead to this one, which may make what it runs."""
    if "." not in page or not (found := list(RUNS.finditer(page))):
        return []
    shipped = {PurePosixPath(path).name.lower() for path in paths}
    has_scripts = any(PROGRAM_NAME.search(name) for name in shipped)
    promised = not before and not has_scripts and SHIPS.search(page) is not None
    made_at: dict[str, int] | None = None
    missing: dict[str, MissingScript] = {}
    line, counted = 1, 0
    for match in found:
        written = match.group(1) or match.group(2)
        name = PurePosixPath(written).name
        is_own = bool(OWN_FOLDER.match(written)) or written.removeprefix("./").startswith("scripts/")
        if name in missing or name.lower() in shipped or not (is_own or promised):
            continue
        if any(name in text and name in _made_at(text) for text in before):
            continue
        made_at = _made_at(page) if made_at is None else made_at
        if made_at.get(name, len(page)) < match.start():
            continue
        at = match.start(1 if match.group(1) else 2)
        line, counted = line + page.count("\n", counted, at), at
        missing[name] = MissingScript(name, line, promised)
    return list(missing.values())


def _made_at(page: str) -> dict[str, int]:
    """Where a line first creates or downloads a file, by its name."""
    made: dict[str, int] = {}
    for match in NAMED.finditer(page):
        before = page[max(0, match.start() - NEAR) : match.start()].rpartition("\n")[2]
        if match.group() not in made and MAKES.search(before):
            made[match.group()] = match.start()
    return made
