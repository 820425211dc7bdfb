"""A near-copy of another publisher's skill that adds a host, a script or a directive: so work real campaigns."""

from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from shared.db import get_content
from shared.errors import NotFound
from shared.evidence.receipt_store import CLONE
from shared.marketplace.near_copies import NearCopy
from shared.records.skills import split_name
from shared.scanner import Finding, ScanReport, finding_for
from shared.scanner.context import CODE_FILES, SHELL_FILES
from shared.scanner.file_text import text_of
from shared.scanner.hosts import Host, HostKind, hosts_in
from shared.scanner.report import Action
from shared.storage.content import Files

MAX_NAMED = 3
DIRECTIVE = "DIR-"


async def clone_finding(name: str, files: Files, report: ScanReport, copy: NearCopy) -> Finding:
    """A question where something was added, else a note. Both skills are named."""
    added = await _find_added(name, files, report, copy)
    excerpt = f"{name} has {copy.share:.0%} in common with {copy.original.name}, which was published first"
    if added:
        return finding_for(CLONE, "SKILL.md", f"{excerpt}, and adds {'; '.join(added)}")
    return msgspec.structs.replace(finding_for(CLONE, "SKILL.md", f"{excerpt}; nothing is added"), action=Action.NOTE)


async def _find_added(name: str, files: Files, report: ScanReport, copy: NearCopy) -> list[str]:
    try:
        original = await get_content().get_files(copy.original.content_hash)
    except NotFound:
        return ["what cannot be compared, because the files of the other are lost"]
    return [
        *_listed("host", _strange_hosts(files, name) - _strange_hosts(original, copy.original.name)),
        *_listed("script", _scripts(files).keys() - _scripts(original).keys()),
        *_listed("other lines to script", _changed_scripts(files, original)),
        *_listed("directive", _new_directives(report, original)),
    ]


def _listed(kind: str, names: Iterable[str]) -> list[str]:
    return [f"{kind} {name}" for name in sorted(names)[:MAX_NAMED]]


def _strange_hosts(files: Files, publisher: str) -> set[str]:
    owner = split_name(publisher.lower()).owner
    found = {host for content in files.values() for host in hosts_in(text_of(content))}
    return {shown for host in found if host.owner != owner and (shown := _shown(host))}


def _shown(host: Host) -> str:
    """Well-known and reserved hosts are no difference."""
    if host.kind in (HostKind.KNOWN, HostKind.RESERVED):
        return ""
    return f"{host.name}/{host.owner}" if host.kind is HostKind.FORGE else host.name


def _changed_scripts(files: Files, original: Files) -> set[str]:
    """Scripts of both with lines that no script of the original has; lines that are gone add nothing."""
    before, after = _scripts(original), _scripts(files)
    known = set[str]().union(*before.values())
    return {name for name, lines in after.items() if name in before and lines - known}


def _scripts(files: Files) -> dict[str, set[str]]:
    """By name, with the lines of all of this name, however they are indented."""
    scripts: dict[str, set[str]] = {}
    for path, content in files.items():
        name = PurePosixPath(path).name.lower()
        if name.endswith((*SHELL_FILES, *CODE_FILES)):
            scripts.setdefault(name, set()).update(" ".join(line.split()) for line in text_of(content).splitlines())
    return {name: lines - {""} for name, lines in scripts.items()}


def _new_directives(report: ScanReport, original: Files) -> set[str]:
    before = " ".join(" ".join(text_of(content).split()) for content in original.values())
    orders = [finding for finding in report.findings if finding.rule.startswith(DIRECTIVE) and finding.excerpt]
    return {finding.rule for finding in orders if finding.excerpt.strip("… ") not in before}
