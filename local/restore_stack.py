"""Puts a stack on AWS back to what it was: its table from a restored copy, the objects of its bucket from their earlier
versions. The runbooks in docs/aws.md say what to do before and after.

python -m local.restore_stack --stack NAME table COPY      COPY is a table restored to a point in time
python -m local.restore_stack --stack NAME bucket SINCE    SINCE is when the damage began, such as 2026-11-19T04:00:00Z
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from local.config import StartError
from local.deployment import Client, find_outputs, functions_of

Item = Mapping[str, Any]
PERMANENT = ("content/", "artifact/")  # what versions are made of; the rest expires anyway
READ_AT_ONCE = 100  # keys of one BatchGetItem
WRITTEN_AT_ONCE = 25


def restore_table(stack: str, copy: str, client: Client) -> tuple[int, int]:
    """How many items were written, and how many deleted because the copy has none. Meanwhile no function runs."""
    table, dynamodb = _output(stack, "Table", client), client("dynamodb")
    keys = _keys_of(dynamodb, table)
    if copy == table or _keys_of(dynamodb, copy) != keys:
        raise StartError(f"{copy} is not a restored copy of {table}.")
    with stopped(stack, client):
        written = sum(
            _write(dynamodb, table, [{"PutRequest": {"Item": i}} for i in page]) for page in _pages(dynamodb, copy)
        )
        deleted = 0
        for page in _pages(dynamodb, table, ProjectionExpression=", ".join(keys)):
            gone = _missing_in(dynamodb, copy, page)
            deleted += _write(dynamodb, table, [{"DeleteRequest": {"Key": key}} for key in gone])
    return written, deleted


def restore_bucket(stack: str, since: datetime, client: Client) -> int:
    """How many objects have the bytes again that they had before."""
    bucket, s3 = _output(stack, "Content", client), client("s3")
    restored = 0
    for versions in (found for prefix in PERMANENT for found in _histories(s3, bucket, prefix)):
        damaged = [version for version in versions if version["LastModified"] >= since]
        if damaged and len(damaged) < len(versions):  # else it is new, or as it was
            restored += 1
            # The newest first: each uncovers the one before it, up to what was there before the damage.
            for version in sorted(damaged, key=lambda v: v["LastModified"], reverse=True):
                s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
    return restored


def _histories(s3: Any, bucket: str, prefix: str) -> Iterator[list[Item]]:
    """Of each key its versions, with what marks it as deleted. Those of one key may be on two pages."""
    waiting: list[Item] = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        waiting += [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        waiting.sort(key=itemgetter("Key"))
        groups = [list(group) for _, group in groupby(waiting, itemgetter("Key"))]
        waiting = groups.pop() if page["IsTruncated"] and groups else []
        yield from groups


@contextmanager
def stopped(stack: str, client: Client) -> Iterator[None]:
    """No function of the stack runs: messages and submissions wait, requests are answered 503."""
    aws = client("lambda")
    names = list(functions_of(client, stack))
    reserved = {
        name: aws.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions") for name in names
    }
    mappings = [
        m["UUID"] for name in names for m in aws.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
    ]
    for uuid in mappings:  # first: a queue whose function is throttled gives up on its messages
        aws.update_event_source_mapping(UUID=uuid, Enabled=False)
    for name in names:
        aws.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        yield
    finally:
        for name, before in reserved.items():
            if before is None:
                aws.delete_function_concurrency(FunctionName=name)
            else:
                aws.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=before)
        for uuid in mappings:
            aws.update_event_source_mapping(UUID=uuid, Enabled=True)


def _output(stack: str, name: str, client: Client) -> str:
    outputs = find_outputs(client, stack)
    if outputs is None:
        raise StartError(f"The stack {stack} does not exist.")
    return outputs[name]


def _keys_of(dynamodb: Any, table: str) -> list[str]:
    return [key["AttributeName"] for key in dynamodb.describe_table(TableName=table)["Table"]["KeySchema"]]


def _pages(dynamodb: Any, table: str, **options: str) -> Iterator[list[Item]]:
    for page in dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True, **options):
        yield page["Items"]


def _missing_in(dynamodb: Any, copy: str, keys: list[Item]) -> Iterator[Item]:
    for chunk in _chunks(keys, READ_AT_ONCE):
        waiting: Mapping[str, Any] = {copy: {"Keys": chunk, "ProjectionExpression": ", ".join(chunk[0])}}
        found: list[Item] = []
        while waiting:
            answer = dynamodb.batch_get_item(RequestItems=waiting)
            found += answer["Responses"][copy]
            waiting = answer.get("UnprocessedKeys", {})
        yield from (key for key in chunk if key not in found)


def _write(dynamodb: Any, table: str, requests: list[Any]) -> int:
    for chunk in _chunks(requests, WRITTEN_AT_ONCE):
        waiting: Mapping[str, Any] = {table: chunk}
        while waiting:
            waiting = dynamodb.batch_write_item(RequestItems=waiting).get("UnprocessedItems", {})
    return len(requests)


def _chunks(values: list[Any], size: int) -> Iterator[list[Any]]:
    yield from (values[start : start + size] for start in range(0, len(values), size))


def main(arguments: list[str]) -> None:
    import boto3

    parser = argparse.ArgumentParser(prog="local.restore_stack")
    parser.add_argument("--stack", required=True)
    parser.add_argument("what", choices=("table", "bucket"))
    parser.add_argument("source")
    given = parser.parse_args(arguments)
    client = boto3.Session().client
    if given.what == "table":
        written, deleted = restore_table(given.stack, given.source, client)
        print(f"{written} items written, {deleted} deleted. Now repair the counters: POST /api/v1/admin/recount")
    else:
        since = datetime.fromisoformat(given.source)
        if since.tzinfo is None:
            raise StartError(f"Say of which zone {given.source} is: 2026-11-19T04:00:00Z")
        print(f"{restore_bucket(given.stack, since, client)} objects restored.")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except StartError as error:
        sys.exit(str(error))
