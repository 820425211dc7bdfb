"""Measures every rule on labelled skills and writes rules/calibration.yaml, from which its standing follows.

python -m bench.calibrate CORPUS MANIFEST BENIGN

Scanned with a table of known hosts to which the skill's own collection did not contribute.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import msgspec
import yaml

from bench.corpus import ATTACKS, BENIGN, TEACHING, Scanned, benign_skills, clusters_of, labelled_skills, scan_all
from shared.scanner.calibration import Calibration, RuleFigures
from shared.scanner.pack import CALIBRATION, RULES_DIR, Rule, load_pack
from shared.scanner.report import Action

HEADER = """# Written by `python -m bench.calibrate`. Skills on which a rule fired, near-copies counted once:
# ordinary (benign), security-teaching (teaching) and malicious ones (attacks, and from how many sources).
"""


def main() -> None:
    options = _options()
    scans = scan_all(labelled_skills(options.corpus, options.manifest) + benign_skills(options.benign))
    measured = write_calibration(calibration_of(scans, clusters_of(scans)))
    print(f"{CALIBRATION}: {len(measured.figures)} rules, {measured.benign} benign skills, {measured.attacks} attacks")


def calibration_of(scans: list[Scanned], clusters: list[int], left_out: str = "") -> Calibration:
    """The figures of all rules without the skills of one collection."""
    counted = [
        (scan, cluster) for scan, cluster in zip(scans, clusters, strict=True) if scan.skill.collection != left_out
    ]
    fired: dict[str, list[tuple[Scanned, int]]] = {rule.id: [] for rule in measured_rules()}
    for scan, cluster in counted:
        for rule in scan.live_rules & fired.keys():
            fired[rule].append((scan, cluster))
    kinds = {group: _count(counted, group) for group in (BENIGN, (TEACHING,), ATTACKS)}
    return Calibration(*kinds.values(), figures={rule: _figures(found) for rule, found in fired.items()})


def measured_rules() -> list[Rule]:
    """All of them; signals are parts of rules."""
    return [rule for rule in load_pack().rules.values() if rule.action is not Action.NONE]


def write_calibration(calibration: Calibration) -> Calibration:
    rules = {name: msgspec.to_builtins(figures) for name, figures in sorted(calibration.figures.items())}
    totals = {"benign": calibration.benign, "teaching": calibration.teaching, "attacks": calibration.attacks}
    lines = [f"{key}: {value}" for key, value in totals.items()]
    lines.append("figures:")
    lines += [f"  {name}: {yaml.dump(row, default_flow_style=True).strip()}" for name, row in rules.items()]
    (RULES_DIR / CALIBRATION).write_text(HEADER + "\n".join(lines) + "\n")
    return calibration


def _figures(fired: list[tuple[Scanned, int]]) -> RuleFigures:
    by_source: defaultdict[str, int] = defaultdict(int)
    for scan, _ in fired:
        by_source[scan.skill.collection] += scan.skill.kind in ATTACKS
    sources = sum(count > 0 for count in by_source.values())
    return RuleFigures(_count(fired, BENIGN), _count(fired, (TEACHING,)), _count(fired, ATTACKS), sources)


def _count(scans: list[tuple[Scanned, int]], kinds: tuple[str, ...]) -> int:
    return len({cluster for scan, cluster in scans if scan.skill.kind in kinds})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="the folder with the labelled skills")
    parser.add_argument("manifest", type=Path, help="the CSV file with their labels")
    parser.add_argument("benign", type=Path, help="a folder of repositories with ordinary skills")
    return parser.parse_args()


if __name__ == "__main__":
    main()
