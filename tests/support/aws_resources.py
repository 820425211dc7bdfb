"""A test's own tables, queues and buckets, as template.yaml describes them."""

import uuid
from functools import cache
from pathlib import Path

import boto3
import yaml
from botocore.config import Config

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}


def create_resources(endpoint_url: str) -> dict[str, str]:
    """Makes a fresh set and returns the environment that a function would be given for it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    table = resource("Table")
    client("dynamodb", endpoint_url).create_table(
        TableName=name,
        **{key: table[key] for key in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")},
    )
    client("s3", endpoint_url).create_bucket(Bucket=name)
    queue = client("sqs", endpoint_url).create_queue(QueueName=name)["QueueUrl"]
    return CREDENTIALS | {
        "STAGE": "local",
        "TABLE_NAME": name,
        "BUCKET_NAME": name,
        "QUEUE_URL": queue,
        "SECRET_ID": "none",
        "ALLOW_UPLOADS": "true",
        "MAX_ACTIVE": "10000",
        "AWS_ENDPOINT_URL": endpoint_url,
    }


@cache
def client(service: str, endpoint_url: str):
    return boto3.client(
        service,
        endpoint_url=endpoint_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(s3={"addressing_style": "path"}),
    )


def resource(name: str) -> dict:
    return _template()["Resources"][name]["Properties"]


@cache
def _template() -> dict:
    class Loader(yaml.SafeLoader):
        """The parts tests need hold no references, so tags are left unread."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: f"!{suffix}")
    return yaml.load(TEMPLATE.read_text(), Loader=Loader)
