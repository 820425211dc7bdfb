"""Whether a program is worth following: it, or a module that it imports, must name both a source and a way out."""

from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from shared.scanner.flow.tracker import Script, Tracker

Test = Callable[[str], bool]
# The paths of files of the skill that a text imports.
Imports = Callable[[str, Tracker], Iterator[str]]
MAX_MODULES = 60


class _FilesLookedAt:
    """What was found out about the files of one skill, each of which is looked at once."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, bool], bool] = {}
        self.files: dict[tuple[str, Imports], tuple[bool, bool, list[str]]] = {}  # a source, a sink, imports


_known: WeakKeyDictionary[Tracker, _FilesLookedAt] = WeakKeyDictionary()


def may_matter(script: Script, tracker: Tracker, imports: Imports, tests: tuple[Test, Test]) -> bool:
    """`tests` are for a source and for a sink, in lower case. A page is looked at once, however many blocks it has."""
    given = bool(script.stdin.origins) or any(value.origins for value in script.arguments) or tracker.has_written
    known = _known.setdefault(tracker, _FilesLookedAt())
    key = (script.path, given)
    if key not in known.answers:
        known.answers[key] = _names_both(script, tracker, known, imports, tests, given)
    return known.answers[key]


def _names_both(
    script: Script, tracker: Tracker, known: _FilesLookedAt, imports: Imports, tests: tuple[Test, Test], given: bool
) -> bool:
    has_source, has_sink = given, False
    waiting, seen = [script.path], {script.path}
    while waiting:
        path = waiting.pop()
        if (path, imports) not in known.files:
            text = tracker.shipped.get(path, script.text)
            lowered = text.lower()
            known.files[path, imports] = tests[0](lowered), tests[1](lowered), list(imports(text, tracker))
        names_source, names_sink, imported = known.files[path, imports]
        has_source, has_sink = has_source or names_source, has_sink or names_sink
        if has_source and has_sink:
            return True
        new = [one for one in imported if one not in seen] if len(seen) < MAX_MODULES else []
        seen.update(new)
        waiting += new
    return False
