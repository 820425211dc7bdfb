"""Triggers other than HTTP: queue mappings and schedules. Both stop without losing work in progress."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.console import Console
from local.function_pool import FunctionPool
from local.queue_events import make_batch, make_tick, messages_done
from local.template import Queue, QueueMapping, Schedule

# Short enough for a quick stop: a poll is never cancelled, because the messages in its response would stay invisible.
POLL_SECONDS = 1
Call = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
PAUSE_AFTER_ERROR = 1.0


class Tasks:
    """Running tasks that a stop waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)


class QueuePoller:
    """Receives batches for one mapping, with at most its concurrency in flight."""

    def __init__(
        self, mapping: QueueMapping, queue: Queue, pool: FunctionPool, sqs: Call, region: str, console: Console
    ) -> None:
        self._mapping, self._queue, self._pool = mapping, queue, pool
        self._sqs, self._region, self._console = sqs, region, console
        self._slots = asyncio.Semaphore(min(mapping.concurrency or pool.concurrency, pool.concurrency))
        self._batches = Tasks()
        self._stopping = False
        self._is_failing = False

    async def run(self) -> None:
        while not self._stopping:
            await self._slots.acquire()
            messages = await self._receive()
            if messages and not self._stopping:
                self._batches.start(self._process(messages))
                continue
            self._slots.release()
            await self._return_to_queue(messages)

    async def stop(self, seconds: float) -> None:
        self._stopping = True
        await self._batches.finish(seconds)

    async def _receive(self) -> list[dict[str, Any]]:
        try:
            response = await self._sqs(
                "ReceiveMessage",
                {
                    "QueueUrl": self._queue.url,
                    "MaxNumberOfMessages": self._mapping.batch_size,
                    "WaitTimeSeconds": POLL_SECONDS,
                    "MessageSystemAttributeNames": ["All"],
                    "MessageAttributeNames": ["All"],
                },
            )
        except (BotoCoreError, ClientError) as error:
            await self._warn_once(error)
            return []
        self._is_failing = False
        messages: list[dict[str, Any]] = response.get("Messages", [])
        return messages

    async def _warn_once(self, error: Exception) -> None:
        if not self._is_failing and not self._stopping:
            self._console.warn(f"{self._queue.name} cannot be read ({error}); retrying.")
        self._is_failing = True
        await asyncio.sleep(PAUSE_AFTER_ERROR)

    async def _process(self, messages: list[dict[str, Any]]) -> None:
        try:
            event = make_batch(messages, self._queue, self._region)
            invoked = await self._pool.invoke(json.dumps(event).encode())
            ids = [message["MessageId"] for message in messages]
            response = invoked.outcome.response
            done = messages_done(ids, response, reports_failures=self._mapping.reports_failures)
            self._pool.print_invocation(f"SQS {self._mapping.queue} {len(done)} of {len(ids)} done", invoked)
            await self._delete([message for message in messages if message["MessageId"] in done])
        finally:
            self._slots.release()

    async def _delete(self, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        entries = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]
        try:
            response = await self._sqs("DeleteMessageBatch", {"QueueUrl": self._queue.url, "Entries": entries})
        except (BotoCoreError, ClientError) as error:
            self._console.warn(f"{len(entries)} messages of {self._queue.name} were not deleted ({error}).")
            return
        for failed in response.get("Failed", []):
            self._console.warn(f"A message of {self._queue.name} was not deleted: {failed.get('Message')}")

    async def _return_to_queue(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            about = {"QueueUrl": self._queue.url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            await self._sqs("ChangeMessageVisibility", about)


class Ticker:
    """Runs one schedule: first one period after the start, and never beyond the function's concurrency."""

    def __init__(self, schedule: Schedule, pool: FunctionPool, region: str, console: Console) -> None:
        self._schedule, self._pool = schedule, pool
        self._region, self._console = region, console
        self._runs = Tasks()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        period = self._schedule.period.total_seconds()
        due = loop.time() + period
        while not await self._stopped_before(due):
            due = max(due + period, loop.time())
            if self._pool.is_full:
                self._console.warn(f"{self._pool.function.name} is still running; this tick is skipped.")
            else:
                self._runs.start(self._fire())

    async def stop(self, seconds: float) -> None:
        self._stopping.set()
        await self._runs.finish(seconds)

    async def _stopped_before(self, due: float) -> bool:
        try:
            async with asyncio.timeout_at(due):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def _fire(self) -> None:
        event = self._schedule.input or json.dumps(make_tick(self._schedule, self._region, datetime.now(UTC)))
        invoked = await self._pool.invoke(event.encode())
        self._pool.print_invocation(f"schedule {self._schedule.name}", invoked)
