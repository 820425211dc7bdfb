"""Partial batches: the events that functions behind a queue receive, and the response they must return."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.telemetry import logger


class RetryLater(Exception):
    """Nothing failed: the message has its time to reappear, and is reported so that Lambda keeps it."""


def records_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = event.get("Records", [])
    if not records or any(record.get("eventSource") != "aws:sqs" for record in records):
        raise ValueError("This function handles SQS events only.")
    return records


def failures_of(records: Sequence[Mapping[str, Any]], outcomes: Sequence[BaseException | None]) -> dict[str, Any]:
    """Never None, which Lambda would read as "all good". BaseException: a record cancelled at its deadline must return
    to the queue too."""
    failed = []
    for record, outcome in zip(records, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, RetryLater):
                logger.error("message back to the queue", exc_info=outcome, extra={"messageId": record["messageId"]})
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
