"""A function under SnapStart, simulated on this machine: initialised and used once, frozen by the runtime's own hooks
runner, copied by fork where Lambda would restore it. Each process prints a report.

    python -m tests.support.restored_copies [no-hooks]
"""

import json
import os
import random
import socket
import sys
import uuid
from datetime import timedelta
from typing import Any

from awslambdaric import bootstrap
from snapshot_restore_py import get_after_restore, get_before_snapshot

from shared import runtime
from tests.support.builders import a_bundle
from tests.support.gateway_events import call

COPIES = 2
REPORT = "report: "
FUNCTION = "functions.submissions_api.handler"
FILES = {"SKILL.md": b"---\nname: greeter\ndescription: Greets.\n---\n"}


class ForkingClient:
    """The runtime client, as far as SnapStart asks it: `restore_next` waits for a restore, and returns in each copy."""

    def restore_next(self) -> None:
        state = random.getstate()
        report(sockets=len(open_sockets()), has_processes=has_children())
        failed = 0
        for _ in range(COPIES):
            pid = os.fork()
            if pid == 0:
                random.setstate(state)  # Python reseeds it after a fork; nothing does after a restore
                return
            failed |= os.waitpid(pid, 0)[1]
        os._exit(1 if failed else 0)


def main(*options: str) -> None:
    handler = bootstrap._get_handler(FUNCTION)
    runtime.run(lambda: runtime.request_env().scans.scan(FILES), timedelta(seconds=30))
    use(handler)
    if "no-hooks" in options:
        get_before_snapshot().clear()
        get_after_restore().clear()
    bootstrap.on_init_complete(ForkingClient(), None)
    use(handler)


def use(handler: Any) -> None:
    """Two requests, so that the second finds everything warm."""
    answers = [call(handler, "POST /api/v1/submissions", body=a_new_skill()) for _ in range(2)]
    report(
        statuses=[answer.status for answer in answers],
        ids=[answer.body.get("id") for answer in answers],
        random=random.random(),
        ports=[found.getsockname()[1] for found in open_sockets() if found.family == socket.AF_INET],
        scan_processes=len(runtime.request_env().scans._idle),
    )


def a_new_skill() -> dict[str, Any]:
    bundle = a_bundle(f"s{uuid.uuid4().hex}")
    return {"bundle": {**bundle, "files": [{"path": path, "content": text} for path, text in bundle["files"]]}}


def report(**facts: Any) -> None:
    print(REPORT + json.dumps(facts), flush=True)  # among the lines of the log


def open_sockets() -> list[socket.socket]:
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    return [socket.socket(fileno=os.dup(descriptor)) for descriptor in descriptors if _is_socket(descriptor)]


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:  # the one that listed the others
        return False


def has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
