"""Combinations of signals: a credential that is read in one place and sent in another, across lines and files."""

import re
from collections.abc import Iterable

from shared.scanner.context import MARKDOWN
from shared.scanner.matching import Hit
from shared.scanner.pack import Rule

SCRIPT_NAME = re.compile(r"(?<![a-z0-9_-])[a-z0-9_-]+\.[a-z0-9]+$")
NEAR_LINES = 15
MAX_PER_SIGNAL = 50


def find_composites(rules: Iterable[Rule], hits: list[Hit]) -> list[tuple[Rule, Hit]]:
    """Each composite rule whose signals occur together, with the hit to report."""
    found = []
    for rule in rules:
        signals = [_signal_hits(name, hits) for name in rule.all_of]
        if all(signals):
            found += [(rule, anchor) for anchor in _co_occurrences(rule.within, signals)]
    return found


def find_downloads_run_later(hits: list[Hit]) -> list[Hit]:
    """Scripts that one command downloads and another runs, matched by file name."""
    run = {match.group() for hit in _signal_hits("SIG-RUNS-SCRIPT", hits) if (match := SCRIPT_NAME.search(hit.text))}
    downloads = _signal_hits("SIG-DOWNLOADS-SCRIPT", hits)
    return [hit for hit in downloads if (match := SCRIPT_NAME.search(hit.text)) and match.group() in run]


def _signal_hits(name: str, hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.rule.id == name and hit.live][:MAX_PER_SIGNAL]


def _co_occurrences(within: str, signals: list[list[Hit]]) -> list[Hit]:
    """The first place per file where one hit of every signal is close enough."""
    anchors: dict[str, Hit] = {}
    for first in signals[0]:
        if first.path not in anchors and all(
            any(_is_close(within, first, hit) for hit in rest) for rest in signals[1:]
        ):
            anchors[first.path] = first
    return list(anchors.values())


def _is_close(within: str, one: Hit, other: Hit) -> bool:
    if within == "claim":
        return _is_script(one) and other.path.lower().endswith("skill.md")
    if within == "skill":
        return _is_script(one) and _is_script(other)
    if one.path != other.path:
        return False
    if within == "line":
        return one.command == other.command
    return within == "file" or abs(one.line - other.line) <= NEAR_LINES


def _is_script(hit: Hit) -> bool:
    return not hit.path.lower().endswith((*MARKDOWN, ".txt", ".json"))
