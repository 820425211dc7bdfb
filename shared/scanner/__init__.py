"""Tier 1: judge a skill without running it. One call, `scan_skill`; one command, `python -m shared.scanner`."""

from shared.scanner.near_duplicates import similar_to
from shared.scanner.pack import rule_set_version
from shared.scanner.report import Finding, ScanReport
from shared.scanner.scan import scan_skill

RULE_SET_VERSION = rule_set_version()

__all__ = ["RULE_SET_VERSION", "Finding", "ScanReport", "scan_skill", "similar_to"]
