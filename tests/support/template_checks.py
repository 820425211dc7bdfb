"""What must hold in template.yaml and no linter knows. Each check takes the parsed template and returns the problems it
found as sentences; an empty list is a good template. `test_template.py` also runs them on templates with mistakes."""

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from shared import timing
from shared.settings import load_settings
from shared.telemetry import NAMESPACE, SERVICE, Watched
from tests.support.template_linter import linter_problems
from tests.support.template_rights import ALLOWED, WITHOUT_RESOURCES

Template = Mapping[str, Any]
Problems = list[str]

ROOT = Path(__file__).parents[2]
TIME_BESIDE_SCANS = timedelta(seconds=40)
MEMORY_OF_ONE_CPU = 1769  # MB; Lambda gives less of a CPU for less
GATEWAY_TIMEOUT = timedelta(seconds=30)  # of an HTTP API, whatever the function behind it may take

# --- who reads which setting ----------------------------------------------------------------------------------------

SET_BY_LAMBDA = {"AWS_REGION", "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_INITIALIZATION_TYPE"}
LOCAL_ONLY = {
    "AWS_ENDPOINT_URL",
    "SECRETS_FILE",
    "SESSION_SECRET_FILE",
    "OWNER_SESSION_SECRET_FILE",
    "RECEIPT_SECRET_FILE",
    "TIME_SCALE",
}
PUBLISHING = ["AdminApi", "AdminPages", "Consumer", "LongScans", "StuckScan"]
# With the key of admin sessions any function could sign one, with that of receipts any receipt.
SUBMISSION_QUEUES = ["LongScanQueue", "SubmissionQueue"]
CONSUMERS = {"Consumer": 10, "LongScans": 3}  # and how many of each run at one moment
ONLY_FOR = {
    "LONG_SCAN_QUEUE_URL": ["Consumer"],
    "SESSION_SECRET_ID": ["AdminPages"],
    "OWNER_SESSION_SECRET_ID": ["OwnerPages"],
    "RECEIPT_SECRET_ID": PUBLISHING,
    "ADMIN_TOKEN_SECRET_ID": ["AdminApi", "AdminPages"],
    "WEBHOOK_SECRET_ID": ["AdminApi", "AdminPages", "Consumer", "LongScans", "Webhooks"],
    "GITHUB_TOKEN_SECRET_ID": [
        "AdminPages",
        "Consumer",
        "LongScans",
        "OwnerApi",
        "OwnerPages",
        "Pages",
        "SkillsApi",
        "SubmissionsApi",
        "Sweep",
    ],
}
READ_BY_POWERTOOLS = {"LOG_LEVEL", "POWERTOOLS_SERVICE_NAME"}

INDEXES = {"list": {"row"}, "state": {"row"}, "due": None}  # what each carries beside its keys; None: nothing
ALARM = "AWS::CloudWatch::Alarm"
ON_DEPLOYMENT = "RequestsFail"  # quicker than the scan: template_operations.py says how quick
STACK_NAME = {"Ref": "AWS::StackName"}
ALARM_ACTIONS = {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}
RETAINED = (
    "Table",
    "Content",
    "Secret",
    "SessionSecret",
    "OwnerSessionSecret",
    "ReceiptSecret",
    "AdminTokens",
    "GitHubTokens",
    "WebhookSecrets",
)


def problems_of(template: Template) -> Problems:
    """All of them. The linter, by far the slowest, is asked last and only about what passes everything else."""
    return [problem for check in CHECKS for problem in check(template)] or linter_problems(template)


# --- code -----------------------------------------------------------------------------------------------------------


def handler_problems(template: Template) -> Problems:
    return [
        f"{name}: the handler {function['Handler']} does not import as something to call"
        for name, function in functions_of(template)
        if not callable(_find_handler(function["Handler"]))
    ]


def route_problems(template: Template) -> Problems:
    problems = []
    for name, function in functions_of(template):
        in_template = [_route(event) for event in _events(function, "HttpApi")]
        in_code = set(getattr(_module(function["Handler"]), "ROUTES", ()))
        problems += [f"{name}: the code has no route {route}" for route in set(in_template) - in_code]
        problems += [f"{name}: the template has no route {route}" for route in in_code - set(in_template)]
        problems += [f"{name}: {route} is there twice" for route, n in Counter(in_template).items() if n > 1]
    served = {function["Handler"].rpartition(".")[0] for _, function in functions_of(template)}
    sources = [path for path in sorted((ROOT / "functions").glob("*.py")) if path.stem != "__init__"]
    return problems + [f"no function serves functions/{s.name}" for s in sources if f"functions.{s.stem}" not in served]


