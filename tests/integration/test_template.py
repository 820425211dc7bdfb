"""template.yaml says what the code needs and nothing else; and the checks that show it notice every planted mistake."""

import copy

import pytest

from local.cloudformation import load
from tests.support.planted_mistakes import drop, of, planted, put
from tests.support.template_checks import CHECKS, ROOT, functions_of, problems_of
from tests.support.template_linter import linter_problems

TEMPLATE = load(ROOT / "template.yaml")


@pytest.mark.parametrize("check", CHECKS)
def test_the_template_has_no_problems(check):
    assert check(TEMPLATE) == []


def grant(function: str, actions, resource):
    statement = {"Effect": "Allow", "Action": actions, "Resource": resource}

    def plant(template):
        template["Resources"][function]["Properties"]["Policies"][0]["Statement"].append(statement)

    return plant


def revoke(function: str, sid: str):
    def plant(template):
        policy = template["Resources"][function]["Properties"]["Policies"][0]
        policy["Statement"] = [statement for statement in policy["Statement"] if statement["Sid"] != sid]

    return plant


def without_index(template):
    template["Resources"]["Table"]["Properties"]["GlobalSecondaryIndexes"].pop()


def with_index_of_everything(template):
    template["Resources"]["Table"]["Properties"]["GlobalSecondaryIndexes"][0]["Projection"] = {"ProjectionType": "ALL"}


VARIABLES = "Globals.Function.Environment.Variables"
ROUTE = {"Type": "HttpApi", "Properties": {"ApiId": {"Ref": "Api"}, "Method": "GET", "Path": "/api/v1/extra"}}
TABLE_ARN = {"Fn::GetAtt": ["Table", "Arn"]}

