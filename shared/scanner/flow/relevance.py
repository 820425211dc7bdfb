"""Whether a program is worth following: it, or a module that it imports, must name both a source and a way out."""

from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from shared.scanner.flow.tracker import Script, Tracker

Test = Callable[[str], bool]
Texts = Callable[[Script, Tracker], Iterator[str]]
_known: WeakKeyDictionary[Tracker, dict[tuple[str, bool], bool]] = WeakKeyDictionary()


def may_matter(script: Script, tracker: Tracker, texts: Texts, tests: tuple[Test, Test]) -> bool:
    """`tests` are for a source and for a sink. A page is looked at once, however many blocks of code it has."""
    given = bool(script.stdin.origins) or any(value.origins for value in script.arguments) or tracker.has_written
    known = _known.setdefault(tracker, {})
    key = (script.path, given)
    if key not in known:
        known[key] = _names_both(texts(script, tracker), given, tests)
    return known[key]


def _names_both(texts: Iterator[str], given: bool, tests: tuple[Test, Test]) -> bool:
    has_source, has_sink = given, False
    for text in texts:
        has_source = has_source or tests[0](text)
        has_sink = has_sink or tests[1](text)
        if has_source and has_sink:
            return True
    return False
