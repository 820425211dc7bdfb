"""Every rule proves itself: its examples match, its counter-examples do not, and none comes without them."""

import re
from typing import Any

import pytest

from shared.scanner.hidden_text import plain
from shared.scanner.matching import Deadline, TextFile, find_hits
from shared.scanner.pack import Rule, expand, read_rules, rule_entries
from shared.scanner.report import Action
from shared.scanner.scan import finding_for, gather_evidence

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
        seen = [finding_for(rule.id, "SKILL.md", example["seen"])]
        return gather_evidence(skill("Text."), seen).action is rule.action
    if rule.action is Action.NONE:
        return any(hit.rule.id == rule.id and hit.live for hit in hits_in(skill(example)))
    return any(f.rule == rule.id and f.action is rule.action for f in gather_evidence(skill(example)).findings)


def hits_in(files: dict[str, bytes]) -> list[Any]:
    texts = [TextFile(path, plain(content.decode()), content.decode()) for path, content in files.items()]
    return [hit for text in texts for hit in find_hits(text, Deadline(float("inf")))]


each_rule = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])


@each_rule
def test_every_example_matches_its_rule(entry: dict[str, Any]) -> None:
    rule = RULES[entry["id"]]
    assert [example for example in entry["examples"]["match"] if not fires(rule, example)] == []


@each_rule
def test_no_counter_example_matches(entry: dict[str, Any]) -> None:
    rule = RULES[entry["id"]]
    assert [example for example in entry["examples"]["no_match"] if fires(rule, example)] == []


def test_a_rule_has_two_examples_of_each_kind_a_reason_and_a_fix() -> None:
    for entry in ENTRIES:
        assert len(entry["examples"]["match"]) >= 2, entry["id"]
        assert len(entry["examples"]["no_match"]) >= 2, entry["id"]
        assert len(entry["why"]) > 15, entry["id"]
        assert entry["fix"].endswith("."), entry["id"]


def test_patterns_are_lower_case_since_text_is() -> None:
    patterns = {pattern: rule.id for rule in RULES.values() for pattern in (*rule.patterns, *rule.unless)}
    never_match = {pattern: id_ for pattern, id_ in patterns.items() if re.search(r"(?<!\\)[A-Z]", pattern)}
    assert never_match == {}


def test_composites_are_made_of_signals_that_exist() -> None:
    assert {name for rule in RULES.values() for name in rule.all_of} <= RULES.keys()


def test_a_word_in_a_pattern_is_expanded_with_the_words_inside_it() -> None:
    assert expand("x <a> y", {"a": "1|<b>", "b": "2"}) == "x (1|(2)) y"
