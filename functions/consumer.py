"""SQS to the pipeline. Only the messages that failed go back to the queue."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from functions.http.partial_batch import RetryLater, failures_of, records_of
from shared import runtime, telemetry
from shared.db import get_queue
from shared.records.submissions import Delivery
from shared.storage.queue import Poison, parse_body
from shared.submissions.dead_letter_store import store_dead_letter
from shared.timing import OVERRUN_TIME
from shared.verification.pipeline import process_submission
from shared.worker_context import Env, run_with_worker_env

Record = Mapping[str, Any]


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    time_left = runtime.time_left(context)
    worker = context.aws_request_id
    try:
        return runtime.run(lambda: consume(records_of(event), runtime.worker_env(), worker, time_left), time_left)
    finally:
        telemetry.flush()


async def consume(records: Sequence[Record], env: Env, worker: str, time_left: timedelta) -> dict[str, Any]:
    def process_all() -> Awaitable[list[BaseException | None]]:
        return asyncio.gather(*(process(record, worker, time_left) for record in records), return_exceptions=True)

    return failures_of(records, await run_with_worker_env(env, process_all))


async def process(record: Record, worker: str, time_left: timedelta) -> None:
    try:
        message = parse_body(record["body"])
    except Poison as poison:
        await store_dead_letter(record["messageId"], record["body"], str(poison))
        return
    owner = f"{worker}/{record['messageId']}"
    receives = int(record["attributes"]["ApproximateReceiveCount"])
    delivery = Delivery(record["messageId"], receives, message.generation)
    processed = await process_submission(message.id, owner, time_left - min(OVERRUN_TIME, time_left / 4), delivery)
    if processed.retry_in is not None:
        await get_queue().retry_in(record["receiptHandle"], processed.retry_in)
        raise RetryLater
