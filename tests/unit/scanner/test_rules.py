"""Every rule proves itself: its examples match, its counter-examples do not, and none comes without them."""

import re
from typing import Any

import pytest

from shared.scanner.hidden_text import plain
from shared.scanner.matching import Deadline, TextFile, find_hits
from shared.scanner.pack import Rule, expand, read_rules, rule_entries
from shared.scanner.report import Action
from shared.scanner.scan import finding_for, scan_skill

HEADER = b"---\nname: example\ndescription: An example of a rule.\n---\n\n# Example\n\n"
ENTRIES = [entry for _, entry in rule_entries()]
RULES = read_rules()


def skill(example: Any) -> dict[str, bytes]:
    if isinstance(example, str):
        return {"SKILL.md": HEADER + example.encode()}
    files = {path: text if isinstance(text, bytes) else text.encode() for path, text in example.items()}
    return {"SKILL.md": HEADER + b"Text.\n", **files}


def fires(rule: Rule, example: Any) -> bool:
    if isinstance(example, dict) and "seen" in example:  # by the source or the store, which report it like this
        return scan_skill(skill("Text."), [finding_for(rule.id, "SKILL.md", example["seen"])]).action is rule.action
    if rule.action is Action.NONE:
        return any(hit.rule.id == rule.id and hit.live for hit in hits_in(skill(example)))
    return any(f.rule == rule.id and f.action is rule.action for f in scan_skill(skill(example)).findings)


def hits_in(files: dict[str, bytes]) -> list[Any]:
    texts = [TextFile(path, plain(content.decode()), content.decode()) for path, content in files.items()]
    return [hit for text in texts for hit in find_hits(text, Deadline(float("inf")))]


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(RULES[entry["id"]], example, id=f"{entry['id']}-{number}")
        for entry in ENTRIES
        for number, example in enumerate(entry.get("examples", {}).get(kind, ()))
    ]


@pytest.mark.parametrize(("rule", "example"), examples("match"))
def test_an_example_matches_its_rule(rule: Rule, example: Any) -> None:
    assert fires(rule, example)


@pytest.mark.parametrize(("rule", "example"), examples("no_match"))
def test_a_counter_example_does_not_match(rule: Rule, example: Any) -> None:
    assert not fires(rule, example)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_a_rule_has_two_examples_of_each_kind_a_reason_and_a_fix(entry: dict[str, Any]) -> None:
    assert len(entry["examples"]["match"]) >= 2
    assert len(entry["examples"]["no_match"]) >= 2
    assert len(entry["why"]) > 15
    assert entry["fix"].endswith(".")


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_patterns_are_lower_case_since_text_is(rule: Rule) -> None:
    for pattern in (*rule.patterns, *rule.unless):
        assert not re.search(r"(?<!\\)[A-Z]", pattern), f"{pattern} never matches lower-cased text"


def test_composites_are_made_of_signals_that_exist() -> None:
    assert {name for rule in RULES.values() for name in rule.all_of} <= RULES.keys()


def test_a_word_in_a_pattern_is_expanded_with_the_words_inside_it() -> None:
    assert expand("x <a> y", {"a": "1|<b>", "b": "2"}) == "x (1|(2)) y"
