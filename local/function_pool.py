"""The runtime processes of one function: started on demand up to its concurrency, kept warm, reaped when idle."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from local.cloudformation import ACCOUNT, STACK
from local.config import Config
from local.console import Console
from local.template import Function
from local.worker import NotStartedError, Outcome, Worker

CONCURRENCY = 4  # for functions without reserved concurrency; on AWS they share that of the account
IDLE_LIMIT = timedelta(minutes=5)
PAYLOAD_LIMIT = 6 * 1024 * 1024
STARTS_PER_INVOCATION = 3
PASSED_THROUGH = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True)
class Invoked:
    outcome: Outcome
    milliseconds: float
    cold: bool


class StartLimit:
    """Limits how many processes load their code at once; a waiting invocation may get an idle process instead."""

    def __init__(self) -> None:
        self._free = max(2, os.cpu_count() or 1)
        self._changed = asyncio.Condition()

    async def idle_or_permit(self, take_idle: Callable[[], Worker | None]) -> Worker | None:
        """None is a permit to start a process; the caller must release it."""
        async with self._changed:
            while (idle := take_idle()) is None and not self._free:
                await self._changed.wait()
            if idle is None:
                self._free -= 1
            return idle

    async def release(self) -> None:
        self._free += 1
        await self.notify()

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class FunctionPool:
    def __init__(
        self,
        function: Function,
        environment: Mapping[str, str],
        code: Path,
        region: str,
        console: Console,
        start_limit: StartLimit,
        on_change: Callable[[], None],
    ) -> None:
        self.function = function
        self.concurrency = function.reserved or CONCURRENCY
        self._environment, self._code = environment, code
        self._arn = f"arn:aws:lambda:{region}:{ACCOUNT}:function:{STACK}-{function.name}"
        self._console, self._start_limit, self._on_change = console, start_limit, on_change
        self._slots = asyncio.Semaphore(self.concurrency)
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []

    @property
    def is_full(self) -> bool:
        return self._slots.locked()

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    async def invoke(self, payload: bytes) -> Invoked:
        if len(payload) > PAYLOAD_LIMIT:
            return Invoked(Outcome(None, "RequestTooLarge", f"the event exceeds {PAYLOAD_LIMIT} bytes"), 0, cold=False)
        async with self._slots:
            start = time.monotonic()
            cold, outcome = await self._invoke_once(payload)
            return Invoked(outcome, (time.monotonic() - start) * 1000, cold)

    def print_invocation(self, trigger: str, invoked: Invoked) -> None:
        self._console.invocation(
            self.function.name, trigger, invoked.milliseconds, cold=invoked.cold, failure=invoked.outcome.failure
        )

    async def reap(self) -> None:
        """Stop processes that were idle for long, but keep one warm."""
        oldest = time.monotonic() - IDLE_LIMIT.total_seconds()
        spare = [worker for worker in self._idle if worker.idle_since < oldest][: len(self._workers) - 1]
        self._idle = [worker for worker in self._idle if worker not in spare]
        await asyncio.gather(*(worker.stop() for worker in spare))

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in list(self._workers)))

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    async def _invoke_once(self, payload: bytes) -> tuple[bool, Outcome]:
        for _ in range(STARTS_PER_INVOCATION):
            worker = await self._start_limit.idle_or_permit(self._take_idle)
            cold = worker is None
            if worker is None:
                started = await self._start()
                if isinstance(started, Outcome):
                    return True, started
                worker = started
            try:
                outcome = await worker.invoke(payload)
            except NotStartedError:
                continue
            if worker.alive:
                self._idle.append(worker)
                await self._start_limit.notify()
            return cold, outcome
        return True, Outcome(None, "Runtime.ExitError", "every runtime process exited before it received the event")

    def _take_idle(self) -> Worker | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
        return None

    async def _start(self) -> Worker | Outcome:
        worker = Worker(self._arn, self.function.timeout, self._output, self._forget)
        try:
            await worker.start(self.function.handler, self._environment, self._code)
            self._workers.append(worker)
            self._on_change()
            return await worker.started() or worker
        except OSError as error:
            return Outcome(None, "Runtime.StartError", f"the process could not be started: {error}")
        finally:
            await self._start_limit.release()

    def _output(self, line: str) -> None:
        self._console.function_output(self.function.name, line)

    def _forget(self, worker: Worker) -> None:
        self._workers.remove(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._on_change()


def function_environment(function: Function, config: Config, endpoint: str, region: str) -> dict[str, str]:
    """The environment of a Lambda process, plus the local AWS endpoint. No other variable of the user is passed."""
    name = f"{STACK}-{function.name}"
    given = config.environment
    temporary = str(config.directory / "tmp")
    return {
        **{key: given[key] for key in PASSED_THROUGH if key in given},
        "NO_PROXY": ",".join(filter(None, [given.get("NO_PROXY"), "127.0.0.1", "localhost"])),
        **function.environment,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_FORMAT": function.log_format,
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "_HANDLER": function.handler,
        "LAMBDA_TASK_ROOT": str(config.code),
        "POWERTOOLS_TRACE_DISABLED": "true",  # there is no X-Ray daemon
        "PYTHONPATH": str(config.code),
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": temporary,
        "TMPDIR": temporary,
        "TIME_SCALE": f"{config.time_scale:g}",
        "SECRETS_FILE": str(config.secrets),
        **_key_files(function, config),
    }


def _key_files(function: Function, config: Config) -> dict[str, str]:
    """Of the keys that only some functions get."""
    files = {
        "SESSION_SECRET": config.session_secret,
        "OWNER_SESSION_SECRET": config.owner_session_secret,
        "RECEIPT_SECRET": config.receipt_secret,
    }
    return {f"{name}_FILE": str(file) for name, file in files.items() if f"{name}_ID" in function.environment}
