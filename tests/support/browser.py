"""A real browser for tests and screenshots: the system's Chromium, else Debian's package, else Playwright's own."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OWN = REPOSITORY / ".local" / "browsers"
MISSING = (
    "These tests need Chromium. Install it (Debian: apt-get install chromium), or name one: CHROMIUM=/path/to/chromium"
)


class NoBrowser(Exception):
    """One sentence that says what to install."""


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find_chromium(), args=_arguments())
        yield running
        running.close()


def find_chromium() -> str:
    named = os.environ.get("CHROMIUM")
    if named:
        if shutil.which(named):
            return named
        raise NoBrowser(f"CHROMIUM is {named}, which is not a program. {MISSING}")
    with _one_process_at_a_time():
        for search in (_on_path, _of_playwright, _from_debian, _download):
            if found := search():
                return found
    raise NoBrowser(MISSING)


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """Of two that install it at one moment, one would fail, or find it half there."""
    OWN.mkdir(parents=True, exist_ok=True)
    with (OWN / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _on_path() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def _of_playwright() -> str | None:
    found = sorted(OWN.glob("chromium-*/chrome-linux*/chrome"))
    return str(found[-1]) if found else None


def _from_debian() -> str | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        _run(["apt-get", "-qq", *command], environment)
    return _on_path()


def _download() -> str | None:
    _run(
        [sys.executable, "-m", "playwright", "install", "chromium"],
        {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(OWN)},
    )
    return _of_playwright()


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)


def _arguments() -> list[str]:
    """Chromium refuses its sandbox to root, and /dev/shm is tiny in containers. There is no graphics card: to imitate
    one, in a process of its own, takes a sixth of all its time."""
    return [
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--in-process-gpu",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
