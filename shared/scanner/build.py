"""Build the rule pack and its documentation.

python -m shared.scanner.build           write the compiled pack
python -m shared.scanner.build --docs    write docs/rules.md as well
python -m shared.scanner.build --list    print the rules as a table
"""

import sys
from pathlib import Path

from shared.scanner.calibration import Calibration, RuleFigures
from shared.scanner.pack import (
    COMPILED_PACK,
    Rule,
    RuleError,
    read_calibration,
    read_rules,
    rule_set_version,
    standings_of,
    write_pack,
)
from shared.scanner.report import ACTION_ORDER, SEVERITY_ORDER, Action, Standing

RULES_PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
INTRODUCTION = """# Rules of the tier-1 scanner

Generated from `shared/scanner/rules/` by `make rules`; do not edit. Each rule carries its examples in its data file.

What a rule decides follows from its figures: benign skills on which it fired, and attacks that it found
([decision 18](decisions/0018-calibrated-policy.md)). *certain*: FAIL · *alone*: CONCERNS · *supporting*: CONCERNS
beside a finding of another category or a flow, else a note · *policy*: its action, and a block
only where it is certain by definition; the kind of policy is in brackets. A match that only describes it (a warning, an
example marked as bad, a table of indicators) supports at most, or is a note. Figures are numbers of skills, near-copies
counted once.
"""


def main(arguments: list[str]) -> int:
    try:
        if "--list" in arguments:
            sys.stdout.write(rules_table())
            return 0
        pack = write_pack()
    except RuleError as error:
        sys.stderr.write(f"The rule pack was not built. {error}\n")
        return 1
    sys.stdout.write(f"{COMPILED_PACK.name}: {len(pack.rules)} rules and signals, version {rule_set_version()}\n")
    if "--docs" in arguments:
        RULES_PAGE.write_text(rules_page(), "utf-8")
        sys.stdout.write(f"docs/{RULES_PAGE.name} written\n")
    return 0


def rules_page() -> str:
    rules = published_rules()
    measured = read_calibration()
    standings = standings_of(read_rules(), measured)
    counts = ", ".join(f"{sum(r.action is action for r in rules)} {action}" for action in ACTION_ORDER[:2])
    lines = [INTRODUCTION, f"{len(rules)} rules ({counts}).\n"]
    for category in dict.fromkeys(rule.category for rule in rules):
        lines += [
            f"## {category.capitalize()}\n",
            "| id | action | standing | benign / teaching / attacks (sources) | severity | finds | why | how to fix |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [_row(rule, standings[rule.id], measured) for rule in rules if rule.category == category]
        lines.append("")
    return "\n".join(lines)


def rules_table() -> str:
    rows = [f"{r.id:<28} {_action(r):<14} {r.severity:<9} {r.category:<22} {r.title}" for r in published_rules()]
    return "\n".join([f"{'ID':<28} {'ACTION':<14} {'SEVERITY':<9} {'CATEGORY':<22} FINDS", *rows]) + "\n"


def published_rules() -> list[Rule]:
    """Signals are parts of rules, not rules."""
    rules = [rule for rule in read_rules().values() if rule.action is not Action.NONE]
    return sorted(
        rules, key=lambda r: (r.category, ACTION_ORDER.index(r.action), SEVERITY_ORDER.index(r.severity), r.id)
    )


def _row(rule: Rule, standing: Standing, measured: Calibration) -> str:
    figures = measured.figures.get(rule.id, RuleFigures())
    counts = f"{figures.benign} / {figures.teaching} / {figures.attacks} ({figures.sources})"
    named = f"{standing} ({rule.policy})" if rule.policy else standing
    facts = (f"`{rule.id}`", _action(rule), named, counts, rule.severity, rule.title, rule.why, rule.fix)
    return f"| {' | '.join(facts)} |"


def _action(rule: Rule) -> str:
    return f"{rule.action}, certain" if rule.certain else str(rule.action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
