"""The whole platform on one machine: starts the parts in order and stops them in reverse."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError

from local.config import LOOPBACK, Config, StartError
from local.console import Console
from local.function_pool import FunctionPool, StartLimit, function_environment
from local.gateway import Exposure, Gateway, listen
from local.resources import create_resources
from local.samples import submit_samples, wait_for_verdicts
from local.store_process import StoreProcess
from local.template import Template, read_template
from local.tokens import prepare_secrets, write_private
from local.triggers import POLL_SECONDS, Call, QueuePoller, Ticker
from shared.settings import load_settings
from shared.storage.aws import Aws

REGION = "us-east-1"
READY_SECONDS = 60.0
FINISH_SECONDS = 5.0
REAP_SECONDS = 30.0
SAMPLE_SECONDS = 60.0
LEAST_ROOM = 50_000_000  # bytes
PATIENCE_SECONDS = 30.0
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 only compared with


async def run(config: Config) -> int:
    """Run until a signal; the exit code is 0 if every part ended as it should."""
    with _writable(config.log_file, "LOG_FILE"):
        console = Console(config.log_level, config.log_file)
    stopping = _stop_signals()
    with _writable(config.directory, "LOCAL_DIR"):
        (config.directory / "tmp").mkdir(parents=True, exist_ok=True)
        lock = _lock(config)
    with lock:
        return await Runner(config, console, stopping).run()


class Runner:
    def __init__(self, config: Config, console: Console, stopping: asyncio.Event) -> None:
        self._config, self._console, self._stopping = config, console, stopping
        self._region = config.environment.get("AWS_REGION") or REGION if config.endpoint else REGION
        self._pools: dict[str, FunctionPool] = {}
        self._info: dict[str, Any] = {}
        self._store: StoreProcess | None = None
        self._is_clean = True
        self._has_info = True

    async def run(self) -> int:
        expiry = self._read_template("http://127.0.0.1").expiry  # fail before anything starts
        with listen(self._config.host, self._config.port) as listener:
            url = self._url(listener.getsockname()[1])
            was_killed = self._config.info.exists()
            scanners = self._config.environment.get("EXTERNAL_SCANNERS", "").split()
            with _writable(self._config.directory, "LOCAL_DIR"):
                self._token = prepare_secrets(self._config.directory, self._config.admin_token, scanners)
            async with AsyncExitStack() as parts:
                endpoint = await parts.enter_async_context(self._aws(was_killed, expiry))
                template = self._read_template(endpoint)
                aws = self._client(endpoint)
                parts.push_async_callback(aws.close)
                is_first = await self._create_resources(template, aws)
                self._publish_info(url, endpoint, template)
                gateway = await parts.enter_async_context(self._functions(template, endpoint, partial(aws.call, "sqs")))
                await gateway.start(listener)
                await self._serve(url, is_first)
        return self._stopped()

    # --- parts, each stopped by leaving it ---

    @asynccontextmanager
    async def _aws(self, was_killed: bool, expiry: Mapping[str, int]) -> AsyncIterator[str]:
        if self._config.endpoint:
            self._console.say(f"Using AWS at {self._config.endpoint}")
            yield self._config.endpoint.rstrip("/")
            return
        self._store = StoreProcess(self._config.directory, expiry)
        reported = await self._store.start()
        if was_killed:
            self._console.say("The last run did not stop cleanly; everything that it acknowledged is here.")
        for line in reported:
            self._console.say(f"The store {line}.")
        watching = asyncio.create_task(self._watch_store(self._store))
        try:
            yield self._store.endpoint
        finally:
            watching.cancel()
            self._is_clean = await self._store.stop()

    @asynccontextmanager
    async def _functions(self, template: Template, endpoint: str, sqs: Call) -> AsyncIterator[Gateway]:
        start_limit = StartLimit()
        for name, function in template.functions.items():
            environment = function_environment(function, self._config, endpoint, self._region)
            self._pools[name] = FunctionPool(
                function, environment, self._config.code, self._region, self._console, start_limit, self._write_info
            )
        triggers = self._triggers(template, sqs)
        running = [asyncio.create_task(trigger.run()) for trigger in triggers]
        for task in running:  # a trigger ends only when stopped; an error in one stops the runner
            task.add_done_callback(lambda _: self._stopping.set())
        reaping = asyncio.create_task(self._reap_regularly())
        gateway = Gateway(self._pools, self._console, Exposure.of(self._config, endpoint))
        try:
            yield gateway
        finally:
            self._console.say("Stopping: waiting for running invocations.")
            await asyncio.gather(*(part.stop(FINISH_SECONDS) for part in (gateway, *triggers)))
            await _end(running, POLL_SECONDS + 1)
            await _end([reaping], 0)
            await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

    def _triggers(self, template: Template, sqs: Call) -> list[QueuePoller | Ticker]:
        triggers: list[QueuePoller | Ticker] = []
        for pool in self._pools.values():
            for mapping in pool.function.mappings:
                queue = template.queues[mapping.queue]
                triggers.append(QueuePoller(mapping, queue, pool, sqs, self._region, self._console))
            triggers += [Ticker(schedule, pool, self._region, self._console) for schedule in pool.function.schedules]
        return triggers

    def _client(self, endpoint: str) -> Aws:
        """The client of the functions, which starts in a tenth of the SDK's time. It knows only where AWS is."""
        names = dict.fromkeys(("TABLE_NAME", "BUCKET_NAME", "QUEUE_URL", "SECRET_ID"), "-")
        where = {"AWS_REGION": self._region, "AWS_ENDPOINT_URL": endpoint}
        about = {"STAGE": "local", "ALLOW_UPLOADS": "true", "MAX_ACTIVE": "1", **names, **where}
        # Patient: messages in an answer without a waiting caller stay invisible until their visibility timeout.
        return Aws(load_settings(about), silence_seconds=PATIENCE_SECONDS)

    async def _create_resources(self, template: Template, aws: Aws) -> bool:
        try:
            return await create_resources(template, aws)
        except (BotoCoreError, ClientError) as error:
            raise StartError(f"The tables, queues and buckets could not be created: {error}") from error

    def _read_template(self, endpoint: str) -> Template:
        config = self._config
        return read_template(
            config.template, endpoint, self._region, config.time_scale, config.environment, limits=config.is_public
        )

    def _url(self, port: int) -> str:
        """Of this platform as this machine reaches it."""
        host = self._config.host if self._config.is_public and self._config.host not in ANY_ADDRESS else LOOPBACK
        return f"{'https' if self._config.tls else 'http'}://{host}:{port}"

    # --- from start to stop ---

    async def _serve(self, url: str, is_first: bool) -> None:
        starting = asyncio.create_task(self._announce(url, is_first))
        await self._stopping.wait()
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled() and (error := starting.exception()):
            raise error

    async def _announce(self, url: str, is_first: bool) -> None:
        self._console.say(
            f"{len(self._pools)} functions from {self._config.template.name}; waiting for the health check ..."
        )
        problem = await self._wait_until_ready(url)
        if problem:
            self._console.warn(f"{url}/api/v1/health did not return 200 within {READY_SECONDS:.0f} s: {problem}")
            return
        token = self._token if self._console.is_terminal else f"in {self._config.directory / 'admin-token'}"
        self._console.say(
            f"\n  Ready        {url}\n"
            f"  Admin token  {token}\n"
            f"  Data         {self._config.directory}\n"
            f"  Stop         Ctrl-C (the data is kept)\n"
        )
        self._info["ready"] = True
        self._write_info()
        if is_first and self._config.samples:
            await self._submit_samples(url)

    async def _wait_until_ready(self, url: str) -> str | None:
        """None once the platform is healthy, otherwise the problem."""
        deadline = time.monotonic() + READY_SECONDS
        problem = "no response"
        timeout = aiohttp.ClientTimeout(total=READY_SECONDS)
        # A certificate names a host, not the address by which this machine reaches itself.
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=False)) as session:
            while time.monotonic() < deadline:
                try:
                    async with session.get(f"{url}/api/v1/health") as response:
                        if response.status == 200:
                            return None
                        problem = f"{response.status} {(await response.text())[:500]}"
                except (aiohttp.ClientError, TimeoutError) as error:
                    problem = repr(error)
                await asyncio.sleep(0.5)
        return problem

    async def _submit_samples(self, url: str) -> None:
        folder = self._config.code / "samples"
        accepted, problems = await submit_samples(url, folder)
        for problem in problems:
            self._console.warn(f"A sample was not accepted: {problem}")
        if accepted:
            self._console.say(f"First start: submitted {accepted} sample skills from {folder.name}/.")
        if accepted and (verdicts := await wait_for_verdicts(url, SAMPLE_SECONDS)):
            self._console.say(f"\n  The samples are scanned: {verdicts}. Open {url}\n")

    def _stopped(self) -> int:
        if self._is_clean:
            self._config.info.unlink(missing_ok=True)
            self._console.say("Stopped.")
            return 0
        self._console.warn("Stopped, but the store did not end cleanly; everything that it acknowledged is kept.")
        return 1

    # --- in the background ---

    async def _watch_store(self, store: StoreProcess) -> None:
        """What it answered is on disk, and requests wait at its socket: it is started again. If it keeps ending, the
        platform stops with an error, so that a service manager or a person sees it."""
        while True:
            code = await store.exited()
            self._console.warn(f"The store exited with {code} (see {store.log}).")
            try:
                reported = await store.start_again()
            except StartError as error:
                self._console.warn(f"{error} The platform stops; everything that it acknowledged is kept.")
                self._stopping.set()
                return
            self._console.say("".join(["The store was started again", *(f"; it {line}" for line in reported), "."]))
            self._info["emulatorPid"] = store.pid
            self._write_info()

    async def _reap_regularly(self) -> None:
        was_full = False
        while True:
            is_full = shutil.disk_usage(self._config.directory).free < LEAST_ROOM
            if is_full and not was_full:
                self._console.warn(
                    f"Less than {LEAST_ROOM // 10**6} MB are free on the disk of {self._config.directory}. Once it is"
                    " full, nothing new is accepted until there is room; everything that was acknowledged is kept."
                )
            was_full = is_full
            await asyncio.sleep(REAP_SECONDS)
            for pool in self._pools.values():
                await pool.reap()

    # --- platform.json and the console ---

    def _publish_info(self, url: str, endpoint: str, template: Template) -> None:
        queues = template.queues.values()
        source = next((queue for queue in queues if queue.dead_letters_to), next(iter(queues), None))
        dead = next((queue.url for queue in queues if source and queue.arn == source.dead_letters_to), None)
        self._info = {
            "pid": os.getpid(),
            "ready": False,
            "url": url,
            "endpoint": endpoint,
            "adminToken": self._token,
            "table": next((table["TableName"] for table in template.tables.values()), None),
            "bucket": next(iter(template.buckets.values()), None),
            "queueUrl": source.url if source else None,
            "deadLetterQueueUrl": dead,
            "queues": {name: queue.url for name, queue in template.queues.items()},
            "emulatorPid": self._store.pid if self._store else None,
        }
        self._write_info()

    def _write_info(self) -> None:
        """The platform works without it."""
        workers = {name: pool.pids for name, pool in self._pools.items()}
        had_info = self._has_info
        try:
            write_private(self._config.info, json.dumps({**self._info, "workers": workers}, indent=2) + "\n")
            self._has_info = True
        except OSError as error:
            self._has_info = False
            if had_info:
                self._console.warn(f"{self._config.info} could not be written: {error.strerror}.")


async def _end(tasks: list["asyncio.Task[None]"], seconds: float) -> None:
    """Give the tasks time to end, then cancel them. An error in a task is raised here."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error


@contextmanager
def _writable(path: Path | None, setting: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StartError(f"{path} cannot be written: {error.strerror}. Choose another place with {setting}.") from error


def _lock(config: Config) -> IO[str]:
    file = (config.directory / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise StartError(
            f"Another runner is using {config.directory}; stop it, or choose another folder: LOCAL_DIR=.local2 make run"
        ) from error
    return file


def _stop_signals() -> asyncio.Event:
    """The first signal stops cleanly, the second at once: the child processes die with this one."""
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            print("Stopped at once; everything that was acknowledged is kept.", flush=True)
            os._exit(1)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return stopping
