"""One Lambda runtime process: awslambdaric, and the Runtime API that it polls, on a separate port."""

import asyncio
import codecs
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from aiohttp import web

from local.processes import kill_child, start_python, stop_child

API = "/2018-06-01/runtime"
RESPONSE_LIMIT = 6 * 1024 * 1024 + 100  # the limit of Lambda
INIT_LIMIT = timedelta(seconds=60)  # on AWS 10 s; ten processes may start at once on two cores here


@dataclass(frozen=True)
class Outcome:
    """`response` is what the handler returned, or None with the error as Lambda reports it."""

    response: bytes | None
    error_type: str = ""
    error_message: str = ""

    @property
    def failure(self) -> str | None:
        return None if self.response is not None else f"{self.error_type}: {self.error_message}"


@dataclass
class Invocation:
    payload: bytes
    timeout: timedelta
    request_id: str
    result: "asyncio.Future[Outcome]"
    taken: bool = False


class NotStartedError(Exception):
    """The process exited before it received the invocation; another process may run it."""


class Worker:
    def __init__(
        self, arn: str, timeout: timedelta, on_output: Callable[[str], None], on_exit: Callable[["Worker"], None]
    ) -> None:
        self._arn = arn
        self._timeout = timeout
        self._on_output = on_output
        self._on_exit = on_exit
        self._inbox: asyncio.Queue[Invocation] = asyncio.Queue()
        self._current: Invocation | None = None
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._init_error: Outcome | None = None
        self.idle_since = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Checked with the system: a process that was just killed must not get an event."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def start(self, handler: str, environment: Mapping[str, str], directory: Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self._server = web.ServerRunner(
            web.Server(self._serve, access_log=None, handler_cancellation=True), shutdown_timeout=0.1
        )
        await self._server.setup()
        await web.SockSite(self._server, listener).start()
        command = ["awslambdaric", handler]
        address = {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}"}
        try:
            self._process = await start_python(sys.executable, command, {**environment, **address}, directory)
        except OSError:
            await self._server.cleanup()
            raise
        self._watch = asyncio.create_task(self._watch_process())

    async def started(self) -> Outcome | None:
        """None if the handler is loaded, otherwise the error as Lambda reports it."""
        done, _ = await asyncio.wait({self._started}, timeout=INIT_LIMIT.total_seconds())
        if not done:
            self.kill()
            return Outcome(None, "Sandbox.Timedout", f"Init did not finish within {INIT_LIMIT.seconds} seconds")
        return self._init_error

    async def invoke(self, payload: bytes) -> Outcome:
        result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        invocation = Invocation(payload, self._timeout, str(uuid.uuid4()), result)
        self._current = invocation
        self._inbox.put_nowait(invocation)
        if not self.alive:
            self._process_ended()
        done, _ = await asyncio.wait({result}, timeout=self._timeout.total_seconds())
        self._current = None
        if not done:
            self.kill()
            return _timed_out(invocation)
        self.idle_since = time.monotonic()
        return result.result()

    def kill(self) -> None:
        kill_child(self._process)

    async def stop(self) -> None:
        await stop_child(self._process, seconds=2)
        await self._watch

    # --- the Runtime API ---

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        path = request.path.removeprefix(API)
        if path == "/invocation/next":
            return await self._next()
        body = await _read_all(request)
        if path == "/init/error":
            error = _error(body)
            self._init_error = error
            return web.json_response({"status": "OK"}, status=202)
        return self._finish(path, body)

    async def _next(self) -> web.Response:
        if not self._started.done():
            self._started.set_result(None)
        invocation = await self._inbox.get()
        invocation.taken = True
        deadline = time.time() + invocation.timeout.total_seconds()
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": self._arn,
            "Lambda-Runtime-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0",
            "Content-Type": "application/json",
        }
        return web.Response(body=invocation.payload, headers=headers)

    def _finish(self, path: str, body: bytes) -> web.Response:
        _, _, request_id, kind = f"{path}///".split("/")[:4]
        current = self._current
        if current is None or current.request_id != request_id or current.result.done():
            return web.json_response({"errorType": "InvalidRequestID"}, status=400)
        if kind == "error":
            current.result.set_result(_error(body))
        elif len(body) > RESPONSE_LIMIT:
            current.result.set_result(_too_large())
            return web.json_response({"errorType": "RequestEntityTooLarge"}, status=413)
        else:
            current.result.set_result(Outcome(body))
        return web.json_response({"status": "OK"}, status=202)

    # --- the process ---

    async def _watch_process(self) -> None:
        reading = asyncio.create_task(self._forward_output())
        await self._process.wait()
        self._process_ended()
        self._on_exit(self)
        # A child of the handler may still hold the pipe open.
        await asyncio.wait({reading}, timeout=1)
        reading.cancel()
        await self._server.cleanup()

    async def _forward_output(self) -> None:
        output = self._process.stdout
        assert output is not None
        async for line in _lines(output):
            self._on_output(line)

    def _process_ended(self) -> None:
        reason = _exit_reason(self._process.returncode)
        if not self._started.done():
            self._init_error = self._init_error or Outcome(None, "Runtime.ExitError", reason)
            self._started.set_result(None)
        current = self._current
        if current is None or current.result.done():
            return
        if current.taken:
            message = f"RequestId: {current.request_id} Error: {reason}"
            current.result.set_result(Outcome(None, "Runtime.ExitError", message))
        else:
            current.result.set_exception(NotStartedError(reason))


async def _read_all(request: web.BaseRequest) -> bytes:
    return b"".join([chunk async for chunk in request.content.iter_any()])


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""
    while chunk := await stream.read(65536):
        *complete, pending = (pending + decoder.decode(chunk)).split("\n")
        for line in complete:
            yield line
    if pending:
        yield pending


def _error(body: bytes) -> Outcome:
    try:
        error = json.loads(body)
    except ValueError:
        error = {}
    return Outcome(None, str(error.get("errorType", "Unhandled")), str(error.get("errorMessage", "")))


def _timed_out(invocation: Invocation) -> Outcome:
    seconds = invocation.timeout.total_seconds()
    message = f"RequestId: {invocation.request_id} Error: Task timed out after {seconds:.2f} seconds"
    return Outcome(None, "Sandbox.Timedout", message)


def _too_large() -> Outcome:
    message = f"Response payload size exceeded maximum allowed payload size ({RESPONSE_LIMIT} bytes)."
    return Outcome(None, "Function.ResponseSizeTooLarge", message)


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"Runtime exited with error: signal {-code}"
    return f"Runtime exited with error: exit status {code}"
