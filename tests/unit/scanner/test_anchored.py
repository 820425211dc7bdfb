"""A pattern with an anchor matches what it matches alone, only faster."""

import random
import re

import pytest

from shared.scanner.anchored import LONG, MAX_PLACES, AnchoredPattern, AnchorWords
from shared.scanner.anchors import ANCHORS
from shared.scanner.cues import READS_ITSELF, STARTS_PROGRAMS
from shared.scanner.flow_words import WORD_LISTS
from shared.scanner.missing_scripts import RUNS
from shared.scanner.remote_runs import _REDEFINITION, _REMOTE_TOOL
from shared.scanner.trust import OTHER_SOURCE
from shared.scanner.used_files import _LINES_THAT_RUN_FILES, _NAME, _RUNS_PRINTED, _names_in

SEARCHED = {
    "starts programs": STARTS_PROGRAMS,
    "reads itself": READS_ITSELF,
    "redefines": _REDEFINITION,
    "remote word": _REMOTE_TOOL,
    "runs output": _RUNS_PRINTED,
    "runs script": RUNS,
    "other source": OTHER_SOURCE,
}
WORDS = """
exec eval( system execute popen2 spawn compile shell subprocess pty vm Function( Command( import from __dict__ vars(
sed cat bash sh zsh python3 python node source . ./ /usr/bin/ sudo curl wget tar alias= function alias hash -p PATH=
$0 ${0 BASH_SOURCE $( <( ` | ; & ( ) { < > __doc__ open( __file__ a.sh b.py setup.mjs -x chmod +x tmp /tmp HTTPS_PROXY=
git invoke-x lwp- /dev/tcp/ nc npx insteadOf GIT_CONFIG_X= MIRROR=http:// REMOTE="git@ UV_INDEX=https://
"""
SPACES = (" ", " ", " ", "\n", "\t", "", "", "\u00a0", "\u3000", "é", "—", "🙂", "\r\n", "\ud800")


def texts() -> list[str]:
    """Of words that the patterns look for, between spaces and letters of all kinds."""
    chosen, words = random.Random(4), WORDS.split()
    return [
        "".join(chosen.choice(words) + chosen.choice(SPACES) for _ in range(chosen.randint(1, 30))) for _ in range(1500)
    ]


@pytest.mark.parametrize("name", SEARCHED)
def test_an_anchor_leaves_no_match_out(name: str) -> None:
    anchored, matches = SEARCHED[name], 0
    for text in texts():
        alone = [match.span() for match in anchored.pattern.finditer(text)]
        assert [match.span() for match in anchored.finditer(text)] == alone, text
        matches += len(alone)
    assert matches > 10


def test_the_lines_of_an_anchor_have_every_match() -> None:
    pattern, matches = _LINES_THAT_RUN_FILES.pattern, 0
    for text in texts():
        alone = pattern.findall(text)
        assert pattern.findall(_LINES_THAT_RUN_FILES.lines_of(text)) == alone, text
        matches += len(alone)
    assert matches > 100


def test_every_anchor_has_a_pattern() -> None:
    assert ANCHORS.keys() == {*SEARCHED, "runs file"}


def test_a_text_with_too_many_places_is_searched_whole() -> None:
    text = "getattr " * MAX_PLACES + "eval(x)"
    assert STARTS_PROGRAMS.search("exec ;" * MAX_PLACES + " eval (x)")
    assert [match.group() for match in STARTS_PROGRAMS.finditer(text)] == ["eval("]


def test_letters_that_only_a_regular_expression_folds_are_found() -> None:
    """Python reads the long s as an s."""
    assert STARTS_PROGRAMS.search("oſ = ſubproceſſ")
    assert re.search("ſ", "s", re.IGNORECASE)
    assert AnchoredPattern("starts programs", STARTS_PROGRAMS.pattern).search("plain words") is None


@pytest.mark.parametrize("name", WORD_LISTS)
def test_a_word_of_a_list_is_found_in_short_and_in_long_text(name: str) -> None:
    words = AnchorWords(name)
    for word in WORD_LISTS[name]:
        for padding in (b"", b"- " * LONG):
            assert words.any_in(padding + word.encode() + padding)
    assert not words.any_in(b"- " * LONG)


def test_the_name_of_a_picture_is_the_longest_that_ends_with_its_suffix() -> None:
    chosen, parts = random.Random(5), ["a", "b1", ".png", ".JPG", "pdf", "x" * 70, "/", " ", "*", "é", ".", "-", "\n"]
    for text in ("".join(chosen.choices(parts, k=chosen.randint(2, 60))) for _ in range(1000)):
        assert [m.span() for m in _names_in(text)] == [m.span() for m in _NAME.finditer(text)], text
