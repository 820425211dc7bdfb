"""The scanner as a distribution of its own: no platform, no top-level `shared`."""

import configparser
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

from local.scanner_wheel import DEPENDENCIES, build
from shared.scanner.pack import rule_set_version

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "samples" / "bad" / "container-debug-shell"
PROGRAM = "import sys; sys.path.insert(0, {!r}); from vskill_scanner.__main__ import main; code = main([{!r}])"
CHECK = "; assert not [m for m in sys.modules if m.split('.')[0] in ('shared', 'boto3', 'aioboto3')]; sys.exit(code)"


def hook() -> dict[str, Any]:
    [one] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return dict(one)


def test_the_hook_scans_the_whole_repository_with_the_command_of_the_wheel() -> None:
    assert hook()["id"] == "vskill-scanner"
    assert hook()["language"] == "system"
    assert (hook()["pass_filenames"], hook()["always_run"]) == (False, True)


def test_the_action_installs_pinned_packages_only_and_fails_with_the_scan() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, scan = (step["run"] for step in action["runs"]["steps"])
    installs = [line for line in install.splitlines() if 'pip" install' in line]
    assert len(installs) == 2
    assert all(" --constraint requirements.txt " in line for line in installs)
    pinned = (ROOT / "requirements.txt").read_text().lower()
    assert [name for name in DEPENDENCIES if f"\n{name}==" not in pinned] == []
    assert {*DEPENDENCIES} <= {*installs[0].lower().split()}
    assert scan.splitlines()[-1] == '"$RUNNER_TEMP/vskill-scanner/bin/vskill-scanner" "$SKILLS"'
    assert {"path", "sarif"} == action["inputs"].keys()


def test_the_wheel_scans_in_a_path_of_its_own(tmp_path: Path) -> None:
    wheel = build(tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"vskill_scanner", "vskill_scanner-1.0.0.dist-info"}
    entry_points = configparser.ConfigParser()
    entry_points.read(tmp_path / "site" / "vskill_scanner-1.0.0.dist-info" / "entry_points.txt")
    assert entry_points["console_scripts"][hook()["entry"].split()[0]] == "vskill_scanner.__main__:run"
    program = PROGRAM.format(str(tmp_path / "site"), str(SAMPLE)) + CHECK
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, "FAIL" in ran.stdout) == (2, True), ran.stderr
    [metadata] = [path.read_text() for path in (tmp_path / "site").glob("*.dist-info/METADATA")]
    assert re.search(r'^Requires-Dist: cryptography>=\S+; extra == "verify"$', metadata, re.MULTILINE)
    # Else the wheel could never confirm a receipt of the platform.
    asks = [sys.executable, "-c", "from vskill_scanner.pack import rule_set_version; print(rule_set_version(), end='')"]
    assert (
        subprocess.run(asks, cwd=tmp_path / "site", capture_output=True, check=True).stdout.decode()
        == rule_set_version()
    )
