"""The rules of the scanner as pages show them, from the rule files: they have the examples, which the pack has not."""

from functools import cache
from typing import Any, NamedTuple

from shared.scanner.build import published_rules
from shared.scanner.pack import Rule, read_calibration, rule_entries, rule_set_version, standings_of
from shared.scanner.report import Action
from shared.scanner.terminal import STANDINGS
from shared.web import labels
from shared.web.invisible import show_invisible

MOST_EXAMPLES = 3  # of a kind
DECIDES = {
    Action.BLOCK: "Blocks or rejects the skill",
    Action.REVIEW: "Asks a reviewer",
    Action.NOTE: "Is only a note",
}


class RuleExample(NamedTuple):
    file: str
    text: str


class RuleView(NamedTuple):
    rule: Rule
    decides: str
    standing: str
    found: list[RuleExample]
    ignored: list[RuleExample]


def rules_by_category() -> dict[str, list[Rule]]:
    rules = _rules().values()
    return {category: [rule for rule in rules if rule.category == category] for category in _categories()}


def find_rule(rule_id: str) -> RuleView | None:
    rule = _rules().get(rule_id.upper())
    if rule is None:
        return None
    examples = _examples()[rule.id]
    standing = STANDINGS[standings_of({rule.id: rule}, read_calibration())[rule.id]]
    found, ignored = (_shown(examples.get(kind, ())) for kind in ("match", "no_match"))
    return RuleView(rule, DECIDES[rule.action], standing[0].upper() + standing[1:], found, ignored)


def current_rule_set() -> str:
    return rule_set_version()


def _categories() -> list[str]:
    return list(dict.fromkeys(rule.category for rule in _rules().values()))


@cache
def _rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in published_rules()}


@cache
def _examples() -> dict[str, dict[str, list[Any]]]:
    return {entry["id"]: entry.get("examples") or {} for _, entry in rule_entries()}


def _shown(examples: Any) -> list[RuleExample]:
    files = (example if isinstance(example, dict) else {"SKILL.md": example} for example in examples)
    return [RuleExample(path, _text(content)) for each in files for path, content in each.items()][:MOST_EXAMPLES]


def _text(content: str | bytes) -> str:
    if isinstance(content, bytes):
        return f"({labels.counted(len(content), 'byte')} that are not text)"
    return "\n".join(show_invisible(line) for line in content.strip("\n").split("\n"))
