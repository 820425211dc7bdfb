"""Events of SQS mappings and schedules, and what the function's response means for the messages. Pure."""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from local.cloudformation import ACCOUNT
from local.template import Queue, Schedule


def make_batch(messages: Sequence[dict[str, Any]], queue: Queue, region: str) -> dict[str, Any]:
    return {"Records": [_record(message, queue, region) for message in messages]}


def messages_done(message_ids: Sequence[str], response: bytes | None, *, reports_failures: bool) -> set[str]:
    """The messages to delete. `response` is None if the function failed; an invalid response deletes nothing."""
    everything, nothing = set(message_ids), set[str]()
    if response is None:
        return nothing
    if not reports_failures:
        return everything
    try:
        value = json.loads(response)
    except ValueError:
        return nothing
    if value is None:
        return everything
    if not isinstance(value, dict):
        return nothing
    failed = _failed_ids(value.get("batchItemFailures"))
    if failed is None or not failed <= everything:
        return nothing
    return everything - failed


def make_tick(schedule: Schedule, region: str, now: datetime) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [f"arn:aws:events:{region}:{ACCOUNT}:rule/{schedule.name}"],
        "detail": {},
    }


def _record(message: dict[str, Any], queue: Queue, region: str) -> dict[str, Any]:
    record = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {
            name: _message_attribute(value) for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.arn,
        "awsRegion": region,
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def _message_attribute(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "stringValue": value.get("StringValue"),
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value["DataType"],
    }


def _failed_ids(failures: Any) -> set[str] | None:
    """None when the list is malformed."""
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return None
    ids = [failure.get("itemIdentifier") if isinstance(failure, dict) else None for failure in failures]
    named = {item for item in ids if isinstance(item, str) and item}
    return named if all(item in named for item in ids) else None