def setting_problems(template: Template) -> Problems:
    own = {name: set(f.get("Environment", {}).get("Variables", {})) for name, f in functions_of(template)}
    declared = set(template["Globals"]["Function"]["Environment"]["Variables"])
    strangers = {setting for setting in declared | set().union(*own.values()) if setting in ONLY_FOR}
    problems = [
        f"{setting} is not the setting of {' and '.join(ONLY_FOR[setting])} alone"
        for setting in strangers
        if setting in declared or sorted(name for name in own if setting in own[name]) != ONLY_FOR[setting]
    ]
    declared = declared.union(*own.values())
    read = _settings_read() | _names_read_from_environ()
    problems += [f"no function gets the setting {name}" for name in read - declared - SET_BY_LAMBDA - LOCAL_ONLY]
    return problems + [f"nothing reads the setting {name}" for name in declared - read - READ_BY_POWERTOOLS]


def packaging_problems(template: Template) -> Problems:
    problems = []
    for name, function in functions_of(template):
        if template["Resources"][name].get("Metadata", {}).get("BuildMethod") != "makefile":
            problems.append(f"{name}: `make build` would install the requirements into it, they are in the layer")
        if function.get("Layers") != [{"Ref": "Dependencies"}]:
            problems.append(f"{name}: it has not just the layer with the dependencies")
        if (function.get("Runtime"), function.get("Architectures")) != ("python3.13", ["arm64"]):
            problems.append(f"{name}: the dependencies are built for python3.13 on arm64")
    return problems


# --- time and load --------------------------------------------------------------------------------------------------


def timing_problems(template: Template) -> Problems:
    queue, long_scans, letters = (
        _properties(template, name) for name in ("SubmissionQueue", "LongScanQueue", "DeadLetters")
    )
    functions = dict(functions_of(template))
    scan = _schedule(functions["StuckScan"])
    numbers = [
        ("the consumer's timeout", functions["Consumer"]["Timeout"], timing.CONSUMER_TIMEOUT),
        ("the queue's visibility timeout", queue.get("VisibilityTimeout"), timing.VISIBILITY_TIMEOUT),
        ("the queue's retention", queue.get("MessageRetentionPeriod"), timedelta(days=4)),
        ("the visibility timeout of long scans", long_scans.get("VisibilityTimeout"), timing.VISIBILITY_TIMEOUT),
        ("the retention of long scans", long_scans.get("MessageRetentionPeriod"), timedelta(days=4)),
        ("the dead letters' retention", letters.get("MessageRetentionPeriod"), timedelta(days=14)),
        ("an API function's timeout", template["Globals"]["Function"]["Timeout"], timing.API_TIMEOUT),
        ("the period of the stuck scan", _seconds_of_rate(scan), timing.SCAN_PERIOD),
        ("the period of the sweep", _seconds_of_rate(_schedule(functions["Sweep"])), timing.SWEEP_PERIOD),
    ]
    problems = [
        f"{what} is {value}, shared/timing.py says {wanted.total_seconds():.0f}"
        for what, value, wanted in numbers
        if value != wanted.total_seconds()
    ]
    if not timing.LONGEST_LEASE < timing.STUCK_THRESHOLD:
        problems.append("the stuck scan would take submissions from live workers")
    if not timing.STORE_BUDGET < timing.API_TIMEOUT:
        problems.append("a store that does not answer would use up an API function's time")
    if (
        max(_scanning_time(template, functions[name]) for name in CONSUMERS)
        > timing.CONSUMER_TIMEOUT - TIME_BESIDE_SCANS
    ):
        problems.append("a batch of the longest scans leaves its worker too little time")
    return problems + _gateway_problems(functions)


def _scanning_time(template: Template, consumer: dict[str, Any]) -> timedelta:
    """Of a whole batch: the kernel counts in whole seconds, so each scan may take one more than its limit."""
    [batch] = _events(consumer, "SQS")
    cpus = min(1.0, template["Globals"]["Function"]["MemorySize"] / MEMORY_OF_ONE_CPU)
    return batch["BatchSize"] * (timing.SCAN_CPU_LIMIT + timedelta(seconds=1)) / cpus


