"""Counts the hosts that ordinary skills name: how many independent collections name each one.

python -m bench.hosts CORPUS MANIFEST [--benign FOLDER]

Writes shared/scanner/rules/known_hosts.yaml: names and counts, nothing else of the corpus. The manifest has the columns
path, visibility and source; FOLDER holds one folder per further repository of ordinary skills.
"""

import argparse
import csv
import os
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path

import msgspec

from shared.scanner import hosts
from shared.scanner.folders import IGNORED
from shared.scanner.host_table import HostTable
from shared.scanner.pack import RULES_DIR, load_pack

TABLE = RULES_DIR / "known_hosts.yaml"
MAX_FILE = 1_000_000
MIN_SOURCES = 2  # what one collection alone names says nothing about others
NamedHosts = AbstractSet[tuple[str, str]]  # a name, and a collection with a skill that names it
ADDRESS = re.compile(r"\bhttps?://[a-z0-9.-]{3,253}(?:/[\w.-]{0,60})?", re.IGNORECASE)
HEADER = """# Written by `python -m bench.hosts`; do not edit. Hosts, registered domains and owners on code hosts that
# ordinary skills name, with the number of independent collections (parts of one count once) that do. Counted in
# {skills} ordinary skills of {collections} public collections, without attacks and security-teaching skills.
"""


def main() -> None:
    options = _options()
    skills = list(ordinary_skills(options.corpus, options.manifest, options.benign))
    counts = count_hosts({(name, collection) for folder, collection in skills for name in names_in(folder)})
    TABLE.write_text(as_yaml(counts, len(skills), len({collection for _, collection in skills})), "utf-8")
    print(f"{TABLE.name}: {len(counts)} names from {len(skills)} skills")


def ordinary_skills(corpus: Path, manifest: Path, benign: Path | None) -> Iterator[tuple[Path, str]]:
    """The folders of the skills, each with the collection it belongs to."""
    with manifest.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["visibility"] == "normal" and (corpus / row["path"]).is_dir():
                yield corpus / row["path"], collection_of(row["source"])
    for repository in sorted(benign.iterdir()) if benign else ():
        if repository.is_dir():
            yield from ((skill, repository.name) for skill in outermost_skills(repository))


def outermost_skills(repository: Path) -> Iterator[Path]:
    """The folders with a SKILL.md, without those inside another one: they are a part of that skill."""
    for folder, below, files in os.walk(repository):
        if any(name.lower() == "skill.md" for name in files):
            below.clear()
            yield Path(folder)
        below[:] = sorted(name for name in below if name not in IGNORED)


def collection_of(source: str) -> str:
    """`SkillFortifyBench-claude` and `SkillFortifyBench-openclaw` are one collection."""
    return source.partition("-")[0] if "__" not in source else source


def count_hosts(named: NamedHosts, without: str = "") -> dict[str, int]:
    counts = Counter(name for name, collection in named if collection != without)
    return {name: count for name, count in sorted(counts.items()) if count >= MIN_SOURCES}


def names_in(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_FILE:
            names.update(*map(_names_of, set(ADDRESS.findall(path.read_text("utf-8", "ignore")))))
    return names


def use_hosts_without(collection: str, named: frozenset[tuple[str, str]]) -> None:
    """For the scans of this process: a host that only the skill's own collection names is not known."""
    counts = _counts_without(collection, named)
    if load_pack().hosts.counts != counts:
        use_table(msgspec.structs.replace(load_pack().hosts, counts=counts))


def use_table(table: HostTable) -> None:
    msgspec.structs.force_setattr(load_pack(), "hosts", table)
    hosts.forget_classified()


@lru_cache(1)
def _counts_without(collection: str, named: frozenset[tuple[str, str]]) -> dict[str, int]:
    return count_hosts(named, collection)


def _names_of(address: str) -> set[str]:
    host = hosts.find_host(address)
    if host is None or host.kind in (hosts.HostKind.RESERVED, hosts.HostKind.BARE):
        return set()
    domain = hosts.registered_domain(host.name)
    if domain in load_pack().hosts.villains | load_pack().hosts.placeholders:
        return set()
    if host.name in load_pack().hosts.forges:
        return {host.name, f"{host.name}/{host.owner}"} if host.owner else {host.name}
    return {host.name} if host.kind is hosts.HostKind.TENANT else {host.name, domain}


def as_yaml(counts: dict[str, int], skills: int, collections: int) -> str:
    rows = "".join(f"  {name}: {count}\n" for name, count in counts.items())
    return HEADER.format(skills=skills, collections=collections) + "hosts:\n" + rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="the folder with the skills")
    parser.add_argument("manifest", type=Path, help="the CSV file with their labels")
    parser.add_argument("--benign", type=Path, help="a folder with more repositories of ordinary skills")
    return parser.parse_args()


if __name__ == "__main__":
    main()
