"""Starts, watches and stops the store of this machine (local/store), a separate process."""

import asyncio
import os
import socket
import sys
from pathlib import Path

from local.config import REPOSITORY, StartError
from local.processes import kill_child, start_python

START_SECONDS = 60.0  # the first start of a release may import much
STOP_SECONDS = 30.0


class StoreProcess:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.log = directory / "store.log"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> list[str]:
        """What it reported about the data: what it imported, or cut."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log, self._listener:
            self._process = await start_python(
                sys.executable,
                ["local.store", "--socket", str(self._listener.fileno()), "--directory", str(self._directory)],
                {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"},
                self._directory,
                output=log,
                pass_fds=[self._listener.fileno()],
            )
        await self._wait_until_up()
        return self.log.read_text(errors="replace").splitlines()

    async def exited(self) -> int:
        return await self._process.wait()

    async def stop(self) -> bool:
        """True if it ended by itself. What it answered is on disk in any case."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_SECONDS) == 0
        except TimeoutError:
            self.kill()
            return False

    def kill(self) -> None:
        kill_child(self._process)

    async def _wait_until_up(self) -> None:
        """The socket is already listening, so one request waits until the store responds."""
        exited = asyncio.create_task(self._process.wait())
        asking = asyncio.create_task(self._ask())
        await asyncio.wait({exited, asking}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        is_up = asking.done() and asking.exception() is None
        asking.cancel()
        exited.cancel()
        if not is_up:
            self.kill()
            raise StartError(f"The store did not start: {self._last_log_line()}")

    async def _ask(self) -> None:
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /_health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"HTTP/1.1 200 OK\r\n")
        writer.close()

    def _last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'its log is empty'} (see {self.log})"
