"""A ministack of its own: another implementation of AWS that the contract suites run on."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2] / ".venv" / "emulator" / "bin" / "python"
SERVE = """\
import asyncio, sys
from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app
config = Config()
config.bind, config.keep_alive_timeout, config.accesslog = [f"fd://{sys.argv[1]}"], 75, None
asyncio.run(serve(app.app, config))
"""


@contextmanager
def ministack(directory: Path) -> Iterator[str]:
    """Gives its address. It keeps nothing, and writes its temporary files into the folder."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "SERVICES": "dynamodb,sqs,s3",
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(directory),
        "HOME": str(directory),
        # Otherwise it opens more ports on all interfaces, and removes Docker containers of the user.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "DOCKER_HOST": "unix:///nonexistent",
    }
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [str(PYTHON), "-c", SERVE, str(listener.fileno())]
        process = subprocess.Popen(command, env=environment, cwd=directory, pass_fds=[listener.fileno()])
    try:
        yield url
    finally:
        process.terminate()
        process.wait(60)
