"""S13: no pattern of ours can be made to hang by what is matched against it."""

import ast
import re
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads the standard library's own parser
    from regexploit.ast.sre import SreOpParser
    from regexploit.redos import find

ROOT = Path(__file__).parents[3]
MATCHING = {"compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer"}


def patterns_in(path: Path) -> list[str | bytes]:
    """Every pattern that is written down as a plain text where it is used."""
    source = path.read_text()
    if "re." not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    ours = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in MATCHING]
    of_re = [call for call in ours if isinstance(call.func.value, ast.Name) and call.func.value.id == "re"]
    return [call.args[0].value for call in of_re if call.args and isinstance(call.args[0], ast.Constant)]


def patterns_of_ours() -> set[str]:
    written = (path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py"))
    patterns = (pattern for path in written for pattern in patterns_in(path))
    return {pattern if isinstance(pattern, str) else pattern.decode("latin-1") for pattern in patterns}


def is_slow(pattern: str) -> bool:
    """Whether some input makes it try again and again: three repeats that can take the same letters, or more.
    A possessive repeat never tries again; the parser does not know it and gets the greedy one, which is slower."""
    return any(
        finding.starriness > 2 for finding in find(SreOpParser().parse_sre(re.sub(r"(?<=[)\]])\*\+", "*", pattern)))
    )


@pytest.mark.requirement("S13")
def test_a_pattern_that_can_hang_is_known_as_such():
    assert is_slow(r"(a*)*b")


@pytest.mark.requirement("S13")
def test_no_pattern_of_ours_can_hang():
    patterns = patterns_of_ours()
    assert len(patterns) > 30
    assert [pattern for pattern in sorted(patterns) if re.compile(pattern) and is_slow(pattern)] == []
