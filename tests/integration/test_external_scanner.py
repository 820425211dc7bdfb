"""The example scanner: what it makes of files, and how it behaves at the terminal. The real tools, no platform."""

import json
import os
import signal
import subprocess
import sys

import pytest

from local import code_checks
from local.code_checks import CheckFailed, Finding, check_files, report_of
from tests.support.platform import REPOSITORY, eventually

SHELL = 'import subprocess, sys\nsubprocess.call("ls " + sys.argv[1], shell=True)  # nosec\n'
KEY = "token: ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
MARK = "open({path!r}, 'w')\n"


def check(tmp_path, **files: str):
    report = check_files({path: text.encode() for path, text in files.items()}, tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing of a skill is left behind"
    return report


def test_what_bandit_is_sure_of_is_critical_whatever_a_comment_says(tmp_path):
    report = check(tmp_path, **{"SKILL.md": "# x", "scripts/run.py": SHELL})
    assert (report.verdict, report.critical_count) == ("FAIL", 1)
    worst = report.findings[0]
    assert (worst.severity, worst.title[:4], worst.file, worst.line) == ("critical", "B602", "scripts/run.py", 2)
    assert report.score <= 49


def test_a_key_is_a_concern_whatever_a_comment_says(tmp_path):
    report = check(tmp_path, **{"SKILL.md": f"{KEY}  # pragma: allowlist secret\n"})
    assert (report.verdict, report.critical_count) == ("CONCERNS", 0)
    assert report.findings == [Finding("high", "GitHub Token in the file", "SKILL.md", 1)]
    assert KEY[7:] not in str(report)


def test_careless_is_not_dangerous_and_plain_code_is_fine(tmp_path):
    careless = check(tmp_path, **{"a.py": "import hashlib\nprint(hashlib.md5(b'x').hexdigest())\n"})
    assert (careless.verdict, careless.critical_count) == ("CONCERNS", 0)
    assert check(tmp_path, **{"a.py": "print('hello')\n"}) == ("PASS", 100, 0, [])
    assert check(tmp_path, **{"SKILL.md": "Never use `eval()`, it is dangerous.\n"}) == ("PASS", 100, 0, [])


def test_python_is_known_by_its_first_line_too_and_unreadable_python_is_reported(tmp_path):
    report = check(tmp_path, **{"bin/tool": f"#!/usr/bin/env python3\n{SHELL}", "b.py": "def f(:\n"})
    assert {(finding.file, finding.severity) for finding in report.findings if finding.severity != "low"} == {
        ("bin/tool", "critical"),
        ("b.py", "high"),
    }


def test_no_file_name_leaves_the_folder_configures_a_tool_or_gets_run(tmp_path):
    scratch, marked = tmp_path / "scratch", tmp_path / "was-run"
    scratch.mkdir()
    mark = MARK.format(path=str(marked))
    names = ("json.py", "bandit.py", "bandit/__init__.py", "detect_secrets/__init__.py", "sitecustomize.py", "yaml.py")
    files = dict.fromkeys((*names, "../up.py", "/abs.py", "a/../../b.py", "x\0y.py", "-r.py", "n" * 600 + ".py"), mark)
    ours = {
        ".bandit": "[bandit]\nskips: B602\n",
        "pyproject.toml": '[tool.bandit]\nskips = ["B602"]\n',
        "run.py": SHELL,
    }
    report = check(scratch, **files, **ours)
    assert report.critical_count == 1
    assert not marked.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]


def test_a_tool_that_hangs_or_crashes_is_a_failure_not_a_verdict(tmp_path, monkeypatch):
    monkeypatch.setattr(code_checks, "TOOL_SECONDS", 0.01)
    with pytest.raises(CheckFailed, match="did not finish"):
        check_files({"a.py": b"1\n"}, tmp_path)
    monkeypatch.undo()
    with pytest.raises(CheckFailed, match="could not scan"):
        code_checks._run(tmp_path, "no_such_tool")
    assert list(tmp_path.iterdir()) == []


def test_a_finding_counts_once_per_file_and_a_long_list_is_cut():
    many = [Finding("low", "same", "a.py", n) for n in range(300)]
    assert report_of(many)[:3] == ("PASS", 97, 0)
    assert len(report_of(many).findings) == 100
    worst_last = report_of([*many, Finding("critical", "bad", "b.py", 1)])
    assert (worst_last.verdict, worst_last.findings[0].severity) == ("FAIL", "critical")


# --- at the terminal ------------------------------------------------------------------------------------------------


def command(tmp_path, *options: str, **environment: str):
    return {
        "args": [sys.executable, "-m", "local.external_scanner", *options],
        "cwd": REPOSITORY,
        "env": {**os.environ, "LOCAL_DIR": str(tmp_path), **environment},
        "text": True,
    }


def run(tmp_path, *options: str, **environment: str):
    return subprocess.run(**command(tmp_path, *options, **environment), capture_output=True, timeout=60, check=False)


def test_it_explains_itself(tmp_path):
    answer = run(tmp_path, "--help")
    assert answer.returncode == 0
    assert all(word in answer.stdout for word in ("--url", "--once", "--provider", "LOCAL_DIR"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "EXTERNAL_SCANNERS=bandit make run"),
        (("--provider", "mine"), "EXTERNAL_SCANNERS=mine make run"),
        (("--url", "http://scans.example"), "it must be https"),
        (("--url", "file:///etc/passwd"), "it must be https"),
    ],
)
def test_what_is_missing_gets_one_sentence(tmp_path, options, sentence):
    answer = run(tmp_path, *options)
    assert answer.returncode == 1
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


def with_secret(tmp_path) -> dict[str, str]:
    (tmp_path / "secrets.json").write_text(json.dumps({"webhookSecrets": {"bandit": "s" * 64}}))
    return {"PYTHONUNBUFFERED": "1"}


NO_PLATFORM = "http://127.0.0.1:9"  # the discard port


def test_without_a_platform_one_pass_ends_with_1_and_says_why(tmp_path):
    answer = run(tmp_path, "--once", "--url", NO_PLATFORM, **with_secret(tmp_path))
    assert answer.returncode == 1
    assert f"no valid response from {NO_PLATFORM}" in answer.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(tmp_path, number):
    """It keeps polling while the platform is unavailable, and stops on a signal."""
    log = tmp_path / "output"
    with log.open("w") as output:
        started = command(tmp_path, "--url", NO_PLATFORM, "--poll", "600", **with_secret(tmp_path))
        # What starts in the background of a shell inherits that it ignores SIGINT; a terminal's Ctrl-C is meant here.
        started["args"] = ["env", "--default-signal=INT", *started["args"]]
        process = subprocess.Popen(**started, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: "no valid response" in log.read_text(), 60)
        process.send_signal(number)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert log.read_text().endswith("Stopped.\n")
    assert "Traceback" not in log.read_text()
