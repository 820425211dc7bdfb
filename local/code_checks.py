"""Scans the files of a skill with bandit and detect-secrets. The files are data: written under generated names to a
temporary folder and read by the tools in separate processes, never imported or run."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

TOOL_SECONDS = 120.0
MAX_FINDINGS = 100
MAX_TITLE_LENGTH = 500
POINTS = {"critical": 25, "high": 15, "medium": 8, "low": 3}
BANDS = {"PASS": (80, 100), "CONCERNS": (50, 79), "FAIL": (0, 49)}
# HIGH severity with HIGH confidence is critical, except for tests that find careless code, not dangerous code:
# weak hashes and keys, old protocols, unchecked certificates, templates that do not escape.
CARELESS_NOT_DANGEROUS = re.compile(r"B(103|20[12]|303|30[45]|32[1-5]|40[12]|41[1-5]|50[1-9]|612|70[1-4])")
# Entropy, keywords and addresses raise false alarms on documentation.
HEURISTIC_PLUGINS = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector")
_PYTHON = re.compile(rb"#![^\n]{0,200}python")


class CheckFailed(Exception):
    """A tool could not scan the files, so nothing is known about them."""


class Finding(NamedTuple):
    severity: str
    title: str
    file: str
    line: int


class Report(NamedTuple):
    verdict: str
    score: int
    critical_count: int
    findings: list[Finding]


def check_files(files: Mapping[str, bytes], scratch: Path) -> Report:
    with tempfile.TemporaryDirectory(prefix="scan-", dir=scratch) as folder:
        names = _write(files, Path(folder))
        return report_of([*_bandit(Path(folder), names), *_detect_secrets(Path(folder), names)])


def report_of(found: list[Finding]) -> Report:
    """Each kind of finding counts once per file; the score stays in the band of the verdict."""
    findings = sorted(found, key=lambda finding: list(POINTS).index(finding.severity))
    severities = {finding.severity for finding in findings}
    verdict = "FAIL" if "critical" in severities else "CONCERNS" if "high" in severities else "PASS"
    low, high = BANDS[verdict]
    kinds = {(finding.severity, finding.title, finding.file) for finding in findings}
    score = 100 - sum(POINTS[severity] for severity, _, _ in kinds)
    criticals = sum(finding.severity == "critical" for finding in findings)
    return Report(verdict, max(low, min(high, score)), criticals, findings[:MAX_FINDINGS])


def _write(files: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Generated names: no path can leave the folder, and no file of a skill can configure or replace a tool."""
    names = {}
    for number, (path, data) in enumerate(sorted(files.items())):
        name = f"file{number:04}{'.py' if _is_python(path, data) else '.txt'}"
        (folder / name).write_bytes(data)
        names[name] = path
    return names


def _is_python(path: str, data: bytes) -> bool:
    return path.lower().endswith((".py", ".pyw")) or _PYTHON.match(data) is not None


def _bandit(folder: Path, names: Mapping[str, str]) -> list[Finding]:
    if not any(name.endswith(".py") for name in names):
        return []
    # --ignore-nosec: a comment in the skill must not disable a check.
    output = _run(folder, "bandit", "--quiet", "--recursive", "--ignore-nosec", "--exit-zero", "--format", "json", ".")
    unread = [
        Finding("high", "This Python file could not be read, so it was not checked", names[Path(e["filename"]).name], 0)
        for e in output["errors"]
    ]
    return unread + [_bandit_finding(result, names) for result in output["results"]]


def _bandit_finding(result: Mapping[str, Any], names: Mapping[str, str]) -> Finding:
    test, text = result["test_id"], result["issue_text"]
    severity = result["issue_severity"].lower()
    if severity == "high" and result["issue_confidence"] == "HIGH" and not CARELESS_NOT_DANGEROUS.fullmatch(test):
        severity = "critical"
    severity = severity if severity in POINTS else "low"
    title = f"{test} {text}"[:MAX_TITLE_LENGTH]
    return Finding(severity, title, names[Path(result["filename"]).name], result["line_number"])


def _detect_secrets(folder: Path, names: Mapping[str, str]) -> list[Finding]:
    allowlist = "detect_secrets.filters.allowlist.is_line_allowlisted"  # a comment must not hide a key either
    disabled = [part for plugin in HEURISTIC_PLUGINS for part in ("--disable-plugin", plugin)]
    options = ["scan", "--all-files", "--no-verify", "--disable-filter", allowlist, *disabled]
    output = _run(folder, "detect_secrets", *options, ".")
    return [
        Finding("high", f"{secret['type']} in the file", names[Path(name).name], secret["line_number"])
        for name, secrets in output["results"].items()
        for secret in secrets
    ]


def _run(folder: Path, tool: str, *arguments: str) -> dict[str, Any]:
    """Isolated mode (-I): the tool runs in the folder and must not import modules from it."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", tool, *arguments],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_SECONDS,
            start_new_session=True,  # Ctrl-C in the terminal is for this process only
            check=True,
        )
        output: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise CheckFailed(f"{tool} did not finish within {TOOL_SECONDS:.0f} s") from error
    except (subprocess.CalledProcessError, ValueError) as error:
        raise CheckFailed(f"{tool} could not scan the files") from error
    return output
