"""The stack as moto's CloudFormation creates it from the transformed template, and as a change set changes it. What it
does not create, the linter and the checks of the template look at."""

import ast
import json

import boto3
import pytest
from moto import mock_aws

from local.cloudformation import load
from tests.support.moto_stack import body_of, known_types, put_packages, stack_of
from tests.support.planted_mistakes import of, planted, put
from tests.support.template_checks import ROOT, functions_of

TEMPLATE = load(ROOT / "template.yaml")
REGION = "us-east-1"
NAME = "planned"
NOT_IN_MOTO = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudFront::CachePolicy",
    "AWS::CloudFront::Distribution",
    "AWS::CloudFront::Function",
    "AWS::CloudFront::OriginRequestPolicy",
    "AWS::CloudWatch::Alarm",
    "AWS::CodeDeploy::Application",
    "AWS::CodeDeploy::DeploymentGroup",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::S3::BucketPolicy",
    "AWS::SecretsManager::Secret",
}
PARAMETERS = {"GitHubRepository": "acme/platform", "Judge": "bedrock", "JudgeModelId": "some.model-v1"}


@pytest.fixture(scope="module")
def stack():
    with mock_aws():
        put_packages(client("s3"))
        client("cloudformation").create_stack(
            StackName=NAME, TemplateBody=body_of(stack_of(TEMPLATE)), Parameters=parameters(**PARAMETERS)
        )
        yield resources()


def client(service):
    return boto3.client(service, region_name=REGION)


def parameters(**values):
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]


def resources():
    pages = client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=NAME)
    found = [resource for page in pages for resource in page["StackResourceSummaries"]]
    return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in found}


def test_every_resource_that_moto_knows_is_created(stack):
    planned = stack_of(TEMPLATE)["Resources"]
    [created] = client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    assert created["StackStatus"] == "CREATE_COMPLETE"
    assert stack.keys() == planned.keys()
    assert {resource["Type"] for resource in TEMPLATE["Resources"].values()} - known_types() <= NOT_IN_MOTO | {
        "AWS::Serverless::Function",
        "AWS::Serverless::HttpApi",
        "AWS::Serverless::LayerVersion",
    }


def test_functions_are_as_the_template_says(stack):
    for name, wanted in functions_of(TEMPLATE):
        made = client("lambda").get_function(FunctionName=stack[name])["Configuration"]
        given = made["Environment"]["Variables"]
        assert (made["Handler"], made["Runtime"], made["Timeout"], made["MemorySize"]) == (
            wanted["Handler"],
            "python3.13",
            wanted["Timeout"],
            wanted["MemorySize"],
        )
        assert given["TABLE_NAME"] == stack["Table"]
        assert given["POWERTOOLS_SERVICE_NAME"] == NAME


def test_queues_feed_their_functions_with_a_limit(stack):
    mappings = client("lambda").list_event_source_mappings()["EventSourceMappings"]
    by_function = {mapping["FunctionArn"].rpartition(":")[2]: mapping for mapping in mappings}
    for name, most in (("Consumer", 10), ("LongScans", 3)):
        consumer = by_function[stack[name]]
        assert consumer["ScalingConfig"] == {"MaximumConcurrency": most}
        assert (consumer["BatchSize"], consumer["FunctionResponseTypes"]) == (3, ["ReportBatchItemFailures"])
    queue = client("sqs").get_queue_attributes(QueueUrl=stack["SubmissionQueue"], AttributeNames=["All"])["Attributes"]
    assert queue["VisibilityTimeout"] == "720"
    assert json.loads(queue["RedrivePolicy"])["maxReceiveCount"] == 5


def test_the_table_is_protected(stack):
    table = client("dynamodb").describe_table(TableName=stack["Table"])["Table"]
    assert table["DeletionProtectionEnabled"] is True
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} == {"list", "state", "due"}


def test_the_consumer_may_ask_the_chosen_model_and_write_its_log_alone(stack):
    policy = client("iam").get_role_policy(RoleName=stack["ConsumerRole"], PolicyName="function")["PolicyDocument"]
    statements = ast.literal_eval(policy)["Statement"]  # moto gives back Python's form of it
    by_sid = {statement["Sid"]: statement for statement in statements}
    models = by_sid["AskJudge"]["Resource"]
    assert [arn.rpartition("/")[2] for arn in models] == ["some.model-v1", "some.model-v1"]
    assert stack["Logs"] in str(by_sid["WriteLogs"]["Resource"])
    assert client("iam").list_attached_role_policies(RoleName=stack["ConsumerRole"])["AttachedPolicies"] == []


def test_only_the_environment_of_the_named_repository_may_deploy(stack):
    role = client("iam").get_role(RoleName=stack["DeployRole"])["Role"]
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
        "token.actions.githubusercontent.com:sub": "repo:acme/platform:environment:dev",
    }


def test_the_dashboard_shows_the_metrics_of_this_stack(stack):
    board = client("cloudwatch").get_dashboard(DashboardName=f"{NAME}-{REGION}")["DashboardBody"]
    shown = [metric for widget in json.loads(board)["widgets"] for metric in widget["properties"]["metrics"]]
    assert ["VskillPlatform", "Active", "service", NAME] in shown
    assert not [metric for metric in shown if "${" in str(metric)]


def test_a_change_set_tells_what_it_would_change_and_changes_only_that(stack):
    """moto compares the templates; of a changed parameter it would say nothing."""
    cloudformation = client("cloudformation")
    changed = planted(TEMPLATE, put(of("SubmissionQueue", "VisibilityTimeout"), 900))
    cloudformation.create_change_set(
        StackName=NAME,
        ChangeSetName="longer",
        ChangeSetType="UPDATE",
        TemplateBody=body_of(stack_of(changed)),
        Parameters=parameters(**PARAMETERS, LogRetentionDays="90"),
    )
    change_set = cloudformation.describe_change_set(StackName=NAME, ChangeSetName="longer")
    told = [(c["ResourceChange"]["Action"], c["ResourceChange"]["LogicalResourceId"]) for c in change_set["Changes"]]
    assert told == [("Modify", "SubmissionQueue")]
    cloudformation.execute_change_set(StackName=NAME, ChangeSetName="longer")
    [updated] = cloudformation.describe_stacks(StackName=NAME)["Stacks"]
    assert updated["StackStatus"] == "UPDATE_COMPLETE"
    assert {"ParameterKey": "LogRetentionDays", "ParameterValue": "90"} in updated["Parameters"]


def test_submitted_files_expire_and_published_ones_do_not_because_the_role_that_publishes_writes_them(stack):
    """moto makes no lifecycle from a template: template_operations.py looks at that."""
    policy = client("iam").get_role_policy(RoleName=stack["ConsumerRole"], PolicyName="function")["PolicyDocument"]
    written = [s["Resource"] for s in ast.literal_eval(policy)["Statement"] if "s3:PutObject" in s["Action"]]
    assert {f"{stack['Content']}/{prefix}/*" in str(written) for prefix in ("content", "received", "artifact")} == {
        True
    }
    public = client("iam").list_role_policies(RoleName=stack["PagesRole"])["PolicyNames"]
    may = str(
        [client("iam").get_role_policy(RoleName=stack["PagesRole"], PolicyName=n)["PolicyDocument"] for n in public]
    )
    assert f"{stack['Content']}/received/*" in may
