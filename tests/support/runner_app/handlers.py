"""Handlers that show what the runner gave them."""

import json
import os
import time

import boto3

_calls: list[str] = []
_dynamodb = boto3.client("dynamodb")


def echo(event, context):
    _calls.append(context.aws_request_id)
    seen = {
        "event": event,
        "pid": os.getpid(),
        "count": len(_calls),
        "environment": dict(os.environ),
        "requestId": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "remainingMs": context.get_remaining_time_in_millis(),
    }
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(seen)}


def answers(event, context):
    match event["pathParameters"]["kind"]:
        case "raises":
            raise ValueError("no such thing")
        case "exits":
            os._exit(3)
        case "malformed":
            return {"statusCode": 200, "body": {"not": "text"}}
        case "inferred":
            return {"plain": True}
        case "binary":
            return {
                "statusCode": 200,
                "headers": {"content-type": "image/png"},
                "body": "AAH/",
                "isBase64Encoded": True,
            }
        case "cookies":
            return {"statusCode": 204, "cookies": ["a=1; HttpOnly", "b=2"]}
        case "huge":
            return {"statusCode": 200, "body": "x" * 7_000_000}


def slow(event, context):
    time.sleep(float(event["pathParameters"]["seconds"]))
    return {"statusCode": 200, "body": "done"}


def work(event, context):
    """A body says what shall happen to it; every attempt is written down first."""
    failures = []
    for record in event["Records"]:
        job = json.loads(record["body"])
        _write(f"job:{job['id']}", record, pid=os.getpid())
        if job.get("hang"):
            time.sleep(job["hang"])
        if job.get("fail"):
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def tick(event, context):
    _write("tick", event)


def _write(key, event, **facts):
    _dynamodb.update_item(
        TableName=os.environ["TABLE_NAME"],
        Key={"pk": {"S": key}},
        UpdateExpression="SET event = :event, facts = :facts ADD times :one",
        ExpressionAttributeValues={
            ":event": {"S": json.dumps(event)},
            ":facts": {"S": json.dumps(facts)},
            ":one": {"N": "1"},
        },
    )
