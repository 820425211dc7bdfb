"""Child processes that cannot outlive the runner, even if it is killed."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# The child sets PR_SET_PDEATHSIG before anything else runs. Doing that between fork and exec (preexec_fn) can hang the
# runner: it has threads, and a lock that one of them holds stays locked in the child.
DIE_WITH_PARENT = """\
import ctypes, os, runpy, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv.pop(1)):
    os._exit(1)
sys.argv.pop(0)
if sys.argv[0].endswith('.py'):
    runpy.run_path(sys.argv[0], run_name='__main__')
else:
    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""


async def start_python(
    python: str | Path,
    target: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    output: int | IO[bytes] = asyncio.subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    """Runs a module or a script file, with its arguments."""
    return await asyncio.create_subprocess_exec(
        str(python),
        "-c",
        DIE_WITH_PARENT,
        str(os.getpid()),
        *target,
        env=environment,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C in the terminal is for the runner only
    )


async def stop_child(process: asyncio.subprocess.Process, seconds: float) -> None:
    """SIGTERM, then SIGKILL after the timeout."""
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
