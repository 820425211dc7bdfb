"""Child processes that cannot outlive the runner, not even its SIGKILL."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be imported between fork and exec


async def start_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    output: int | IO[bytes] = asyncio.subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    parent = os.getpid()

    def die_with_parent() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before prctl
            os._exit(1)

    return await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C in the terminal is for the runner alone
        preexec_fn=die_with_parent,
    )


async def stop_child(process: asyncio.subprocess.Process, seconds: float) -> None:
    """SIGTERM, and SIGKILL when that does not help in time."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        kill_child(process)
        await process.wait()


def kill_child(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
