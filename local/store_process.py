"""Starts, watches and stops the store of this machine (local/store), a separate process."""

import asyncio
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from local.config import REPOSITORY, StartError
from local.processes import kill_child, start_python

START_SECONDS = 60.0  # the first start of a release may import much
STOP_SECONDS = 30.0
MOST_EXITS, EXITS_WITHIN = 3, 600.0
LOG_BYTES = 1_000_000  # then a start renames it
LEAST_ROOM = 1_000_000


class StoreProcess:
    def __init__(self, directory: Path, expiry: Mapping[str, int] | None = None) -> None:
        """`expiry`: of the buckets' objects, in days by the beginning of the key."""
        self._directory, self._expiry = directory, json.dumps(expiry or {})
        self.log = directory / "store.log"
        self._exits: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> list[str]:
        """What it reported about the data: what it imported, or cut."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._end_of_log = self._size_of_log()
        number = str(self._listener.fileno())
        with self.log.open("ab") as log:
            self._process = await start_python(
                sys.executable,
                ["local.store", "--socket", number, "--directory", str(self._directory), "--expiry", self._expiry],
                {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"},
                self._directory,
                output=log,
                pass_fds=[self._listener.fileno()],
            )
        await self._wait_until_up()
        return self._new_lines()

    async def start_again(self) -> list[str]:
        """After it exited. The socket stays, so what is sent meanwhile waits."""
        self._exits = [*(at for at in self._exits if at > time.monotonic() - EXITS_WITHIN), time.monotonic()]
        if len(self._exits) > MOST_EXITS:
            raise StartError(f"The store exited {len(self._exits)} times within {EXITS_WITHIN / 60:.0f} minutes.")
        return await self.start()

    async def exited(self) -> int:
        return await self._process.wait()

    async def stop(self) -> bool:
        """True if it ended by itself. What it answered is on disk in any case."""
        self._listener.close()
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
            raise StartError(f"The store did not start: {self._problem()}")

    async def _ask(self) -> None:
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /_health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"HTTP/1.1 200 OK\r\n")
        writer.close()

    def _problem(self) -> str:
        """A full disk has no room for what it would report either."""
        free = shutil.disk_usage(self._directory).free
        if free < LEAST_ROOM:
            return f"only {free / 1e6:.1f} MB are free on the disk of {self._directory}. Make room and start again."
        lines = self._new_lines()
        return f"{lines[-1] if lines else 'it reported nothing'} (see {self.log})"

    def _size_of_log(self) -> int:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        return self.log.stat().st_size if self.log.exists() else 0

    def _new_lines(self) -> list[str]:
        """Since the last start."""
        return self.log.read_bytes()[self._end_of_log :].decode(errors="replace").strip().splitlines()
