"""Installs the clients by name and pinned version, from wherever npm and pip of this machine get their packages."""

import json
import os
import platform
import shutil
import subprocess
import sys

from tests.support.platform import REPOSITORY

FOLDER = REPOSITORY / ".local" / "clients"
CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NPM_PACKAGES = {
    "skills": "skills@1.7.4",
    "claude": "@anthropic-ai/claude-code@2.1.326",
    "clawhub": "clawhub@0.23.3",
    "node": f"node-linux-{CPU}@22.23.3",  # what `skills` needs; the machine's own may be older
}
PYTHON_PACKAGE = "fastmcp==4.1.2"
SECONDS = 150


def install() -> str:
    """The folder they are in. What is there already in these versions is not installed again."""
    wanted = {"npm": sorted(NPM_PACKAGES.values()), "python": [PYTHON_PACKAGE, sys.version]}
    made = FOLDER / "installed.json"
    if made.exists() and json.loads(made.read_text()) == wanted:
        return str(FOLDER)
    print(f"Installing the clients into {FOLDER.relative_to(REPOSITORY)} ...", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "home").mkdir(parents=True)
    running = [_npm(), _venv()]
    if any(process.wait(SECONDS) for process in running):
        raise SystemExit("The clients could not be installed.")
    _link_claude()
    made.write_text(json.dumps(wanted))
    return str(FOLDER)


def _npm() -> subprocess.Popen[bytes]:
    """Scripts of packages are not run, and no lock file is written."""
    options = ["--prefix", str(FOLDER), "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    command = ["npm", "install", "--loglevel", "error", *options, *NPM_PACKAGES.values()]
    return subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.DEVNULL)


def _link_claude() -> None:
    """Its package has a script that would do it, and scripts are not run."""
    [native] = (FOLDER / "node_modules" / "@anthropic-ai").glob("claude-code-linux-*/claude")
    (FOLDER / "bin").mkdir()
    (FOLDER / "bin" / "claude").symlink_to(native)


def _venv() -> subprocess.Popen[bytes]:
    subprocess.run([sys.executable, "-m", "venv", FOLDER / "python"], check=True)
    pip = [FOLDER / "python" / "bin" / "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check"]
    return subprocess.Popen([*pip, PYTHON_PACKAGE], cwd=FOLDER, stdin=subprocess.DEVNULL, env=dict(os.environ))
