"""A cheap look before anything is parsed: without a word for a source and a word for a sink nothing flows.

Only code is looked at: of a page its fenced blocks and the commands between backticks. Prose about tokens and addresses
is no reason to parse anything. Words are searched in lower case, with spaces for the marks that end a word in a shell.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath

from shared.scanner.anchored import AnchorWords
from shared.scanner.hosts import NOBODY, HostKind, SkillIdentity, find_host

_ALL_VARIABLES = re.compile(r"\b(?:os\.environ|process\.env)\b(?!\s{0,3}(?:[\[.?]))|environ\.(?:items|copy|values)")
_UNRESOLVED = re.compile(r"https?://(?=[\s\"'`{$%+(]|\Z)")
_ADDRESS = re.compile(r"https?://[^\s\"'`<>|)\]},;*\\]{4,200}")  # begins with a literal, so it is fast
_FENCED = re.compile(r"^[ \t>*+\-\d.)]{0,20}(?:`{3,}|~{3,})", re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]{8,600}`")
_SENDERS = ("curl", "wget", "nc ", "ncat", "/dev/tcp", "scp ", "rsync ", "dig ", "nslookup", "mail ", "git push", "gh ")
_MARKS = bytes.maketrans(b"\n\t|();&\"'`<>", b" " * 12)
_SINKS, _SINKS_AS_WRITTEN, _SOURCES, _SOURCES_AS_WRITTEN = map(
    AnchorWords, ("sinks", "sinks as written", "sources", "sources as written")
)
_SECRET_NAMES, _VALUABLE, _DUMPS, _NAMELESS = map(AnchorWords, ("secret names", "valuable", "dumps", "nameless sinks"))
MAX_LOOKED_AT = 50
PAGES = (".md", ".mdx", ".markdown", ".mdc")


def sends(line: str) -> bool:
    return has_any(_SENDERS, line)


def files_to_follow(
    shipped: Mapping[str, str], skill: SkillIdentity = NOBODY, settings: Sequence[str] = ()
) -> set[str]:
    """The files in which something that can be theft may begin, pass or end.

    Programs are one group, since they import and run each other and read the addresses in `settings`. A page is
    followed for what it says itself, or because it runs one of the programs.
    """
    programs = {path: SearchedCode(text) for path, text in shipped.items() if not _is_page(path)}
    pages = {path: SearchedCode(code_of_page(text)) for path, text in shipped.items() if _is_page(path)}
    named = {path for path, code in programs.items() if code.may_send or code.names_source}
    stems = {PurePosixPath(path).stem.lower() for path in named}
    followed = {path for path, code in pages.items() if _may_steal([code], skill)}
    callers = {path for path, code in pages.items() if path not in followed and code.names(stems)}
    group = [*(programs[path] for path in named), *(pages[path] for path in callers)]
    if not _may_steal(group, skill, settings):
        return followed
    others = {path for path, code in programs.items() if path not in named and code.names(stems)}
    return followed | named | callers | others


def _is_page(path: str) -> bool:
    return path.lower().endswith(PAGES)


def _may_steal(group: list["SearchedCode"], skill: SkillIdentity, settings: Sequence[str] = ()) -> bool:
    """It names a source and a sink, and something that must go nowhere or a host that nothing vouches for."""
    if not any(code.may_send for code in group) or not any(code.names_source for code in group):
        return False
    if any(code.is_valuable for code in group) or any(code.may_reach_stranger(skill) for code in group):
        return True
    return any(SearchedCode(text).may_reach_stranger(skill) for text in settings[:MAX_LOOKED_AT])


class SearchedCode:
    """Text in the three forms in which words are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lowered = f"\n{text}\n".lower()
        self._lowered = self.lowered.encode("utf-8", "surrogatepass")
        self._words = self._lowered.translate(_MARKS)

    def names(self, stems: Collection[str]) -> bool:
        """It imports or runs one of the files; with too many to look at, it may."""
        return len(stems) > MAX_LOOKED_AT or any(stem in self.lowered for stem in stems)

    @cached_property
    def may_send(self) -> bool:
        return _SINKS.any_in(self._words) or _SINKS_AS_WRITTEN.any_in(self._lowered)

    @cached_property
    def names_source(self) -> bool:
        if _SECRET_NAMES.any_in(self.text.encode("utf-8", "surrogatepass")) or _SOURCES.any_in(self._words):
            return True
        return _SOURCES_AS_WRITTEN.any_in(self._lowered)

    @cached_property
    def is_valuable(self) -> bool:
        if _VALUABLE.any_in(self._words) or _DUMPS.any_in(self._lowered):
            return True
        reads = "os.environ" in self.text or "process.env" in self.text
        return reads and _ALL_VARIABLES.search(self.text) is not None

    def may_reach_stranger(self, skill: SkillIdentity) -> bool:
        """Any other secret is stolen only by a host that nothing vouches for: one that is named, or put together."""
        if _NAMELESS.any_in(self._words) or _SINKS_AS_WRITTEN.any_in(self._lowered):
            return True
        if _UNRESOLVED.search(self.lowered) is not None:
            return True
        hosts = [find_host(address, skill) for address in set(_ADDRESS.findall(self.lowered))]
        return any(host and (host.catcher or not (host.vouched or host.kind is HostKind.FORGE)) for host in hosts)


def has_any(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110 - `any` would take three times as long, and this is called for every block of code
        if word in text:
            return True
    return False


def code_of_page(text: str) -> str:
    """The fenced blocks of a page, and the commands in its sentences."""
    parts = _FENCED.split(text) if "~~~" in text else text.split("```")
    code = parts[1::2]
    if "`" in text and sends(text):
        code += _INLINE.findall("\n".join(parts[::2]))
    return "\n".join(code)
