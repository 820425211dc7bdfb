"""The table and the bucket of a stack are put back, on moto."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import boto3
import pytest
from moto import mock_aws

from local import restore_stack
from local.config import StartError
from tests.support.aws_resources import resource
from tests.support.moto_stack import FUNCTION, TRUST, age_objects, body_of

STACK, TABLE, BUCKET = "damaged", "damaged-table", "damaged-bucket"


@pytest.fixture
def aws():
    with mock_aws():
        client = partial(boto3.client, region_name="us-east-1")
        schema = {
            name: resource("Table")[name] for name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
        }
        client("dynamodb").create_table(TableName=TABLE, BillingMode="PAY_PER_REQUEST", **schema)
        client("s3").create_bucket(Bucket=BUCKET)
        client("s3").put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        queue = client("sqs").create_queue(QueueName="q")["QueueUrl"]
        arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        resources = {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [TRUST]}}},
            "Consumer": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION},
            "Pages": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION},
        }
        outputs = {"Table": {"Value": TABLE}, "Content": {"Value": BUCKET}}
        body = body_of({"Resources": resources, "Outputs": outputs})
        client("cloudformation").create_stack(StackName=STACK, TemplateBody=body)
        consumer = next(f for f in functions(client) if "Consumer" in f)
        client("lambda").create_event_source_mapping(FunctionName=consumer, EventSourceArn=arn)
        client("lambda").put_function_concurrency(FunctionName=consumer, ReservedConcurrentExecutions=10)
        yield client


def functions(client):
    return list(restore_stack.functions_of(client, STACK))


def reserved(client):
    found = (client("lambda").get_function_concurrency(FunctionName=name) for name in functions(client))
    return sorted(str(one.get("ReservedConcurrentExecutions")) for one in found)


def mappings(client):
    return [m["State"] for m in client("lambda").list_event_source_mappings()["EventSourceMappings"]]


def put(client, table, *numbers, doc="{}"):
    for number in numbers:
        item = {"pk": {"S": f"sub:{number}"}, "sk": {"S": "."}, "doc": {"S": doc}}
        client("dynamodb").put_item(TableName=table, Item=item)


def rows(client, table):
    items = client("dynamodb").scan(TableName=table)["Items"]
    return {item["pk"]["S"]: item["doc"]["S"] for item in items}


@pytest.fixture
def copy(aws):
    put(aws, TABLE, *range(130), doc=json.dumps({"state": "PUBLISHED"}))
    backups = {"PointInTimeRecoveryEnabled": True}
    aws("dynamodb").update_continuous_backups(TableName=TABLE, PointInTimeRecoverySpecification=backups)
    names = {"SourceTableName": TABLE, "TargetTableName": "copy", "UseLatestRestorableTime": True}
    aws("dynamodb").restore_table_to_point_in_time(**names)
    return "copy"


def test_a_table_is_put_back_to_its_restored_copy(aws, copy):
    put(aws, TABLE, 3, 4, doc="damaged")
    put(aws, TABLE, *range(900, 940), doc="of later")
    aws("dynamodb").delete_item(TableName=TABLE, Key={"pk": {"S": "sub:7"}, "sk": {"S": "."}})
    assert restore_stack.restore_table(STACK, copy, aws) == (130, 40)
    assert rows(aws, TABLE) == rows(aws, copy)


def test_no_function_runs_meanwhile_and_afterwards_all_do_as_before(aws):
    assert (reserved(aws), mappings(aws)) == (["10", "None"], ["Enabled"])
    meanwhile = []

    def fail():
        with restore_stack.stopped(STACK, aws):
            meanwhile.append((reserved(aws), mappings(aws)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert meanwhile == [(["0", "0"], ["Disabled"])]
    assert (reserved(aws), mappings(aws)) == (["10", "None"], ["Enabled"])


def test_another_table_is_not_copied_over_it(aws, copy):
    keys = {"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}
    keys |= {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
    aws("dynamodb").create_table(TableName="other", BillingMode="PAY_PER_REQUEST", **keys)
    for wrong in ("other", TABLE):
        with pytest.raises(StartError, match="not a restored copy"):
            restore_stack.restore_table(STACK, wrong, aws)


def test_a_stack_that_is_not_there_is_named(aws):
    with pytest.raises(StartError, match="nowhere"):
        restore_stack.restore_bucket("nowhere", datetime.now(UTC), aws)


def body(client, key):
    return client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_what_was_deleted_or_overwritten_in_the_bucket_comes_back_and_what_was_new_stays(aws):
    s3 = aws("s3")
    for key in ("content/a", "content/b", "artifact/c", "received/d"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"before")
    since = datetime.now(UTC) - timedelta(minutes=1)
    age_objects(BUCKET, timedelta(hours=1))
    s3.delete_object(Bucket=BUCKET, Key="content/a")
    for damage in (b"damage", b"more damage"):
        s3.put_object(Bucket=BUCKET, Key="content/b", Body=damage)
    s3.delete_object(Bucket=BUCKET, Key="artifact/c")
    s3.put_object(Bucket=BUCKET, Key="artifact/c", Body=b"damage")
    s3.delete_object(Bucket=BUCKET, Key="received/d")
    s3.put_object(Bucket=BUCKET, Key="content/new", Body=b"new")
    assert restore_stack.restore_bucket(STACK, since, aws) == 3
    assert [body(aws, key) for key in ("content/a", "content/b", "artifact/c")] == [b"before"] * 3
    assert body(aws, "content/new") == b"new"
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix="received/")
    assert restore_stack.restore_bucket(STACK, since, aws) == 0
