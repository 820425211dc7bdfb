"""The scanner as a distribution of its own: `vskill-scanner`, import name `vskill_scanner`, without the platform.

python -m local.scanner_wheel [FOLDER]    writes vskill_scanner-VERSION-py3-none-any.whl into FOLDER (default: dist)
"""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from shared.scanner.report import SCANNER_VERSION
from shared.timing import SCAN_CPU_DEADLINE

ROOT = Path(__file__).parents[1]
NAME = "vskill_scanner"
LEFT_OUT = {"scan_runner.py", "scan_process.py", "rules.pack"}  # processes of the platform; the pack is rebuilt
VERIFY = "cryptography"  # an extra: only the command `verify` needs it
DEPENDENCIES = ("msgspec", "orjson", "pyyaml", "yara-x", "detect-secrets")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
TIMING = "from datetime import timedelta\n\nSCAN_CPU_DEADLINE = timedelta(seconds={})  # of CPU time, for one skill\n"


def main(arguments: list[str]) -> None:
    print(build(Path(arguments[0] if arguments else ROOT / "dist")))


def build(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{NAME}-{SCANNER_VERSION}-py3-none-any.whl"
    with tempfile.TemporaryDirectory() as staging:
        copy_package(Path(staging))
        compile_rules(Path(staging))
        write_wheel(Path(staging), wheel)
    return wheel


def copy_package(staging: Path) -> None:
    source = ROOT / "shared" / "scanner"
    for path in sorted(source.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts or path.name in LEFT_OUT:
            continue
        target = staging / NAME / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.suffix == ".py":
            target.write_text(as_own_package(path.read_text("utf-8")), "utf-8")
    (staging / NAME / "timing.py").write_text(TIMING.format(SCAN_CPU_DEADLINE.total_seconds()))


def as_own_package(text: str) -> str:
    return text.replace("shared.scanner", NAME).replace("shared.timing", f"{NAME}.timing")


def compile_rules(staging: Path) -> None:
    """By the copy itself: the compiled rules carry the digest of the code that reads them."""
    code = f"import sys; sys.path.insert(0, {str(staging)!r}); from {NAME}.pack import write_pack; write_pack()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=staging)
    for cache in staging.rglob("__pycache__"):
        shutil.rmtree(cache)


def write_wheel(staging: Path, wheel: Path) -> None:
    info = f"{NAME}-{SCANNER_VERSION}.dist-info"
    files = {
        path.relative_to(staging).as_posix(): path.read_bytes() for path in sorted(staging.rglob("*")) if path.is_file()
    }
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: vskill\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\nvskill-scanner = {NAME}.__main__:run\n".encode()
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


def metadata() -> str:
    pinned = {name.lower(): version for name, version in PINNED.findall((ROOT / "requirements.txt").read_text())}
    requires = [f"Requires-Dist: {name}>={pinned[name]}" for name in DEPENDENCIES]
    lines = ["Metadata-Version: 2.1", "Name: vskill-scanner", f"Version: {SCANNER_VERSION}"]
    extra = ["Provides-Extra: verify", f'Requires-Dist: {VERIFY}>={pinned[VERIFY]}; extra == "verify"']
    lines += ["Summary: Scan AI agent skills without running them", "Requires-Python: >=3.11", *requires, *extra, ""]
    return "\n".join(lines)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(sys.argv[1:])
