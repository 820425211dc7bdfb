"""The AWS emulator: ministack, run by the interpreter of its own virtual environment, on an inherited socket.

ministack saves only on a clean stop. Here a forked child (a point-in-time copy that blocks no request) writes DynamoDB
and SQS together every interval; S3 objects are on disk already. A snapshot is a folder named by its time in
milliseconds and published by one rename.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

SERVICES = ("dynamodb", "sqs", "s3")
SNAPSHOTS_KEPT = 3
MAX_SAVE_SECONDS = 60


def main() -> None:
    options = parse_options()
    from ministack import app

    app.PERSIST_STATE = False  # its own save at shutdown is slow and swallows errors; ours follows below
    if options.restore:
        restore()
    asyncio.run(serve(reject_browsers(app.app), options.socket, options.states, options.interval))
    write_snapshot(options.states, time.time_ns() // 1_000_000)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--restore", action="store_true")
    return parser.parse_args()


def restore() -> None:
    """Load the snapshot in STATE_DIR. The runner has checked that it is complete, so any error is fatal."""
    from ministack.core.persistence import load_state

    for service in SERVICES:
        state = load_state(service)
        if state is None:
            sys.exit(f"the saved state of {service} could not be read")
        importlib.import_module(f"ministack.services.{service}").load_persisted_state(state)


def reject_browsers(app: Any) -> Any:
    """ministack lets every web page read its responses (CORS *). Only browsers send Origin: refuse it."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not any(name == b"origin" for name, _ in scope["headers"]):
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return guarded


async def serve(app: Any, socket_fd: int, states: Path, interval: float) -> None:
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config

    loop = asyncio.get_running_loop()
    stopping, save_now = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGUSR1, save_now.set)
    config = Config()
    config.bind = [f"fd://{socket_fd}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 1
    config.accesslog = None
    saving = asyncio.create_task(save_regularly(states, interval, save_now))
    await hypercorn_serve(app, config, shutdown_trigger=stopping.wait)
    saving.cancel()


async def save_regularly(states: Path, interval: float, save_now: asyncio.Event) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(save_now.wait(), interval)
        save_now.clear()
        await save_in_child(states)


async def save_in_child(states: Path) -> None:
    taken = time.time_ns() // 1_000_000
    pid = os.fork()
    if pid == 0:
        _save_and_exit(states, taken)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    if status:
        sys.stderr.write(f"snapshot {taken} failed with status {status}\n")


def write_snapshot(states: Path, taken: int) -> None:
    """One folder with all services. If nothing changed, the last snapshot is renamed to the new time."""
    contents = {f"{service}.json": _dump(service) for service in SERVICES}
    known = sorted(path for path in states.iterdir() if path.name.isdigit())
    if known and _is_same(known[-1], contents):
        known[-1].rename(states / str(taken))
        return
    partial = states / f"{taken}.partial"
    partial.mkdir()
    for name, content in contents.items():
        (partial / name).write_bytes(content)
    partial.rename(states / str(taken))
    for old in [*known[: 1 - SNAPSHOTS_KEPT], *states.glob("*.partial")]:
        shutil.rmtree(old, ignore_errors=True)


def _save_and_exit(states: Path, taken: int) -> None:
    # Handlers inherited from the parent would wake the parent's loop.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(MAX_SAVE_SECONDS)  # a lock held by another thread at the fork must not block all later saves
    try:
        _disable_deepcopy()
        write_snapshot(states, taken)
    except BaseException as error:  # noqa: BLE001 the child must never return to the parent's loop
        sys.stderr.write(f"snapshot {taken}: {error!r}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _disable_deepcopy() -> None:
    # get_state() deep-copies against concurrent writers; a forked child has none, and the copy costs most of the time.
    import copy

    copy.deepcopy = lambda x, memo=None, _nil=None: x


def _dump(service: str) -> bytes:
    from ministack.core import persistence

    state = importlib.import_module(f"ministack.services.{service}").get_state()
    version = persistence._state_format_version(service)
    wrapped = {"__ministack_format__": version, "payload": state}
    return json.dumps(wrapped, default=persistence._json_default).encode()


def _is_same(snapshot: Path, contents: dict[str, bytes]) -> bool:
    files = {name: snapshot / name for name in contents}
    return all(files[name].is_file() and files[name].read_bytes() == content for name, content in contents.items())


if __name__ == "__main__":
    main()
