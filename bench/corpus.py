"""Labelled skills on disk, scanned once: what the scores and the calibration are computed from.

Nothing of a skill is run or copied."""

import csv
import time
from collections.abc import Iterable, Mapping
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from bench.hosts import NamedHosts, collection_of, names_in, outermost_skills, use_hosts_without
from shared.scanner.folders import SkillFolder, read_skill
from shared.scanner.near_duplicates import bands, similarity
from shared.scanner.report import DECISIVE, Finding
from shared.scanner.scan import gather_evidence

ORDINARY, EXTRA, TEACHING, OVERT = "ordinary", "extra benign", "hard negatives", "overt"
CLASSES = {
    "normal": ORDINARY,
    "extra": EXTRA,
    "hard-negative": TEACHING,
    "overt": OVERT,
    "wild-mixed": "wild",
    "contextual": "contextual",
}
BENIGN = (ORDINARY, EXTRA)
ATTACKS = (OVERT, "wild", "contextual")
PROCESSES = 2


class LabelledSkill(NamedTuple):
    folder: Path
    path: str
    kind: str
    source: str
    attack: str = ""  # its families, separated by semicolons

    @property
    def collection(self) -> str:
        """What is left out together: parts of one collection know each other."""
        return collection_of(self.source)


class Scanned(NamedTuple):
    """The evidence in a skill, before it is weighed."""

    skill: LabelledSkill
    findings: tuple[Finding, ...]
    is_incomplete: bool
    seconds: float  # of CPU time
    signature: tuple[int, ...]

    @property
    def live_rules(self) -> set[str]:
        """The rules that fired, not counting what the skill only describes."""
        return {f.rule for f in self.findings if f.action in DECISIVE and not f.is_described}


def labelled_skills(corpus: Path, manifest: Path) -> list[LabelledSkill]:
    """The manifest has the columns path, visibility, source and attack."""
    with manifest.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        LabelledSkill(corpus / row["path"], row["path"], CLASSES[row["visibility"]], row["source"], row["attack"])
        for row in rows
        if (corpus / row["path"]).is_dir()
    ]


def benign_skills(folder: Path | None) -> list[LabelledSkill]:
    """One folder per repository, as it was checked out, with skills anywhere below it."""
    repositories = sorted(path for path in folder.iterdir() if path.is_dir()) if folder else []
    return [
        LabelledSkill(skill, skill.relative_to(repository.parent).as_posix(), EXTRA, repository.name)
        for repository in repositories
        for skill in outermost_skills(repository)
    ]


def scan_all(skills: list[LabelledSkill]) -> list[Scanned]:
    """Each with a table of known hosts to which its collection did not contribute."""
    with Pool(PROCESSES, leave_out, [named_hosts(skills)]) as pool:
        return pool.map(scan_one, skills, chunksize=8)


def named_hosts(skills: list[LabelledSkill]) -> NamedHosts:
    ordinary = [skill for skill in skills if skill.kind in BENIGN]
    with Pool(PROCESSES) as pool:
        named = pool.map(names_in, [skill.folder for skill in ordinary], chunksize=8)
    return {(name, skill.collection) for skill, names in zip(ordinary, named, strict=True) for name in names}


_named: frozenset[tuple[str, str]] = frozenset()


def leave_out(named: NamedHosts) -> None:
    """In each process that scans."""
    global _named  # noqa: PLW0603 - a process of a pool has no other place for it
    _named = frozenset(named)


def scan_one(skill: LabelledSkill) -> Scanned:
    read: SkillFolder = read_skill(skill.folder)
    return scan_files(skill, read.files, read.findings)


def scan_files(skill: LabelledSkill, files: Mapping[str, bytes], source_findings: Iterable[Finding] = ()) -> Scanned:
    use_hosts_without(skill.collection, _named)
    started = time.process_time()
    report = gather_evidence(files, tuple(source_findings))
    seconds = time.process_time() - started
    return Scanned(skill, report.findings, bool(report.incomplete), seconds, report.signature)


def clusters_of(scans: list[Scanned]) -> list[int]:
    """A number per skill, the same for near-copies."""
    parents = list(range(len(scans)))
    first_of_band: dict[str, int] = {}
    for index, scan in enumerate(scans):
        for band in bands(scan.signature):
            other = first_of_band.setdefault(band, index)
            if similarity(scan.signature, scans[other].signature) >= 0.7:
                parents[_root(parents, index)] = _root(parents, other)
    return [_root(parents, index) for index in range(len(scans))]


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index