def queue_problems(template: Template) -> Problems:
    problems = []
    for name, function in functions_of(template):
        for event in _events(function, "SQS"):
            queue = _properties(template, _resource(event["Queue"]))
            if queue.get("VisibilityTimeout", 30) < 6 * function["Timeout"]:
                problems.append(f"{name}: its queue's visibility timeout is less than six of its own")
            if event.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
                problems.append(f"{name}: one bad message would bring back its whole batch")
    for name in SUBMISSION_QUEUES:
        redrive = _properties(template, name).get("RedrivePolicy", {})
        if redrive.get("maxReceiveCount") != timing.MAX_RECEIVES:
            problems.append(f"{name}: a message must be a dead letter after {timing.MAX_RECEIVES} receives")
        if _resource(redrive.get("deadLetterTargetArn")) != "DeadLetters":
            problems.append(f"{name}: dead letters do not go to DeadLetters")
    functions = dict(functions_of(template))
    return problems + [
        one for name, most in CONSUMERS.items() for one in _consumer_problems(functions[name], name, most)
    ]


# --- rights and data ------------------------------------------------------------------------------------------------


def permission_problems(template: Template) -> Problems:
    problems = [
        f"{name}: a row of ALLOWED without a function" for name in ALLOWED.keys() - dict(functions_of(template))
    ]
    for name, function in functions_of(template):
        given = _given(template, function)
        expected = {(resource, action) for resource, actions in ALLOWED.get(name, {}).items() for action in actions}
        problems += [
            f"{name}: may {action} on {resource}, which its code never does" for resource, action in given - expected
        ]
        problems += [
            f"{name}: may not {action} on {resource}, which its code does" for resource, action in expected - given
        ]
        problems += [f"{name}: the action {action} is a wildcard" for _, action in given if "*" in action]
        open_to = {resource for resource, action in given if action not in WITHOUT_RESOURCES}
        problems += [f"{name}: the resource {r} is a wildcard" for r in open_to if _is_wildcard(r)]
        if any("Statement" not in policy for policy in function.get("Policies", [])):
            problems.append(f"{name}: a policy is not written out")
    return problems


