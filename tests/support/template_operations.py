"""What an operator relies on, for every function of template.yaml, also those added later: alarms, logs, traces,
aliases that are taken back, no hidden retries, roles; and what protects the data. Each check returns problems."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from local.cloudformation import Resolver
from shared.telemetry import NAMESPACE, Watched
from shared.timing import RECEIVED_AGE
from tests.support.template_checks import Problems, Template, functions_of, statements_of

# The metrics of AWS that alarms may name, and the dimensions under which AWS reports them.
AWS_METRICS = {
    ("AWS/ApiGateway", "5xx"): {"ApiId"},
    ("AWS/ApiGateway", "Latency"): {"ApiId"},
    ("AWS/Lambda", "Errors"): {"FunctionName"},
    ("AWS/Lambda", "Throttles"): {"FunctionName"},
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"): {"QueueName"},
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): {"QueueName"},
    ("AWS/DynamoDB", "ReadThrottleEvents"): {"TableName"},
    ("AWS/DynamoDB", "WriteThrottleEvents"): {"TableName", "GlobalSecondaryIndexName"},
}
# What is watched beside the functions: metric and resource.
WATCHED_ON_AWS = {
    ("5xx", "Api"),
    ("Latency", "Api"),
    ("ApproximateAgeOfOldestMessage", "SubmissionQueue"),
    ("ApproximateAgeOfOldestMessage", "LongScanQueue"),
    ("ApproximateAgeOfOldestMessage", "DeadLetters"),
    ("ApproximateNumberOfMessagesVisible", "FailedSchedules"),
    ("ReadThrottleEvents", "Table"),
    ("WriteThrottleEvents", "Table"),
}
IN_EVERY_ACCESS_LINE = (
    "requestId",
    "integration.requestId",
    "routeKey",
    "status",
    "responseLatency",
    "identity.sourceIp",
)
SCHEDULED_FAILURES = {"OnFailure": {"Type": "SQS", "Destination": {"Fn::GetAtt": "FailedSchedules.Arn"}}}
HAS_SNAP_START = ("python3.12", "python3.13", "python3.14")
NOT_WITH_SNAP_START = {"ProvisionedConcurrencyConfig", "FileSystemConfigs", "EphemeralStorage"}
FIRST_VALUES = {
    "AdminTokens": '{"adminTokens": []}',
    "GitHubTokens": '{"githubTokens": []}',
    "WebhookSecrets": '{"webhookSecrets": {}}',
}
# Seconds for which a deployment of a kind gives the new version only a part of the requests.
FIRST_STEPS = {"Canary10Percent5Minutes": 300, "Canary10Percent15Minutes": 900, "Linear10PercentEvery1Minute": 540}
EXPIRING = {"received/", "github/"}
METRIC_DELAY = 60  # until Lambda reports what happened
LOG_LEVEL = {"Fn::If": ["LogsDebug", "DEBUG", "INFO"]}  # above INFO Lambda drops metrics: lines without a level


def function_alarm_problems(template: Template) -> Problems:
    watched = {(metric, subject) for _, metric, subject in _watched_on_aws(template)}
    wanted = WATCHED_ON_AWS | {(m, name) for name, _ in functions_of(template) for m in ("Errors", "Throttles")}
    problems = [f"no alarm watches {metric} of {subject}" for metric, subject in sorted(wanted - watched)]
    for alarm, metric in _metrics_on_aws(template):
        dimensions = {dimension["Name"] for dimension in metric.get("Dimensions", [])}
        known = AWS_METRICS.get((metric["Namespace"], metric["MetricName"]))
        if known is None or not dimensions or not dimensions <= known:
            problems.append(f"{alarm}: AWS reports no {metric['Namespace']}/{metric['MetricName']} by {dimensions}")
    return problems


def deployment_problems(template: Template) -> Problems:
    problems = [*_slow_alarm_problems(template)]
    own_alarms = {subject: alarm for alarm, metric, subject in _watched_on_aws(template) if metric == "Errors"}
    shared = template["Globals"]["Function"].get("DeploymentPreference", {})
    if shared.get("Type") != {"Ref": "DeploymentType"} or {"Ref": "RequestsFail"} not in shared.get("Alarms", []):
        problems.append("a new version is not taken back when requests fail")
    for name, function in functions_of(template):
        own = template["Resources"][name]["Properties"].get("DeploymentPreference", {})
        if {"Ref": own_alarms.get(name)} not in own.get("Alarms", []):
            problems.append(f"{name}: a new version is not taken back when its own alarm fires")
        if function.get("AutoPublishAlias") != "live" or function.get("AutoPublishAliasAllProperties") is not True:
            problems.append(f"{name}: its changes do not all make a new version behind the alias live")
    return problems


def _slow_alarm_problems(template: Template) -> Iterator[str]:
    """An alarm that is slower than the first step of a deployment goes off when all requests get the new version."""
    watched = [f.get("DeploymentPreference", {}).get("Alarms", []) for _, f in functions_of(template)]
    shared = template["Globals"]["Function"].get("DeploymentPreference", {}).get("Alarms", [])
    first_step = min(
        FIRST_STEPS[t] for t in template["Parameters"]["DeploymentType"]["AllowedValues"] if t in FIRST_STEPS
    )
    for name in sorted({alarm["Ref"] for alarms in [*watched, shared] for alarm in alarms}):
        alarm = template["Resources"].get(name, {}).get("Properties", {})
        periods = [m["MetricStat"]["Period"] for m in alarm.get("Metrics", []) if "MetricStat" in m]
        needed = max(periods, default=alarm.get("Period", 0)) * alarm.get(
            "DatapointsToAlarm", alarm.get("EvaluationPeriods", 0)
        )
        if needed + METRIC_DELAY > first_step:
            yield f"{name}: goes off after {needed} s, a canary is over after {first_step} s"


def snap_start_problems(template: Template) -> Problems:
    """Off by default. On, it needs versions, a runtime that has it, and none of what excludes it."""
    problems = [] if _snap_starts(template, {}) == {} else ["SnapStart is not off by default"]
    snap_starts = _snap_starts(template, {"SnapStart": "on"})
    for name, function in functions_of(template):
        if snap_starts.get(name) != {"ApplyOn": "PublishedVersions"} or not function.get("AutoPublishAlias"):
            problems.append(f"{name}: SnapStart has no effect on it")
        if function["Runtime"] not in HAS_SNAP_START or NOT_WITH_SNAP_START & function.keys():
            problems.append(f"{name}: Lambda refuses SnapStart for it")
    return problems


def _snap_starts(template: Template, parameters: Mapping[str, str]) -> dict[str, Any]:
    """By function, with these parameters; without those that have none."""
    resolver = Resolver(template, parameters, "us-east-1", lambda name: None, lambda name, attribute: None)
    named = {name: function["SnapStart"] for name, function in functions_of(template) if "SnapStart" in function}
    return dict(resolver.resolve(named))


def log_problems(template: Template) -> Problems:
    problems = []
    for name, function in functions_of(template):
        if function.get("LoggingConfig", {}).get("ApplicationLogLevel") != LOG_LEVEL:
            problems.append(f"{name}: LogLevel has no effect on its log, or silences its metrics")
        if function.get("Tracing") != {"Ref": "Tracing"}:
            problems.append(f"{name}: Tracing has no effect on it")
    access = template["Resources"]["Api"]["Properties"].get("AccessLogSettings", {})
    if access.get("DestinationArn") != {"Fn::GetAtt": "AccessLogs.Arn"}:
        return [*problems, "the API has no access log"]
    fields = json.loads(access["Format"]).values()
    return problems + [
        f"the access log does not say {f}" for f in IN_EVERY_ACCESS_LINE if f"$context.{f}" not in fields
    ]


def trigger_problems(template: Template) -> Problems:
    """Schedules are not retried behind the scenes, and what fails is kept; queues are read with a role of their own."""
    problems = []
    for name, function in functions_of(template):
        kinds = {event["Type"] for event in function.get("Events", {}).values()}
        retries = function.get("EventInvokeConfig", {})
        if "Schedule" in kinds and retries.get("MaximumRetryAttempts") != 0:
            problems.append(f"{name}: Lambda would run a failed schedule twice more")
        if "Schedule" in kinds and retries.get("DestinationConfig") != SCHEDULED_FAILURES:
            problems.append(f"{name}: a failed schedule is kept nowhere")
        if "SQS" in kinds and "Role" not in function:
            problems.append(f"{name}: SAM would give it a policy for every queue of the account")
    return problems


def concurrency_problems(template: Template) -> Problems:
    """Reserved by default, and not at all where the account has nothing to reserve."""
    problems = []
    if template["Parameters"].get("ReservedConcurrency", {}).get("Default") != 10:
        problems.append("the consumer's reserved concurrency is not 10 by default")
    for name, function in functions_of(template):
        reserved = function.get("ReservedConcurrentExecutions")
        choice = reserved.get("Fn::If", [None]) if isinstance(reserved, Mapping) else [None]
        is_consumer = name == "Consumer"
        if (reserved is not None or is_consumer) and choice[0] != "ReservesConcurrency":
            problems.append(f"{name}: its reserved concurrency cannot be switched off, or is not there")
        elif is_consumer and choice[1] != {"Ref": "ReservedConcurrency"}:
            problems.append("the consumer's reserved concurrency is not the parameter's")
    return problems


def model_problems(template: Template) -> Problems:
    """A worker may ask the chosen model and no other, and none where there is no judge."""
    found = []
    for name, function in functions_of(template):
        asks = [s for s in statements_of(template, function) if "bedrock:InvokeModel" in str(s.get("Action"))]
        found += [f"{name}: may ask any model" for s in asks if "JudgeModelId" not in str(s["Resource"])]
        found += [f"{name}: may ask any model" for s in asks if "model/*" in str(s) or "profile/*" in str(s)]
        if asks and '"HasJudge"' not in json.dumps(template["Resources"].get(f"{name}Role", {})):
            found.append(f"{name}: may ask a model although there is no judge")
    return found


def data_problems(template: Template) -> Problems:
    resources = template["Resources"]
    problems = []
    protection = resources["Table"]["Properties"].get("DeletionProtectionEnabled")
    if protection != {"Fn::If": ["ProtectsTable", True, False]} or not _is_protected_by_default(template):
        problems.append("the table can be deleted by one call, or not taken back with a first creation that fails")
    if resources["Content"]["Properties"].get("VersioningConfiguration") != {"Status": "Enabled"}:
        problems.append("an object that is overwritten or deleted cannot be restored")
    problems += _expiry_problems(resources["Content"]["Properties"])
    for name, value in FIRST_VALUES.items():
        if resources[name]["Properties"].get("SecretString") != value:
            problems.append(f"CloudFormation would write over the tokens in {name}")
    policy = resources.get("ContentPolicy", {}).get("Properties", {}).get("PolicyDocument", {})
    refused = [s for s in policy.get("Statement", []) if s.get("Effect") == "Deny" and s.get("Action") == "s3:*"]
    if not any(s.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}} for s in refused):
        problems.append("the bucket can be read without TLS")
    return problems


def _expiry_problems(bucket: Template) -> Iterator[str]:
    """What was submitted expires, and nothing that a published version is made of."""
    rules = [r for r in bucket.get("LifecycleConfiguration", {}).get("Rules", []) if r.get("Status") == "Enabled"]
    days = {rule.get("Prefix", ""): rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule}
    if days.get("received/") != RECEIVED_AGE.days:
        yield f"what was rejected does not expire after {RECEIVED_AGE.days} days"
    yield from (f"published files expire: {prefix!r}" for prefix in days.keys() - EXPIRING)
    if not any("Prefix" not in rule and "NoncurrentVersionExpiration" in rule for rule in rules):
        yield "earlier versions of objects are kept for ever"


def _is_protected_by_default(template: Template) -> bool:
    return template["Parameters"].get("TableProtection", {}).get("Default") == "on"


def dashboard_problems(template: Template) -> Problems:
    boards = [r["Properties"] for r in template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Dashboard"]
    if len(boards) != 1:
        return ["there is not one dashboard"]
    widgets = json.loads(boards[0]["DashboardBody"]["Fn::Sub"])["widgets"]
    shown = {m[1] for w in widgets for m in w["properties"]["metrics"] if m[0] == NAMESPACE}
    return [f"the dashboard shows {name}, which nothing emits" for name in sorted(shown - set(Watched))]


OPERATIONS = (
    function_alarm_problems,
    deployment_problems,
    snap_start_problems,
    log_problems,
    trigger_problems,
    concurrency_problems,
    model_problems,
    data_problems,
    dashboard_problems,
)


def _metrics_on_aws(template: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            alarm = resource["Properties"]
            stats = [m["MetricStat"]["Metric"] for m in alarm.get("Metrics", []) if "MetricStat" in m] or [alarm]
            yield from ((name, metric) for metric in stats if metric.get("Namespace", "").startswith("AWS/"))


def _watched_on_aws(template: Template) -> Iterator[tuple[str, str, str]]:
    """Alarm, metric, and the resource that the metric is about."""
    for alarm, metric in _metrics_on_aws(template):
        for dimension in metric.get("Dimensions", [])[:1]:
            value = dimension["Value"]
            subject = value if isinstance(value, str) else next(iter(value.values()))
            yield alarm, metric["MetricName"], subject.partition(".")[0]
