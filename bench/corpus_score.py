"""The scanner on a folder of labelled skills: what it finds, what it alarms on without reason, and what it costs.

make corpus-score CORPUS=folder MANIFEST=manifest.csv    prints the tables and writes bench/results/corpus.md

The manifest has the columns path, label, visibility and source. Nothing of the corpus is run or copied.
"""

import argparse
import csv
import json
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from shared.scanner import RULE_SET_VERSION, scan_skill
from shared.scanner.folders import read_skill

RESULTS = Path(__file__).parent / "results" / "corpus.md"
CLASSES = {
    "normal": "ordinary",
    "hard-negative": "hard negatives",
    "overt": "overt",
    "wild-mixed": "wild",
    "contextual": "contextual",
}
PROCESSES = 2
HEADER = "| | skills | block + review | block | incomplete only | CPU p50 ms | p95 | p99 |\n" + 8 * "|---" + "|"


class LabelledSkill(NamedTuple):
    folder: Path
    path: str
    kind: str
    source: str


class Score(NamedTuple):
    skill: LabelledSkill
    action: str
    verdict: str
    seconds: float
    rules: list[str]  # the rules that decided, as "rule@file:line"


def main() -> None:
    options = _options()
    skills = labelled_skills(options.corpus, options.manifest)
    with Pool(PROCESSES) as pool:
        scores = pool.map(score, skills, chunksize=8)
    report = as_markdown(scores)
    print(report)
    RESULTS.write_text(report)
    if options.details:
        options.details.write_text("".join(_detail(score) + "\n" for score in scores))


def labelled_skills(corpus: Path, manifest: Path) -> list[LabelledSkill]:
    with manifest.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        LabelledSkill(corpus / row["path"], row["path"], CLASSES[row["visibility"]], row["source"])
        for row in rows
        if (corpus / row["path"]).is_dir()
    ]


def score(skill: LabelledSkill) -> Score:
    read = read_skill(skill.folder)
    started = time.process_time()
    report = scan_skill(read.files, read.findings)
    seconds = time.process_time() - started
    decisive = [f"{f.rule}@{f.path}:{f.line}" for f in report.findings if f.action in ("block", "review")]
    return Score(skill, report.action, report.verdict, seconds, decisive)


def as_markdown(scores: list[Score]) -> str:
    lines = [
        "# The scanner on the labelled public corpus\n",
        f"`make corpus-score`, rules {RULE_SET_VERSION}, {len(scores)} skills. Of ordinary skills and hard negatives",
        "an alarm is a false one. An incomplete scan without a finding counts as neither.\n",
        "## By class\n",
        *_table(scores, lambda one: one.skill.kind, CLASSES.values()),
    ]
    for kind in CLASSES.values():
        of_kind = [one for one in scores if one.skill.kind == kind]
        sources = sorted({one.skill.source for one in of_kind})
        lines += [f"\n## {kind.capitalize()}, by source\n", *_table(of_kind, lambda one: one.skill.source, sources)]
    return "\n".join(lines) + "\n"


def _table(scores: list[Score], group_of: Callable[[Score], str], groups: Iterable[str]) -> list[str]:
    grouped = {group: [one for one in scores if group_of(one) == group] for group in groups}
    return [HEADER, *(_row(group, members) for group, members in grouped.items() if members)]


def _row(group: str, scores: list[Score]) -> str:
    blocked = sum(one.action == "block" for one in scores)
    alarmed = blocked + sum(one.action == "review" for one in scores)
    unread = sum(one.verdict == "CONCERNS" and one.action not in ("block", "review") for one in scores)
    seconds = sorted(one.seconds for one in scores)
    times = " | ".join(f"{1000 * seconds[min(len(seconds) - 1, len(seconds) * p // 100)]:.0f}" for p in (50, 95, 99))
    counts = " | ".join(f"{count} ({100 * count / len(scores):.1f} %)" for count in (alarmed, blocked, unread))
    return f"| {group} | {len(scores)} | {counts} | {times} |"


def _detail(score: Score) -> str:
    return json.dumps({"path": score.skill.path, "kind": score.skill.kind, **score._asdict(), "skill": None})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus_score", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="the folder with the skills")
    parser.add_argument("manifest", type=Path, help="the CSV file with their labels")
    parser.add_argument("--details", type=Path, help="write one JSON line per skill, with the rules that decided")
    return parser.parse_args()


if __name__ == "__main__":
    main()
