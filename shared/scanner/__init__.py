"""Tier 1: scan a skill without running it. One call, `scan_skill`; one command, `python -m shared.scanner`."""

from typing import TYPE_CHECKING, Any

from shared.scanner.near_duplicates import similar_to
from shared.scanner.report import Finding, ScanReport

if TYPE_CHECKING:
    from shared.scanner.scan import finding_for, scan_skill

    RULE_SET_VERSION: str

__all__ = ["RULE_SET_VERSION", "Finding", "ScanReport", "finding_for", "scan_skill", "similar_to"]


def __getattr__(name: str) -> Any:
    """Load the matcher on first use: code that only reads reports, like the API, starts without it."""
    if name == "RULE_SET_VERSION":
        from shared.scanner.pack import rule_set_version

        return rule_set_version()
    if name in ("finding_for", "scan_skill"):
        from shared.scanner import scan

        return getattr(scan, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
