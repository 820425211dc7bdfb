"""SQS to the pipeline. Only the messages that failed go back to their queue.

Long scans have a queue of their own with few workers. The others hand over what takes long: however many of those there
are, a short scan finds a worker."""

from datetime import timedelta
from typing import Any

from functions.http.partial_batch import Record, RetryLater, answer_batch
from shared import runtime
from shared.db import find_long_scan_queue, get_queue
from shared.records.submissions import Delivery
from shared.storage.queue import Poison, Queue, parse_body
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
    before_end, long_scans = time_left - min(OVERRUN_TIME, time_left / 4), find_long_scan_queue()
    is_patient = long_scans is None or _is_from(long_scans, record)
    processed = await process_submission(message.id, owner, before_end, delivery, is_patient)
    if processed.retry_in is not None:
        queue = long_scans if long_scans and is_patient else get_queue()
        await queue.retry_in(record["receiptHandle"], processed.retry_in)
        raise RetryLater


def _is_from(queue: Queue, record: Record) -> bool:
    return str(record["eventSourceARN"]).rpartition(":")[2] == queue.name
