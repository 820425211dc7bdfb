"""The store of one machine (local/store) as a process of its own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Store:
    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
            number = listener.fileno()
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local.store", "--socket", str(number), "--directory", str(directory)],
                cwd=REPOSITORY,
                pass_fds=[number],
                stdout=subprocess.PIPE,
                text=True,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> str:
        """What it printed."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[0]


@contextmanager
def store(directory: Path) -> Iterator[str]:
    """Gives its address."""
    running = Store(directory)
    try:
        yield running.url
    finally:
        running.stop()


def begin_a_write(log: Path) -> None:
    """Leaves what a write leaves that was interrupted: a frame behind the last commit, cut off in the middle."""
    content = log.read_bytes()
    salt, size, end = content[16:24], 24 + int.from_bytes(content[8:12], "big"), 32
    while content[end + 8 : end + 16] == salt:
        end += size
    log.write_bytes(content[:end] + content[32 : 32 + 24] + b"x" * 1000)
