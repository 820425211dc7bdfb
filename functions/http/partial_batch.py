"""Partial batches: the events that functions behind a queue receive, and the response they must return."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from shared import runtime, telemetry
from shared.telemetry import logger
from shared.worker_context import Env, run_with_worker_env

Record = Mapping[str, Any]
Work = Callable[[Record], Awaitable[None]]


class RetryLater(Exception):
    """Nothing failed: the message has its time to reappear, and is reported so that Lambda keeps it."""


def answer_batch(event: dict[str, Any], context: Any, work: Work) -> dict[str, Any]:
    try:
        return runtime.run(lambda: settle(records_of(event), runtime.worker_env(), work), runtime.time_left(context))
    finally:
        telemetry.flush()


async def settle(records: Sequence[Record], env: Env, work: Work) -> dict[str, Any]:
    """All at once: one that hangs delays no other."""

    def work_on_all() -> Awaitable[list[BaseException | None]]:
        return asyncio.gather(*map(work, records), return_exceptions=True)

    return failures_of(records, await run_with_worker_env(env, work_on_all))


def records_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = event.get("Records", [])
    if not records or any(record.get("eventSource") != "aws:sqs" for record in records):
        raise ValueError("This function handles SQS events only.")
    return records


def failures_of(records: Sequence[Record], outcomes: Sequence[BaseException | None]) -> dict[str, Any]:
    """Never None, which Lambda would read as "all good". BaseException: a record cancelled at its deadline must return
    to the queue too."""
    failed = []
    for record, outcome in zip(records, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, RetryLater):
                logger.error("message back to the queue", exc_info=outcome, extra={"messageId": record["messageId"]})
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
