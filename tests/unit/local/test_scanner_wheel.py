"""The scanner as a distribution of its own: no platform, no top-level `shared`."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

from local.scanner_wheel import build
from shared.scanner.pack import rule_set_version

SAMPLE = Path(__file__).parents[3] / "samples" / "bad" / "container-debug-shell"
PROGRAM = "import sys; sys.path.insert(0, {!r}); from vskill_scanner.__main__ import main; code = main([{!r}])"
CHECK = "; assert not [m for m in sys.modules if m.split('.')[0] in ('shared', 'boto3', 'aioboto3')]; sys.exit(code)"


def test_the_wheel_scans_in_a_path_of_its_own(tmp_path: Path) -> None:
    wheel = build(tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"vskill_scanner", "vskill_scanner-1.0.0.dist-info"}
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
