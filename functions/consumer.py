"""SQS to the pipeline. Only the messages that failed go back to their queue.

Two functions have this handler. One hands scans that take long over to the other, which has few workers and a queue of
its own: however many of those there are, a short scan finds a worker."""

from datetime import timedelta
from typing import Any

from functions.http.partial_batch import Record, RetryLater, answer_batch
from shared import runtime
from shared.db import find_long_scan_queue, get_queue
from shared.records.submissions import Delivery
from shared.storage.queue import Poison, parse_body
from shared.submissions.dead_letter_store import store_dead_letter
from shared.timing import OVERRUN_TIME
from shared.verification.pipeline import process_submission


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    worker, time_left = context.aws_request_id, runtime.time_left(context)
    return answer_batch(event, context, lambda record: process(record, worker, time_left))


async def process(record: Record, worker: str, time_left: timedelta) -> None:
    try:
        message = parse_body(record["body"])
    except Poison as poison:
        await store_dead_letter(record["messageId"], record["body"], str(poison))
        return
    owner = f"{worker}/{record['messageId']}"
    receives = int(record["attributes"]["ApproximateReceiveCount"])
    delivery = Delivery(record["messageId"], receives, message.generation)
    before_end, is_patient = time_left - min(OVERRUN_TIME, time_left / 4), find_long_scan_queue() is None
    processed = await process_submission(message.id, owner, before_end, delivery, is_patient)
    if processed.retry_in is not None:
        await get_queue().retry_in(record["receiptHandle"], processed.retry_in)
        raise RetryLater