MISTAKES = {
    "a handler that is not there": (
        put(of("Consumer", "Handler"), "functions.consumer.handle"),
        "functions.consumer.handle",
    ),
    "a handler's module that is not there": (
        put(of("StuckScan", "Handler"), "functions.scan.handler"),
        "functions.scan",
    ),
    "two functions with each other's handler": (
        put(of("SkillsApi", "Handler"), "functions.admin_api.handler"),
        "route",
    ),
    "a missing route": (
        drop(of("SubmissionsApi", "Events.Stats")),
        "template has no route GET /api/v1/submissions/stats",
    ),
    "an extra route": (put(of("SkillsApi", "Events.Extra"), ROUTE), "code has no route GET /api/v1/extra"),
    "a route with the wrong method": (
        put(of("SubmissionsApi", "Events.Submit.Properties.Method"), "PUT"),
        "PUT /api/v1",
    ),
    "no answer for unknown routes": (drop(of("Pages", "Events.NoSuchRoute")), "$default"),
    "an API function left out": (drop("Resources.AdminApi"), "no function serves functions/admin_api.py"),
    "a setting no function gets": (drop(f"{VARIABLES}.BUCKET_NAME"), "no function gets the setting BUCKET_NAME"),
    "the key of sessions for every function": (
        put(f"{VARIABLES}.SESSION_SECRET_ID", {"Ref": "SessionSecret"}),
        "SESSION_SECRET_ID is not the setting of AdminPages alone",
    ),
    "a setting no code reads": (put(f"{VARIABLES}.COLOUR", "blue"), "nothing reads the setting COLOUR"),
    "a function built another way": (drop("Resources.Consumer.Metadata"), "make build"),
    "a function without the layer": (put(of("Consumer", "Layers"), []), "layer"),
    "another architecture": (put("Globals.Function.Architectures", ["x86_64"]), "arm64"),
    "a visibility of 60 s": (put(of("SubmissionQueue", "VisibilityTimeout"), 60), "less than six"),
    "a visibility of 719 s": (put(of("SubmissionQueue", "VisibilityTimeout"), 719), "less than six"),
    "too little memory for three long scans": (put("Globals.Function.MemorySize", 512), "the longest scans"),
    "dead letters visible too soon": (
        put(of("DeadLetters", "VisibilityTimeout"), 60),
        "DeadLettersFunction: its queue's",
    ),
    "a consumer with 15 minutes": (put(of("Consumer", "Timeout"), 900), "consumer's timeout is 900"),
    "an API with 60 s": (put("Globals.Function.Timeout", 60), "API function's timeout is 60"),
    "an admin call that outlasts the gateway": (put(of("AdminApi", "Timeout"), 60), "gateway gives up"),
    "messages kept for a day": (put(of("SubmissionQueue", "MessageRetentionPeriod"), 86400), "queue's retention"),
    "dead letters kept for 4 days": (
        put(of("DeadLetters", "MessageRetentionPeriod"), 345600),
        "dead letters' retention",
    ),
    "dead after one receive": (put(of("SubmissionQueue", "RedrivePolicy.maxReceiveCount"), 1), "after 5 receives"),
    "no dead letters": (drop(of("SubmissionQueue", "RedrivePolicy")), "dead letters do not go"),
    "a scan every hour": (put(of("StuckScan", "Events.EveryFiveMinutes.Properties.Schedule"), "rate(1 hour)"), "3600"),
    "no scan at all": (drop(of("StuckScan", "Events")), "period of the stuck scan"),
    "batches of 10": (put(of("Consumer", "Events.Submissions.Properties.BatchSize"), 10), "batch size"),
    "long scans in every worker": (
        put(of("LongScans", "Events.Submissions.Properties.ScalingConfig.MaximumConcurrency"), 10),
        "LongScans: its queue may start more than 3",
    ),
    "long scans die late": (
        put(of("LongScanQueue", "RedrivePolicy.maxReceiveCount"), 9),
        "LongScanQueue: a message must be a dead letter after 5",
    ),
    "batches all or nothing": (
        drop(of("Consumer", "Events.Submissions.Properties.FunctionResponseTypes")),
        "whole batch",
    ),
    "the same for dead letters": (
        drop(of("DeadLettersFunction", "Events.DeadLetters.Properties.FunctionResponseTypes")),
        "whole batch",
    ),
    "no maximum concurrency": (drop(of("Consumer", "Events.Submissions.Properties.ScalingConfig")), "die unprocessed"),
    "a wildcard action": (grant("SkillsApi", "dynamodb:*", TABLE_ARN), "action dynamodb:* is a wildcard"),
    "every action": (grant("StuckScan", "*", TABLE_ARN), "action * is a wildcard"),
    "a wildcard resource": (grant("SkillsApi", ["dynamodb:GetItem"], "*"), "resource * is a wildcard"),
    "all queues": (grant("AdminApi", "sqs:SendMessage", "arn:aws:sqs:*:*:*"), "is a wildcard"),
    "all objects": (grant("Rescan", "s3:GetObject", {"Fn::Sub": "${Content.Arn}/*"}), "is a wildcard"),
    "a right too many": (grant("SkillsApi", "dynamodb:DeleteItem", TABLE_ARN), "may dynamodb:DeleteItem on Table"),
    "a right too few": (revoke("StuckScan", "SendAgain"), "may not sqs:SendMessage on SubmissionQueue"),
    "a ready-made policy": (
        put(of("SkillsApi", "Policies"), [{"DynamoDBCrudPolicy": {"TableName": {"Ref": "Table"}}}]),
        "not written out",
    ),
    "a missing index": (without_index, "index due is missing"),
    "an index of whole documents": (with_index_of_everything, "index list carries the wrong attributes"),
    "keys the wrong way round": (put(of("Table", "KeySchema.0.AttributeName"), "sk"), "table has the wrong keys"),
    "no expiry": (drop(of("Table", "TimeToLiveSpecification")), "expiresAt"),
    "expiry by another attribute": (put(of("Table", "TimeToLiveSpecification.AttributeName"), "ttl"), "expiresAt"),
    "no point-in-time recovery": (drop(of("Table", "PointInTimeRecoverySpecification")), "point in time"),
    "a public bucket": (drop(of("Content", "PublicAccessBlockConfiguration")), "not private"),
    "a half public bucket": (
        put(of("Content", "PublicAccessBlockConfiguration.BlockPublicPolicy"), False),
        "BlockPublicPolicy",
    ),
    "a table that goes with the stack": (drop("Resources.Table.DeletionPolicy"), "deleted with the stack"),
    "a secret in the template": (put(of("Secret", "SecretString"), "hunter2"), "not generated"),
    "logs for ever": (drop(of("Logs", "RetentionInDays")), "kept for ever"),
    "a function that logs to another group": (
        put(of("Consumer", "LoggingConfig"), {"LogFormat": "JSON"}),
        "Consumer: its log",
    ),
    "an alarm on a name that is never emitted": (put(of("ReadsFail", "MetricName"), "ReadFailures"), "nothing emits"),
    "an alarm in another namespace": (put(of("JudgeFails", "Namespace"), "Platform"), "nothing emits Platform/JudgeE"),
    "a sum of a name that is never emitted": (
        put(of("NothingDrains", "Metrics.2.MetricStat.Metric.MetricName"), "Drained"),
        "nothing emits VskillPlatform/Drained",
    ),
    "an alarm of every stack": (put(of("DeadLettersWaiting", "Dimensions"), []), "emitted with the stack"),
    "metrics of every stack": (put(f"{VARIABLES}.POWERTOOLS_SERVICE_NAME", "vskill-platform"), "two stacks"),
    "a metric without an alarm": (drop("Resources.RecoveryFallsBehind"), "no alarm watches OrphanedActive"),
    "an alarm that ticks slower": (put(of("ReadsFail", "Period"), 60), "period of ReadsFailed"),
    "silence taken for health": (put(of("NoScanFinished", "TreatMissingData"), "notBreaching"), "three periods"),
    "patience with the scan": (put(of("NoScanFinished", "EvaluationPeriods"), 30), "three periods"),
    "an alarm without an action": (drop(of("OldestActiveTooOld", "AlarmActions")), "it has no action"),
    "an alarm without words": (drop(of("OldestActiveTooOld", "AlarmDescription")), "does not say what is wrong"),
    # Found by the transformation, which gives up at it: nothing behind it would be looked at.
    "an unknown property of a function": (put(of("Consumer", "Concurrency"), 5), "Concurrency"),
}


