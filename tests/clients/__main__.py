"""The real clients against the running platform: installs them into the project's own folder, then runs their tests
without any other network. `make test-clients` calls it."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from tests.clients.install import NPM_PACKAGES, PYTHON_PACKAGE, install
from tests.support.platform import REPOSITORY

ISOLATED = ["unshare", "--map-root-user", "--net"]
SECONDS = 600  # the limit, on a busy machine
TARGET = 180  # of an idle machine with two cores, the installation included; CPU time tells where it is busy


def main(arguments: list[str]) -> int:
    if shutil.which("npm") is None:
        print("The clients were not tested: npm is not installed.")
        return 0
    started = time.monotonic()
    folder = install()
    if arguments == ["--install"]:
        return 0
    isolated = is_allowed()
    if not isolated:
        print("This machine allows no network namespace: the clients are tested with its network.")
    left = SECONDS - (time.monotonic() - started)
    failed = run_tests(folder, isolated, arguments, left)
    where = "without any other network" if isolated else "with the network of this machine"
    names = ", ".join([*NPM_PACKAGES.values(), PYTHON_PACKAGE])
    took = time.monotonic() - started
    print(f"The clients were tested {where}, in {took:.0f} s: {names}.")
    if took > TARGET:
        print(f"That is more than {TARGET} s. They used {cpu_seconds():.0f} s of CPU time.")
    return failed


def cpu_seconds() -> float:
    """Of all that ended: the installation, the platforms and the clients."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def is_allowed() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0


def run_tests(folder: str, isolated: bool, arguments: list[str], seconds: float) -> int:
    tests = arguments or ["tests/clients"]
    # Each of the two has a platform of its own, and one client after the other.
    in_parallel = ["-n", "2", "--dist", "loadfile"]
    command = [sys.executable, "-m", "tests.clients.loopback", "-p", "no:cacheprovider", *in_parallel, *tests]
    environment = {**os.environ, "CLIENTS_DIR": folder, "CLIENTS_ISOLATED": str(int(isolated))}
    process = subprocess.Popen([*ISOLATED * isolated, *command], cwd=REPOSITORY, env=environment)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # as Ctrl-C does: pytest stops what it started
        print(f"The tests of the clients took longer than {SECONDS} s.")
        return process.wait() or 1


sys.exit(main(sys.argv[1:]))
