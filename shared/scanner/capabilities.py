"""What a skill can do, judged by the tools it declares and by its content, with the evidence for each."""

import hashlib
import re
from collections.abc import Iterator, Sequence

from shared.scanner.hosts import ADDRESS
from shared.scanner.matching import Hit
from shared.scanner.report import Capability, FrontMatter, PermissionUse

TOOLS = {
    "shell": re.compile(r"bash|shell|terminal|execute|run_|python|^\*$|powershell", re.IGNORECASE),
    "network": re.compile(r"web|fetch|http|browser|search|curl|network|^\*$", re.IGNORECASE),
    "files": re.compile(r"write|edit|create|notebook|^\*$", re.IGNORECASE),
}
SIGNALS = {
    "network": ("SIG-SENDS", "SIG-FETCHES"),
    "shell": ("SIG-RUNS-SHELL",),
    "credentials": ("SIG-CREDENTIAL-FILE", "SIG-SECRET-ENV", "SIG-ENV-DUMP"),
    "persistence": ("SIG-PERSISTS",),
    "agent memory": ("SIG-AGENT-MEMORY",),
}
MAX_USES = 20
LONGEST_VALUE = 80
_HOST_OF_ADDRESS = re.compile(r"//(?:[^/@\s]{1,80}@)?([a-z0-9.-]{3,253})", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.~$/-])[~$\w./*-]{2,200}")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_COMMAND = re.compile(r"[A-Za-z][\w.-]*(?:\.[a-z_]+)?")


def find_capabilities(front_matter: FrontMatter, hits: list[Hit]) -> tuple[Capability, ...]:
    return (*_declared(front_matter), *_observed(hits))


def _declared(front_matter: FrontMatter) -> list[Capability]:
    return [
        Capability(name, f"allowed-tools: {tool}", declared=True)
        for name, pattern in TOOLS.items()
        if (tool := next((tool for tool in front_matter.allowed_tools if pattern.search(tool)), None))
    ]


def _observed(hits: list[Hit]) -> list[Capability]:
    found = []
    for name, signals in SIGNALS.items():
        seen = [hit for hit in hits if hit.rule.id in signals and hit.live]
        if seen:
            uses = {(use.kind, use.value): use for hit in reversed(seen) for use in _uses(name, hit)}
            ordered = sorted(uses.values(), key=lambda use: (use.kind, use.value))
            found.append(Capability(name, f"{seen[0].path}:{seen[0].line}", declared=False, uses=_listed(ordered)))
    return found


def _listed(uses: Sequence[PermissionUse]) -> tuple[PermissionUse, ...]:
    """What is too much for a list is one use with a digest: a version that adds to it or changes it is still noticed,
    however many there were before."""
    if len(uses) <= MAX_USES:
        return tuple(uses)
    listed, others = uses[: MAX_USES - 1], uses[MAX_USES - 1 :]
    digest = hashlib.sha256("\n".join(f"{use.kind} {use.value}" for use in others).encode(errors="replace")).hexdigest()
    first = others[0]
    return (*listed, PermissionUse("others", f"{len(others)} others ({digest[:12]})", first.path, first.line))


def _uses(name: str, hit: Hit) -> Iterator[PermissionUse]:
    """What the line says about it; a line that names nothing is evidence of the capability alone."""
    for kind, value in _named(name, hit):
        yield PermissionUse(kind, value[:LONGEST_VALUE], hit.path, hit.line)


def _named(name: str, hit: Hit) -> Iterator[tuple[str, str]]:
    if name == "network":
        for address in ADDRESS.findall(hit.excerpt):
            yield from (("host", host.lower().rstrip(".")) for host in _HOST_OF_ADDRESS.findall(address))
    elif name == "shell":
        yield from (("command", match.group()) for match in [_COMMAND.search(hit.text)] if match)
    elif hit.rule.id == "SIG-SECRET-ENV":
        yield from (("variable", variable) for variable in _VARIABLE.findall(hit.excerpt))
    elif hit.rule.id == "SIG-ENV-DUMP":
        yield "variable", "all of them"
    else:
        paths = (match.group() for match in _PATH.finditer(hit.text))
        yield from (("path", path) for path in paths if "/" in path or path.startswith("."))