def copied(resource: str, property_: str, value):
    """A mistake in a copy of a resource, beside the right one."""

    def plant(template):
        copy_of = template["Resources"][f"Planted{resource}"] = copy.deepcopy(template["Resources"][resource])
        put(property_, value)(copy_of["Properties"])

    return plant


def output(value):
    def plant(template):
        template["Outputs"][f"Planted{len(template['Outputs'])}"] = {"Value": value}

    return plant


# Only the linter sees these, and only in the transformed template. It takes many seconds for each look: one look at the
# template with these beside what is right in it shows both that it finds them and that it finds nothing else.
MISTAKES_FOR_THE_LINTER = {
    "a reference to nothing": (
        copied("Rescan", "Environment", {"Variables": {"TABLE_NAME": {"Ref": "Tabel"}}}),
        "'Tabel' is not",
    ),
    "an attribute that is not there": (output({"Fn::GetAtt": ["Table", "Uri"]}), "'Uri' is not"),
    "an unknown property of a queue": (copied("DeadLetters", "Visibility", 5), "'Visibility' was unexpected"),
    "a value of the wrong type": (copied("Table", "SSESpecification", "yes"), "'yes' is not of type"),
    "an output of nothing": (output({"Ref": "Desk"}), "'Desk' is not"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    plant, sentence = MISTAKES[mistake]
    problems = problems_of(planted(TEMPLATE, plant))
    assert any(sentence in problem for problem in problems), problems


def test_the_linter_finds_every_mistake_that_only_it_can_see_and_nothing_else():
    problems = linter_problems(planted(TEMPLATE, *(plant for plant, _ in MISTAKES_FOR_THE_LINTER.values())))
    sentences = {name: sentence for name, (_, sentence) in MISTAKES_FOR_THE_LINTER.items()}
    assert [name for name, sentence in sentences.items() if sentence not in str(problems)] == [], problems
    assert [problem for problem in problems if "Planted" not in problem.rpartition(" at ")[2]] == []


def test_the_template_names_each_trigger_once():
    handlers = [function["Handler"] for name, function in functions_of(TEMPLATE) if name != "LongScans"]
    assert len(handlers) == len(set(handlers)) > 0  # long scans have the consumer's
