"""The scanner on labelled skills: what it finds, what it alarms on without reason, what rewriting an attack costs.

make corpus-score CORPUS=folder [BENIGN=folder] [MANIFEST=manifest.csv]    prints tables, writes bench/results/corpus.md

Each skill is decided by a calibration and a table of known hosts in which its collection was left out. Nothing of the
corpus is run or copied.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.calibrate import calibration_of
from bench.corpus import (
    ATTACKS,
    CLASSES,
    OVERT,
    PROCESSES,
    LabelledSkill,
    Scanned,
    benign_skills,
    clusters_of,
    labelled_skills,
    leave_out,
    named_hosts,
    scan_all,
    scan_files,
)
from bench.perturbations import PERTURBATIONS
from shared.scanner import rule_set_version
from shared.scanner.calibration import standing_in_place
from shared.scanner.folders import read_skill
from shared.scanner.pack import Rule, load_pack, standings_of
from shared.scanner.report import DECISIVE, Action, Finding, Standing, decide, deciding_findings

RESULTS = Path(__file__).parent / "results" / "corpus.md"
HEADER = (
    "| | skills | alarms | of clusters | block | incomplete only | alarms with its source | CPU p50 ms | p95 | p99 |"
)
REWRITTEN = (OVERT, "wild")  # what is harmful only in its context is hardly found as it is
Standings = dict[str, Standing]


class Score(NamedTuple):
    scan: Scanned
    cluster: int
    action: Action
    shipped: Action  # with the calibration of all sources
    deciding: list[str]  # as "rule@file:line"

    @property
    def is_alarm(self) -> bool:
        return self.action in DECISIVE


def main() -> None:
    options = _options()
    scans = scan_all(labelled_skills(options.corpus, options.manifest) + benign_skills(options.benign))
    clusters = clusters_of(scans)
    left_out = standings_by_collection(scans, clusters)
    scores = score_all(scans, clusters, left_out)
    report = as_markdown(scores) + ("" if options.quick else perturbation_table(scores, left_out))
    print(report)
    if not options.quick:
        RESULTS.write_text(report)
    if options.details:
        options.details.write_text("".join(_detail(score) + "\n" for score in scores))


def standings_by_collection(scans: list[Scanned], clusters: list[int]) -> dict[str, Standings]:
    """The standing of every rule when the skills of one collection are left out."""
    rules = load_pack().rules
    collections = {scan.skill.collection for scan in scans}
    return {name: standings_of(rules, calibration_of(scans, clusters, name)) for name in sorted(collections)}


def score_all(scans: list[Scanned], clusters: list[int], left_out: dict[str, Standings]) -> list[Score]:
    shipped = standings_of(load_pack().rules, calibration_of(scans, clusters))
    return [
        _score(scan, cluster, left_out[scan.skill.collection], shipped)
        for scan, cluster in zip(scans, clusters, strict=True)
    ]


def _score(scan: Scanned, cluster: int, standings: Standings, shipped: Standings) -> Score:
    findings = restanding(scan.findings, standings)
    deciding = [f"{f.rule}@{f.path}:{f.line}" for f in deciding_findings(findings) if f.action in DECISIVE]
    as_shipped = decide(restanding(scan.findings, shipped), ()).action
    return Score(scan, cluster, decide(findings, ()).action, as_shipped, deciding)


def restanding(findings: Iterable[Finding], standings: Standings) -> list[Finding]:
    rules = load_pack().rules
    return [_restanding(finding, standings[finding.rule], rules[finding.rule]) for finding in findings]


def _restanding(finding: Finding, measured: Standing, rule: Rule) -> Finding:
    standing = standing_in_place(
        measured, claims_certainty=rule.certain, is_policy=bool(rule.policy), is_described=finding.is_described
    )
    is_certain = rule.certain and not finding.is_described and standing in (Standing.CERTAIN, Standing.POLICY)
    return msgspec.structs.replace(finding, standing=standing, certain=is_certain)


def as_markdown(scores: list[Score]) -> str:
    lines = [
        "# The scanner on labelled public skills\n",
        f"`make corpus-score`, rules {rule_set_version()}, {len(scores)} skills. Alarms are block and review; on",
        "ordinary and extra benign skills and on hard negatives they are false. Each skill is decided by figures,",
        'and with a table of known hosts, to which its own collection did not contribute; "with its',
        'source" is with the figures of all. "Of clusters" counts near-copies once.\n',
        "## By class\n",
        *_table(scores, lambda one: [one.scan.skill.kind], CLASSES.values()),
    ]
    for kind in CLASSES.values():
        of_kind = [one for one in scores if one.scan.skill.kind == kind]
        sources = sorted({one.scan.skill.source for one in of_kind})
        if sources:
            lines += [f"\n## {kind.capitalize()}, by source\n"]
            lines += _table(of_kind, lambda one: [one.scan.skill.source], sources)
    attacks = [one for one in scores if one.scan.skill.kind in ATTACKS]
    families = sorted({family for one in attacks for family in families_of(one)})
    lines += ["\n## Attacks, by family\n", "A skill of several families counts in each.\n"]
    return "\n".join([*lines, *_table(attacks, families_of, families)]) + "\n"


def families_of(score: Score) -> list[str]:
    skill = score.scan.skill
    return [f"{family.strip()} ({skill.kind})" for family in (skill.attack or "not stated").split(";")]


def _table(scores: list[Score], groups_of: Callable[[Score], list[str]], groups: Iterable[str]) -> list[str]:
    grouped = {group: [one for one in scores if group in groups_of(one)] for group in groups}
    return [HEADER, 10 * "|---" + "|", *(_row(group, members) for group, members in grouped.items() if members)]


def _row(group: str, scores: list[Score]) -> str:
    alarms = [one for one in scores if one.is_alarm]
    clusters = len({one.cluster for one in alarms}), len({one.cluster for one in scores})
    unread = [one for one in scores if one.scan.is_incomplete and not one.is_alarm]
    cells = [
        _share(len(alarms), len(scores)),
        f"{clusters[0]} of {clusters[1]}",
        _share(sum(one.action is Action.BLOCK for one in scores), len(scores)),
        _share(len(unread), len(scores)),
        _share(sum(one.shipped in DECISIVE for one in scores), len(scores)),
        *(f"{percentile([one.scan.seconds for one in scores], part) * 1000:.0f}" for part in (50, 95, 99)),
    ]
    return f"| {group} | {len(scores)} | {' | '.join(cells)} |"


def percentile(values: list[float], part: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.1f} %)"


def perturbation_table(scores: list[Score], left_out: dict[str, Standings]) -> str:
    """How many of the attacks that a rewriting applies to are found before and after it."""
    lines = ["\n## Attacks rewritten\n", "| | class | applies to | found before | found after | points lost |"]
    lines.append(6 * "|---" + "|")
    attacks = [one for one in scores if one.scan.skill.kind in REWRITTEN]
    named = named_hosts([one.scan.skill for one in scores])
    for name in PERTURBATIONS:
        with Pool(PROCESSES, leave_out, [named]) as pool:
            perturbed = pool.map(partial(_perturbed, name), [one.scan.skill for one in attacks], chunksize=16)
        pairs = [(score, scan) for score, scan in zip(attacks, perturbed, strict=True) if scan is not None]
        lines += [_perturbation_row(name, kind, pairs, left_out) for kind in REWRITTEN]
    return "\n".join(lines) + "\n"


def _perturbed(name: str, skill: LabelledSkill) -> Scanned | None:
    read = read_skill(skill.folder)
    files = PERTURBATIONS[name](read.files)
    return None if files is None else scan_files(skill, files, read.findings)


def _perturbation_row(name: str, kind: str, pairs: list[tuple[Score, Scanned]], left_out: dict[str, Standings]) -> str:
    pairs = [(score, scan) for score, scan in pairs if score.scan.skill.kind == kind]
    before = sum(score.is_alarm for score, _ in pairs)
    after = sum(
        decide(restanding(scan.findings, left_out[scan.skill.collection]), ()).action in DECISIVE for _, scan in pairs
    )
    points = 100 * (before - after) / max(1, len(pairs))
    return f"| {name} | {kind} | {len(pairs)} | {before} | {after} | {points:.1f} |"


def _detail(score: Score) -> str:
    skill = score.scan.skill
    return json.dumps(
        {
            "path": skill.path,
            "kind": skill.kind,
            "source": skill.source,
            "action": score.action,
            "deciding": score.deciding,
            "rules": sorted(score.scan.live_rules),
            "seconds": round(score.scan.seconds, 4),
        }
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus_score", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="the folder with the skills")
    parser.add_argument("manifest", type=Path, help="the CSV file with their labels")
    parser.add_argument("benign", type=Path, nargs="?", help="a folder of repositories with more ordinary skills")
    parser.add_argument("--quick", action="store_true", help="neither rewrite the attacks nor the results")
    parser.add_argument("--details", type=Path, help="write one JSON line per skill, with the findings that decided")
    return parser.parse_args()


if __name__ == "__main__":
    main()
