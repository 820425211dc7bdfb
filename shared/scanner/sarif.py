"""SARIF 2.1.0, for code-scanning tools."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from shared.scanner.pack import rule_set_version
from shared.scanner.report import SCANNER_VERSION, Action, Finding, FlowStep, ScanReport, first_sentences

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Action.BLOCK: "error", Action.REVIEW: "warning", Action.NOTE: "note", Action.NONE: "none"}


def sarif_log(reports: Iterable[tuple[str, ScanReport]]) -> dict[str, Any]:
    """One run for all skills; each report comes with the parent folder of its paths, or an empty string."""
    reports = list(reports)
    found = [(folder, finding) for folder, report in reports for finding in report.findings]
    rules = {finding.rule: finding for _, finding in found}
    order = {rule: index for index, rule in enumerate(rules)}
    driver = {
        "name": "vskill-scanner",
        "version": SCANNER_VERSION,
        "semanticVersion": SCANNER_VERSION,
        "rules": [_rule(finding) for finding in rules.values()],
        "properties": {"ruleSetVersion": _rule_set([report for _, report in reports])},
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation([report for _, report in reports])],
        "results": [_result(folder, finding, order[finding.rule]) for folder, finding in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_set(reports: list[ScanReport]) -> str:
    """The version that the scan used, which may be older than the loaded rules."""
    return reports[0].receipt.rule_set_version if reports else rule_set_version()


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.title},
        "fullDescription": {"text": finding.why},
        "help": {"text": finding.fix},
        "properties": {"category": finding.category, "severity": str(finding.severity)},
    }


def _result(folder: str, finding: Finding, index: int) -> dict[str, Any]:
    location = {
        "artifactLocation": {"uri": _uri(folder, finding.path)},
        "region": {
            "startLine": max(1, finding.line),
            "startColumn": max(1, finding.column),
            "snippet": {"text": finding.excerpt},
        },
    }
    flow = {"codeFlows": [_code_flow(folder, finding)]} if finding.steps else {}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.action],
        "message": {"text": f"{finding.title}. {first_sentences(finding.why)} {finding.fix}"},
        "locations": [{"physicalLocation": location}],
        "properties": {
            "action": str(finding.action),
            "certain": finding.certain,
            "context": finding.context,
            "standing": str(finding.standing),
        },
        **flow,
    }


def _code_flow(folder: str, finding: Finding) -> dict[str, Any]:
    return {"threadFlows": [{"locations": [{"location": _step(folder, step)} for step in finding.steps]}]}


def _step(folder: str, step: FlowStep) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _uri(folder, step.path)}, "region": {"startLine": max(1, step.line)}}
    return {"physicalLocation": place, "message": {"text": step.what or "step"}}


def _uri(folder: str, path: str) -> str:
    return quote((f"{folder}/{path}" if folder else path).lstrip("/"), errors="replace")


def _invocation(reports: list[ScanReport]) -> dict[str, Any]:
    reasons = [reason for report in reports for reason in report.incomplete]
    notices = [{"level": "warning", "message": {"text": f"incomplete scan: {reason}"}} for reason in reasons]
    return {"executionSuccessful": not reasons, "toolExecutionNotifications": notices}
