"""What a skill can do, judged by the tools it declares and by its content."""

import re

from shared.scanner.matching import Hit
from shared.scanner.report import Capability, FrontMatter

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
        hit = next((hit for hit in hits if hit.rule.id in signals and hit.live), None)
        if hit:
            found.append(Capability(name, f"{hit.path}:{hit.line}", declared=False))
    return found