def table_problems(template: Template) -> Problems:
    table = _properties(template, "Table")
    indexes = {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", [])}
    problems = [f"the index {name} is missing or not wanted" for name in INDEXES.keys() ^ indexes.keys()]
    for name in INDEXES.keys() & indexes.keys():
        if _keys(indexes[name]) != [f"{name}Pk", f"{name}Sk"]:
            problems.append(f"the index {name} has the wrong keys")
        if set(indexes[name]["Projection"].get("NonKeyAttributes", [])) != (INDEXES[name] or set()):
            problems.append(f"the index {name} carries the wrong attributes")
    if _keys(table) != ["pk", "sk"]:
        problems.append("the table has the wrong keys")
    if table.get("TimeToLiveSpecification") != {"AttributeName": "expiresAt", "Enabled": True}:
        problems.append("rows past their `expiresAt` stay for ever")
    if not table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
        problems.append("the table cannot be restored to a point in time")
    if table.get("BillingMode") != "PAY_PER_REQUEST":
        problems.append("the table would throttle at a fixed rate")
    return problems


def safety_problems(template: Template) -> Problems:
    bucket = _properties(template, "Content")
    blocks = bucket.get("PublicAccessBlockConfiguration", {})
    problems = [
        f"the bucket is not private: {name} is off"
        for name in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
        if blocks.get(name) is not True
    ]
    if "AccessControl" in bucket or "WebsiteConfiguration" in bucket:
        problems.append("the bucket is open to others")
    for name, key in (("Secret", "signingKey"), ("SessionSecret", "sessionKey"), ("OwnerSessionSecret", "sessionKey")):
        secret = _properties(template, name)
        if "SecretString" in secret or secret.get("GenerateSecretString", {}).get("GenerateStringKey") != key:
            problems.append(f"the key in {name} is not generated")
    for name in RETAINED:
        resource = template["Resources"][name]
        if resource.get("UpdateReplacePolicy") != "Retain":
            problems.append(f"{name} would be deleted when it is replaced")
        if resource.get("DeletionPolicy") != "RetainExceptOnCreate":
            problems.append(f"{name} would be deleted with the stack, or stay behind when its creation fails")
    return problems + _log_problems(template)


# --- alarms ---------------------------------------------------------------------------------------------------------


def alarm_problems(template: Template) -> Problems:
    """An alarm on a metric that is never emitted is silent for ever: each must name what shared/telemetry.py does."""
    alarms = [(name, r["Properties"]) for name, r in template["Resources"].items() if r["Type"] == ALARM]
    watched = [(name, metric) for name, alarm in alarms for metric in _metrics_of(alarm)]
    problems = [f"no alarm watches {metric}" for metric in set(Watched) - {m.get("MetricName") for _, m in watched}]
    for name, metric in watched:
        if str(metric.get("Namespace")).startswith("AWS/"):
            continue  # template_operations.py knows these
        if metric.get("Namespace") != NAMESPACE or metric.get("MetricName") not in set(Watched):
            problems.append(f"{name}: nothing emits {metric.get('Namespace')}/{metric.get('MetricName')}")
        if metric.get("Dimensions") != [{"Name": SERVICE, "Value": STACK_NAME}]:
            problems.append(f"{name}: {metric.get('MetricName')} is emitted with the stack as its {SERVICE}")
        if metric.get("Period") != timing.SCAN_PERIOD.total_seconds() and name != ON_DEPLOYMENT:
            problems.append(f"{name}: the period of {metric.get('MetricName')} is not that of the scan")
    for name, alarm in alarms:
        problems += [
            f"{name}: it has no action" for end in ("AlarmActions", "OKActions") if alarm.get(end) != ALARM_ACTIONS
        ]
        if not alarm.get("AlarmDescription"):
            problems.append(f"{name}: it does not say what is wrong")
    if template["Globals"]["Function"]["Environment"]["Variables"].get("POWERTOOLS_SERVICE_NAME") != STACK_NAME:
        problems.append("the metrics of two stacks would be added up")
    return problems + _silence_problems(alarms)


def _silence_problems(alarms: list[tuple[str, Any]]) -> Problems:
    """A scan that does not run emits nothing, so here no data is the worst news."""
    scans = [alarm for _, alarm in alarms if alarm.get("MetricName") == Watched.STUCK_SCAN_FINISHED]
    wanted = ("Sum", 3, 3, "LessThanThreshold", 1, "breaching")
    names = (
        "Statistic",
        "EvaluationPeriods",
        "DatapointsToAlarm",
        "ComparisonOperator",
        "Threshold",
        "TreatMissingData",
    )
    good = [alarm for alarm in scans if tuple(alarm.get(name) for name in names) == wanted]
    return [] if good else ["no alarm fires when no scan has finished for three periods"]


def _metrics_of(alarm: Template) -> list[dict[str, Any]]:
    if "MetricName" in alarm:
        return [dict(alarm)]
    stats = [metric["MetricStat"] for metric in alarm.get("Metrics", []) if "MetricStat" in metric]
    return [{**stat["Metric"], "Period": stat["Period"]} for stat in stats]


CHECKS = (
    handler_problems,
    route_problems,
    setting_problems,
    packaging_problems,
    timing_problems,
    queue_problems,
    permission_problems,
    table_problems,
    safety_problems,
    alarm_problems,
)


# --- reading the template -------------------------------------------------------------------------------------------


def functions_of(template: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            yield name, {**template["Globals"]["Function"], **resource["Properties"]}


def routes_of(template: Template) -> list[tuple[str, str]]:
    """The module that answers, and the route."""
    return [
        (function["Handler"].rpartition(".")[0], _route(event))
        for _, function in functions_of(template)
        for event in _events(function, "HttpApi")
    ]


def _properties(template: Template, name: str) -> dict[str, Any]:
    return template["Resources"].get(name, {}).get("Properties", {})


def _events(function: Template, type_: str) -> list[dict[str, Any]]:
    return [event["Properties"] for event in function.get("Events", {}).values() if event["Type"] == type_]


def _schedule(function: Template) -> str | None:
    return next((event.get("Schedule") for event in _events(function, "Schedule")), None)


def _route(event: Mapping[str, Any]) -> str:
    return f"{event['Method'].upper()} {event['Path']}" if "Path" in event else "$default"


def _module(handler: str) -> Any:
    try:
        return importlib.import_module(handler.rpartition(".")[0])
    except ImportError:
        return None


def _find_handler(handler: str) -> Any:
    return getattr(_module(handler), handler.rpartition(".")[2], None)


_EXAMPLES = {
    "STAGE": "local",
    "WEBHOOK_LOOPBACK": "false",
    "COUNTER_SHARDS": "10",
    "ALLOW_UPLOADS": "true",
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_CLIENT_ID": "Ov23liABCDEFGHIJKLMN",
    "SECURITY_CONTACT": "mailto:security@example.org",
    "VENDORS": "octocat:583231",
    "JUDGE": "bedrock",
    "BEDROCK_ENDPOINT_URL": "",
    "RATE_LIMITS": "off",
}


def _settings_read() -> set[str]:
    read: set[str] = set()

    class Recorder(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return _EXAMPLES.get(name, "1")

    load_settings(Recorder())
    return read


def _names_read_from_environ() -> set[str]:
    sources = [path for folder in ("shared", "functions") for path in (ROOT / folder).rglob("*.py")]
    read = re.compile(r"(?:environ(?:\.get\(|\[)|getenv\()\s*[\"'](\w+)")
    return {name for source in sources for name in read.findall(source.read_text())}


def _seconds_of_rate(schedule: str | None) -> float | None:
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", schedule or "")
    return match and timedelta(**{f"{match[2]}s": int(match[1])}).total_seconds()


def _gateway_problems(functions: Mapping[str, Template]) -> Problems:
    return [
        f"{name}: the gateway gives up before its timeout of {function['Timeout']} s"
        for name, function in functions.items()
        if _events(function, "HttpApi") and function["Timeout"] > GATEWAY_TIMEOUT.total_seconds()
    ]


def _consumer_problems(consumer: Template, name: str, most: int) -> Problems:
    problems, events = [], _events(consumer, "SQS")
    if [event.get("BatchSize") for event in events] != [3]:
        problems.append(f"{name}: its batch size is not 3")
    if [event.get("ScalingConfig", {}).get("MaximumConcurrency") for event in events] != [most]:
        problems.append(f"{name}: its queue may start more than {most}: throttled messages die unprocessed")
    return problems


def _given(template: Template, function: Template) -> set[tuple[str, str]]:
    return {
        (_resource(resource), action)
        for statement in statements_of(template, function)
        if statement["Effect"] == "Allow"
        for resource in _alternatives(statement["Resource"])
        for action in _as_list(statement["Action"])
    }


def statements_of(template: Template, function: Template) -> list[dict[str, Any]]:
    """Of the function's own role, or of the one that SAM makes of its policies; conditional ones as if they hold."""
    policies = function.get("Policies", [])
    if "Role" in function:
        role = _properties(template, _resource(function["Role"]))
        policies = [policy["PolicyDocument"] for policy in role.get("Policies", [])]
    statements = [s for policy in policies for s in policy.get("Statement", [])]
    return [statement["Fn::If"][1] if "Fn::If" in statement else statement for statement in statements]


def _alternatives(resources: Any) -> Iterator[Any]:
    for resource in _as_list(resources):
        yield from resource["Fn::If"][1:] if "Fn::If" in resource else [resource]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resource(value: Any) -> str:
    """`Table` for its ARN however it is written, `Table/index/list` for what is below it."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()))
    if isinstance(value, list):
        value = ".".join(value)
    return re.sub(r"\$\{(\w+)\.Arn\}", r"\1", str(value)).removesuffix(".Arn")


def _is_wildcard(resource: str) -> bool:
    below_a_prefix = r"Content/[a-z-]+/\*|arn:.*:bedrock:\*:.*:(foundation-model|inference-profile)/[^*]+"
    return "*" in resource and re.fullmatch(below_a_prefix, resource) is None


def _keys(table: Mapping[str, Any]) -> list[str]:
    return [key["AttributeName"] for key in sorted(table["KeySchema"], key=lambda key: key["KeyType"])]


def _log_problems(template: Template) -> Problems:
    problems = [
        f"{name}: its log would be kept for ever"
        for name, function in functions_of(template)
        if function.get("LoggingConfig", {}).get("LogGroup") != {"Ref": "Logs"}
    ]
    if "RetentionInDays" not in _properties(template, "Logs"):
        problems.append("logs are kept for ever")
    return problems
