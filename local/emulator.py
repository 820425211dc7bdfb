"""Starts, watches and stops the AWS emulator, and selects the snapshot to restore."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from local.config import REPOSITORY, StartError
from local.emulator_main import SERVICES
from local.processes import kill_child, start_python

PYTHON = REPOSITORY / ".venv" / "emulator" / "bin" / "python"
START_SECONDS = 30.0
STOP_SECONDS = 30.0  # writing a large state takes a while, and an interrupted write would lose it


@dataclass(frozen=True)
class Snapshot:
    path: Path

    @property
    def age(self) -> float:
        return max(0.0, time.time() - int(self.path.name) / 1000)


def newest_good_snapshot(states: Path) -> Snapshot | None:
    return next((snapshot for snapshot in _snapshots(states) if _is_complete(snapshot)), None)


class Emulator:
    def __init__(self, directory: Path, interval: float) -> None:
        self._directory, self._interval = directory, interval
        self._states = directory / "state"
        self.log = directory / "emulator.log"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> Snapshot | None:
        """Returns the restored snapshot, if any."""
        if not PYTHON.exists():
            raise StartError("The AWS emulator is not installed; run `make setup`.")
        self._states.mkdir(parents=True, exist_ok=True)
        snapshot = newest_good_snapshot(self._states)
        with self.log.open("wb") as log, self._listener:
            self._process = await start_python(
                PYTHON,
                self._command(restore=snapshot is not None),
                self._environment(snapshot.path if snapshot else self._states),
                self._directory,
                output=log,
                pass_fds=[self._listener.fileno()],
            )
        await self._wait_until_up()
        return snapshot

    async def exited(self) -> int:
        return await self._process.wait()

    def save_soon(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGUSR1)

    def overdue(self) -> float | None:
        """Seconds since the last save, if a save is overdue."""
        newest = next(_snapshots(self._states), None)
        age = newest.age if newest else 0.0
        return age if age > 2 * self._interval + 10 else None

    async def stop(self) -> bool:
        """True if everything was saved."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_SECONDS) == 0
        except TimeoutError:
            self.kill()
            return False

    def kill(self) -> None:
        kill_child(self._process)

    def _command(self, *, restore: bool) -> list[str]:
        options = ["--socket", str(self._listener.fileno()), "--states", str(self._states)]
        options += ["--interval", str(self._interval), *(["--restore"] if restore else [])]
        return [str(Path(__file__).with_name("emulator_main.py")), *options]

    def _environment(self, state: Path) -> Mapping[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "PERSIST_STATE": "1",
            "STATE_DIR": str(state),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(self._directory / "content"),
            "SERVICES": ",".join(SERVICES),
            "LOG_LEVEL": "WARNING",
            "TMPDIR": str(self._directory / "tmp"),
            "HOME": str(self._directory / "tmp"),
            # Otherwise it opens more ports on all interfaces, and removes Docker containers of the user.
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            "DOCKER_HOST": "unix:///nonexistent",
        }

    async def _wait_until_up(self) -> None:
        """The socket is already listening, so a health check waits until the emulator responds."""
        timeout = aiohttp.ClientTimeout(total=START_SECONDS)
        exited = asyncio.create_task(self._process.wait())
        async with aiohttp.ClientSession(timeout=timeout) as session:
            health_check = asyncio.create_task(_status(session, f"{self.endpoint}/_ministack/health"))
            await asyncio.wait({exited, health_check}, return_when=asyncio.FIRST_COMPLETED)
            up = health_check.done() and health_check.exception() is None and health_check.result() == 200
            health_check.cancel()
        exited.cancel()
        if not up:
            self.kill()
            raise StartError(f"The AWS emulator did not start: {self._last_log_line()}")

    def _last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'its log is empty'} (see {self.log})"


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        return response.status


def _snapshots(states: Path) -> Iterator[Snapshot]:
    """Newest first."""
    named = [path for path in states.glob("*") if path.name.isdigit()]
    return (Snapshot(path) for path in sorted(named, key=lambda path: int(path.name), reverse=True))


def _is_complete(snapshot: Snapshot) -> bool:
    try:
        for service in SERVICES:
            json.loads((snapshot.path / f"{service}.json").read_bytes())
    except (OSError, ValueError):
        return False
    return True
