"""Excuses that the rest of the skill takes away."""

import msgspec

from shared.scanner.computed_runs import SkillCode
from shared.scanner.context import Excuse
from shared.scanner.cues import REDEFINES_SEARCH
from shared.scanner.matching import Hit, TextFile
from shared.scanner.pack import Rule
from shared.scanner.report import DECISIVE


def doubted(hits: list[Hit], texts: list[TextFile]) -> list[Hit]:
    """A comment excuses no command in a skill that runs text which it takes from somewhere, perhaps its comments."""
    commented = {id(hit) for hit in hits if hit.place.excuse is Excuse.COMMENT and _is_command(hit.rule)}
    if not commented or not _may_run_them(texts):
        return hits
    return [
        msgspec.structs.replace(hit, place=msgspec.structs.replace(hit.place, excuse=Excuse.LESSON, is_instructed=True))
        if id(hit) in commented
        else hit
        for hit in hits
    ]


def _may_run_them(texts: list[TextFile]) -> bool:
    if any(REDEFINES_SEARCH.search(file.original) for file in texts):
        return True
    return SkillCode(((file.path, file.original) for file in texts), ()).runs_made_text


def _is_command(rule: Rule) -> bool:
    return rule.action in DECISIVE and not rule.is_sentence and not rule.is_directive
