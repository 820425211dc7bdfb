"""Tier 1: scan a skill without running it. One call, `scan_skill`; one command, `python -m shared.scanner`.

The functions here load the matcher when they are called: code that only reads reports, like the API, starts without it.
"""

from collections.abc import Mapping, Sequence

from shared.scanner.near_duplicates import similar_to
from shared.scanner.report import Finding, ScanReport

__all__ = ["Finding", "ScanReport", "finding_for", "rule_set_version", "scan_skill", "similar_to"]


def rule_set_version() -> str:
    from shared.scanner import pack

    return pack.rule_set_version()


def scan_skill(files: Mapping[str, bytes], source_findings: Sequence[Finding] = ()) -> ScanReport:
    """Scan a skill, given as a mapping of paths to raw bytes.

    `source_findings` are findings that only the source can see (a symlink in the archive), made with `finding_for`.
    """
    from shared.scanner import scan

    return scan.scan_skill(files, source_findings)


def finding_for(rule_id: str, path: str, excerpt: str = "") -> Finding:
    """A finding for a rule in the pack that the pattern matcher does not detect."""
    from shared.scanner import scan

    return scan.finding_for(rule_id, path, excerpt)
