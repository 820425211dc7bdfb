"""The platform as a process of its own, for tests that need all of it.

platform = Platform.start(tmp_path, TIME_SCALE="0.1")
status, headers, body = platform.request("GET", "/api/v1/health")
platform.info["workers"]["Consumer"]      # process ids, for example to kill one
platform.stop()                           # as Ctrl-C does; returns the exit code
platform.kill()                           # SIGKILL of the runner, the store and every worker
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
STOP_SECONDS = 40.0
LONGEST_PAUSE = 0.25  # of one who waits: a question costs the platform as much CPU time as the work it is asked about
T = TypeVar("T")


class Platform:
    """One running `python -m local`. Every start uses a free port; the data is in `directory`."""

    def __init__(self, directory: Path, template: Path | None, environment: dict[str, str]) -> None:
        self.directory = directory
        self._output = directory.parent / f"{directory.name}.output"
        self._template, self._environment = template, environment

    @classmethod
    def start(cls, tmp_path: Path, *, template: Path | None = None, **environment: str) -> "Platform":
        """Returns once /api/v1/health answers 200. A second start with the same tmp_path continues its data."""
        platform = cls(tmp_path / "local", template, environment)
        platform.launch()
        platform.wait_ready()
        return platform

    def launch(self) -> None:
        options = ["--template", str(self._template)] if self._template else []
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COV_"))}
        defaults = {"PORT": "0", "SAMPLES": "0", "LOCAL_DIR": str(self.directory)}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "local", *options],
                cwd=REPOSITORY,
                env={**clean, **defaults, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self) -> None:
        try:
            eventually(lambda: self._ended() or self._is_ready(), START_SECONDS)
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"the platform was not ready in time:\n{self.output}") from error
        assert self._process.poll() is None, f"the platform ended with {self._process.returncode}:\n{self.output}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def info(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.directory / "platform.json").read_text())
        return values

    @property
    def url(self) -> str:
        return str(self.info["url"])

    @property
    def admin_token(self) -> str:
        return str(self.info["adminToken"])

    def client(self, service: str) -> Any:
        """A boto3 client of the AWS behind the platform."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.info["endpoint"],
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, seconds: float = 60
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """A body that is neither bytes nor text is sent as JSON. The path is sent as it is."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes | str):
            body = json.dumps(body)
            sent.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=seconds)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        status, _, content = self.request(method, path, body, headers)
        return status, json.loads(content)

    def stop(self) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        pids = [self._process.pid]
        with suppress(OSError, ValueError):
            pids += [self.info["emulatorPid"], *(pid for pids in self.info["workers"].values() for pid in pids)]
        for pid in pids:
            kill(pid)
        self._process.wait()

    def _is_ready(self) -> bool:
        with suppress(OSError, ValueError):
            # An unclean stop leaves the file of the run before.
            return bool(self.info["pid"] == self._process.pid and self.info["ready"])
        return False

    def _ended(self) -> bool:
        return self._process.poll() is not None


def eventually(probe: Callable[[], T], seconds: float = 60.0) -> T:
    """The first true value of the probe. Fails when there is none in time."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while not (value := probe()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(pause)
        pause = min(1.3 * pause, LONGEST_PAUSE)
    return value


def kill(pid: int | None) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return re.search(r"\) Z ", state) is None
