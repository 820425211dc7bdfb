"""Bandit and detect-secrets over the files of a skill. The files are data: written under names of our own into a folder
that is removed afterwards, read by the two tools in processes of their own, never imported and never run."""

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
LONGEST_TEXT = 500
POINTS = {"critical": 25, "high": 15, "medium": 8, "low": 3}
BANDS = {"PASS": (80, 100), "CONCERNS": (50, 79), "FAIL": (0, 49)}
# Bandit's HIGH with HIGH confidence is critical, except where it means careless and not dangerous to the reader:
# weak hashes and keys, old protocols, certificates that are not checked, templates that do not escape.
CARELESS = re.compile(r"B(103|20[12]|303|30[45]|32[1-5]|40[12]|41[1-5]|50[1-9]|612|70[1-4])")
# Entropy, keywords and addresses are guesses: documentation is full of them.
GUESSING = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector")
_PYTHON = re.compile(rb"#![^\n]{0,200}python")


class CheckFailed(Exception):
    """A tool could not look at the files, so nothing is known about them."""


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
    """Names of our own: no path can lead elsewhere, and no file of a skill can configure or replace a tool."""
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
    # --ignore-nosec: a comment of the author must not switch a check off.
    answer = _run(folder, "bandit", "--quiet", "--recursive", "--ignore-nosec", "--exit-zero", "--format", "json", ".")
    unread = [
        Finding("high", "This Python file could not be read, so it was not checked", names[Path(e["filename"]).name], 0)
        for e in answer["errors"]
    ]
    return unread + [_bandit_finding(result, names) for result in answer["results"]]


def _bandit_finding(result: Mapping[str, Any], names: Mapping[str, str]) -> Finding:
    test, text = result["test_id"], result["issue_text"]
    severity = result["issue_severity"].lower()
    if severity == "high" and result["issue_confidence"] == "HIGH" and not CARELESS.fullmatch(test):
        severity = "critical"
    severity = severity if severity in POINTS else "low"
    title = f"{test} {text}"[:LONGEST_TEXT]
    return Finding(severity, title, names[Path(result["filename"]).name], result["line_number"])


def _detect_secrets(folder: Path, names: Mapping[str, str]) -> list[Finding]:
    allowlist = "detect_secrets.filters.allowlist.is_line_allowlisted"  # nor may it hide a key
    guessing = [part for plugin in GUESSING for part in ("--disable-plugin", plugin)]
    options = ["scan", "--all-files", "--no-verify", "--disable-filter", allowlist, *guessing]
    answer = _run(folder, "detect_secrets", *options, ".")
    return [
        Finding("high", f"{secret['type']} in the file", names[Path(name).name], secret["line_number"])
        for name, secrets in answer["results"].items()
        for secret in secrets
    ]


def _run(folder: Path, tool: str, *arguments: str) -> dict[str, Any]:
    """Isolated (-I): the folder is where the tool runs, and must not be where it looks for modules."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", tool, *arguments],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_SECONDS,
            start_new_session=True,  # Ctrl-C in the terminal is for us alone
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise CheckFailed(f"{tool} did not end within {TOOL_SECONDS:.0f} s") from error
    except (subprocess.CalledProcessError, ValueError) as error:
        raise CheckFailed(f"{tool} could not look at the files") from error
    return answer
