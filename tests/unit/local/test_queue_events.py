"""What the response to a batch means for its messages, and the format of batch and schedule events."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.queue_events import make_batch, make_tick, messages_done
from local.template import Queue, Schedule

QUEUE = Queue("jobs", "http://127.0.0.1/000000000000/jobs", "arn:aws:sqs:us-east-1:000000000000:jobs", {}, None)
ALL, NONE = {"a", "b", "c"}, set[str]()


def failed(*ids: Any) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": item} for item in ids]}


ANSWERS: list[tuple[str, Any, set[str]]] = [
    ("null", None, ALL),
    ("an empty map", {}, ALL),
    ("another map", {"statusCode": 200}, ALL),
    ("an empty list of failures", failed(), ALL),
    ("null as list of failures", {"batchItemFailures": None}, ALL),
    ("one failure", failed("b"), {"a", "c"}),
    ("one failure, twice", failed("b", "b"), {"a", "c"}),
    ("all failed", failed("a", "b", "c"), NONE),
    ("a wrong id", failed("b", "x"), NONE),
    ("an empty id", failed(""), NONE),
    ("null as id", failed(None), NONE),
    ("a number as id", failed(1), NONE),
    ("a bad key", {"batchItemFailures": [{"id": "a"}]}, NONE),
    ("ids without a map", {"batchItemFailures": ["a"]}, NONE),
    ("no list", {"batchItemFailures": {"itemIdentifier": "a"}}, NONE),
    ("text", "ok", NONE),
    ("a list", [], NONE),
]


@pytest.mark.parametrize(("value", "done"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_the_response_to_a_batch_decides_which_messages_are_deleted(value: Any, done: set[str]) -> None:
    assert messages_done(["a", "b", "c"], json.dumps(value).encode(), reports_failures=True) == done


def test_a_response_that_is_not_json_deletes_nothing() -> None:
    assert messages_done(["a"], b"oops", reports_failures=True) == NONE


@pytest.mark.parametrize("reports_failures", [True, False])
def test_a_failed_function_deletes_nothing(reports_failures: bool) -> None:
    assert messages_done(["a"], None, reports_failures=reports_failures) == NONE


def test_without_reported_failures_the_response_does_not_matter() -> None:
    assert messages_done(["a", "b", "c"], json.dumps(failed("a")).encode(), reports_failures=False) == ALL


def test_a_batch_has_the_shape_lambda_gives_it() -> None:
    message = {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": "{}",
        "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "5"},
        "MessageAttributes": {"kind": {"StringValue": "x", "DataType": "String"}},
        "MD5OfMessageAttributes": "d",
    }
    (record,) = make_batch([message], QUEUE, "us-east-1")["Records"]
    assert record == {
        "messageId": "m",
        "receiptHandle": "r",
        "body": "{}",
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "5"},
        "messageAttributes": {
            "kind": {"stringValue": "x", "stringListValues": [], "binaryListValues": [], "dataType": "String"}
        },
        "md5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "md5OfMessageAttributes": "d",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE.arn,
        "awsRegion": "us-east-1",
    }


def test_a_tick_has_the_shape_eventbridge_gives_it() -> None:
    tick = make_tick(Schedule("Often", timedelta(1), None), "us-east-1", datetime(2026, 11, 16, 4, 5, 6, tzinfo=UTC))
    assert tick.pop("id")
    assert tick == {
        "version": "0",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "000000000000",
        "time": "2026-11-16T04:05:06Z",
        "region": "us-east-1",
        "resources": ["arn:aws:events:us-east-1:000000000000:rule/Often"],
        "detail": {},
    }
