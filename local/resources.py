"""Creates the template's tables, queues and buckets where they are missing, on every start."""

import asyncio
from typing import Any

from botocore.exceptions import ClientError

from local.template import Queue, Template
from shared.storage.aws import Aws

CREATE_TABLE = (
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "BillingMode",
    "ProvisionedThroughput",
)


async def create_resources(template: Template, aws: Aws) -> bool:
    """True if a table was created: this is the first start."""
    created = [await _create_table(aws, table) for table in template.tables.values()]
    for queue in template.queues.values():
        await _create_queue(aws, queue)
    # After all queues exist: a redrive policy needs its target.
    for queue in template.queues.values():
        await aws.call("sqs", "SetQueueAttributes", {"QueueUrl": queue.url, "Attributes": queue.attributes})
    for bucket in template.buckets.values():
        await _create_bucket(aws, bucket)
    return any(created)


async def _create_table(aws: Aws, table: dict[str, Any]) -> bool:
    try:
        await aws.call("dynamodb", "CreateTable", {key: table[key] for key in CREATE_TABLE if key in table})
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUseException":
            raise
        await _add_indexes(aws, table)
        return False
    while (await _describe(aws, table))["TableStatus"] != "ACTIVE":  # noqa: ASYNC110 only the service knows
        await asyncio.sleep(0.2)
    if expiry := table.get("TimeToLiveSpecification"):
        params = {"TableName": table["TableName"], "TimeToLiveSpecification": expiry}
        await aws.call("dynamodb", "UpdateTimeToLive", params)
    return True


async def _describe(aws: Aws, table: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = await aws.call("dynamodb", "DescribeTable", {"TableName": table["TableName"]})
    return dict(described["Table"])


async def _add_indexes(aws: Aws, table: dict[str, Any]) -> None:
    """Add indexes that are newer than the stored table."""
    known = {index["IndexName"] for index in (await _describe(aws, table)).get("GlobalSecondaryIndexes", [])}
    for index in table.get("GlobalSecondaryIndexes", []):
        if index["IndexName"] not in known:
            changes = [{"Create": index}]
            params = {"TableName": table["TableName"], "AttributeDefinitions": table["AttributeDefinitions"]}
            await aws.call("dynamodb", "UpdateTable", {**params, "GlobalSecondaryIndexUpdates": changes})


async def _create_queue(aws: Aws, queue: Queue) -> None:
    """Looked for first: one that exists with other attributes is no error, they are set below."""
    try:
        await aws.call("sqs", "GetQueueUrl", {"QueueName": queue.name})
    except ClientError as error:
        if "QueueDoesNotExist" not in error.response["Error"]["Code"] and "NonExistent" not in str(error):
            raise
        await aws.call("sqs", "CreateQueue", {"QueueName": queue.name})


async def _create_bucket(aws: Aws, name: str) -> None:
    try:
        await aws.call("s3", "HeadBucket", {"Bucket": name})
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchBucket"):
            raise
        await aws.call("s3", "CreateBucket", {"Bucket": name})
