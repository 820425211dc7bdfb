"""Creates the template's tables, queues and buckets where they are missing, on every start."""

from typing import Any

from botocore.exceptions import ClientError

from local.template import Template

CREATE_TABLE = (
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "BillingMode",
    "ProvisionedThroughput",
)


async def create_resources(template: Template, dynamodb: Any, sqs: Any, s3: Any) -> bool:
    """True if a table was created: this is the first start."""
    created = [await _create_table(dynamodb, table) for table in template.tables.values()]
    for queue in template.queues.values():
        await _create_queue(sqs, queue.name)
    # After all queues exist: a redrive policy needs its target.
    for queue in template.queues.values():
        await sqs.set_queue_attributes(QueueUrl=queue.url, Attributes=queue.attributes)
    for bucket in template.buckets.values():
        await _create_bucket(s3, bucket)
    return any(created)


async def _create_table(dynamodb: Any, table: dict[str, Any]) -> bool:
    try:
        await dynamodb.create_table(**{key: table[key] for key in CREATE_TABLE if key in table})
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUseException":
            raise
        await _add_indexes(dynamodb, table)
        return False
    await dynamodb.get_waiter("table_exists").wait(TableName=table["TableName"])
    expiry = table.get("TimeToLiveSpecification")
    if expiry:
        await dynamodb.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=expiry)
    return True


async def _add_indexes(dynamodb: Any, table: dict[str, Any]) -> None:
    """Add indexes that are newer than the stored table."""
    name = table["TableName"]
    existing = (await dynamodb.describe_table(TableName=name))["Table"].get("GlobalSecondaryIndexes", [])
    known = {index["IndexName"] for index in existing}
    for index in table.get("GlobalSecondaryIndexes", []):
        if index["IndexName"] not in known:
            await dynamodb.update_table(
                TableName=name,
                AttributeDefinitions=table["AttributeDefinitions"],
                GlobalSecondaryIndexUpdates=[{"Create": index}],
            )


async def _create_queue(sqs: Any, name: str) -> None:
    try:
        await sqs.get_queue_url(QueueName=name)
    except sqs.exceptions.QueueDoesNotExist:
        await sqs.create_queue(QueueName=name)


async def _create_bucket(s3: Any, name: str) -> None:
    try:
        await s3.head_bucket(Bucket=name)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchBucket"):
            raise
        await s3.create_bucket(Bucket=name)
