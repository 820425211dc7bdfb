"""Every function is watched, logged, traced and taken back alike, the data is protected, and bad parameters are refused
before anything is created; each claim with a mistake that is noticed."""

import re

import pytest

from local.cloudformation import load
from shared.errors import InvalidSettings
from shared.settings import LIMITED, load_settings
from tests.support.planted_mistakes import drop, of, planted, put
from tests.support.template_checks import ROOT
from tests.support.template_edge import EDGE_CHECKS
from tests.support.template_operations import OPERATIONS
from tests.support.template_parameters import refusals_of

TEMPLATE = load(ROOT / "template.yaml")
GLOBALS = "Globals.Function"
CONSUMER_STATEMENTS = of("ConsumerRole", "Policies.0.PolicyDocument.Statement")


def with_a_function_of_its_own_kind(template):
    """What the next engineer adds, with nothing but what a function needs to run."""
    template["Resources"]["Added"] = {
        "Type": "AWS::Serverless::Function",
        "Properties": {
            "Handler": "functions.added.handler",
            "Events": {
                "Jobs": {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": ["SubmissionQueue", "Arn"]}}},
                "Nightly": {"Type": "Schedule", "Properties": {"Schedule": "rate(1 day)"}},
            },
        },
    }


def with_any_model(template):
    statement = next(s for s in _consumer_statements(template) if "Fn::If" in s)["Fn::If"][1]
    statement["Resource"] = [{"Fn::Sub": "arn:${AWS::Partition}:bedrock:*::foundation-model/*"}]


def with_a_model_but_no_judge(template):
    statements = _consumer_statements(template)
    statements[:] = [s["Fn::If"][1] if "Fn::If" in s else s for s in statements]


def _consumer_statements(template):
    return template["Resources"]["ConsumerRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]


def with_plain_http(template):
    template["Resources"]["ContentPolicy"]["Properties"]["PolicyDocument"]["Statement"][0]["Effect"] = "Allow"


RECEIVED_RULE = of("Content", "LifecycleConfiguration.Rules.1")
IN_KEY = "ParametersInCacheKeyAndForwardedToOrigin"
EDGE = of("Distribution", "DistributionConfig")
BOARD_OF_NOTHING = '{"widgets": [{"properties": {"metrics": [["VskillPlatform", "X"]]}}]}'
MISTAKES = {
    "no alarm on a function": (drop("Resources.RegistryFails"), "no alarm watches Errors of Registry"),
    "an alarm on another function's errors": (
        put(of("RegistryFails", "Metrics.1.MetricStat.Metric.Dimensions.0.Value"), {"Ref": "Pages"}),
        "no alarm watches Errors of Registry",
    ),
    "no alarm on throttles": (drop(of("ConsumerFails", "Metrics.2")), "no alarm watches Throttles of Consumer"),
    "no alarm on 5xx": (drop("Resources.ApiFails"), "no alarm watches 5xx of Api"),
    "no alarm on p99": (drop("Resources.ApiSlow"), "no alarm watches Latency of Api"),
    "no alarm on the queue's age": (drop("Resources.SubmissionQueueOld"), "Age"),
    "no alarm on the dead letters' age": (drop("Resources.DeadLettersOld"), "OldestMessage of DeadLetters"),
    "no alarm on the table's throttles": (drop("Resources.TableThrottles"), "ThrottleEvents of Table"),
    "no alarm on failed schedules": (drop("Resources.SchedulesFail"), "FailedSchedules"),
    "an alarm by a dimension AWS does not report": (
        put(of("ApiFails", "Dimensions.0.Name"), "ApiName"),
        "AWS reports no AWS/ApiGateway/5xx",
    ),
    "an alarm without a dimension": (put(of("ApiFails", "Dimensions"), []), "AWS reports no AWS/ApiGateway/5xx"),
    "a version that nothing takes back": (
        drop(of("Consumer", "DeploymentPreference")),
        "Consumer: a new version is not taken back",
    ),
    "an alarm that needs longer than a canary": (
        put(of("PagesFails", "Metrics.1.MetricStat.Period"), 300),
        "PagesFails: goes off after 600 s",
    ),
    "a shared alarm that needs longer than a canary": (
        put(of("RequestsFail", "Period"), 300),
        "RequestsFail: goes off after 300 s",
    ),
    "no alarm shared by all deployments": (
        put(f"{GLOBALS}.DeploymentPreference.Alarms", []),
        "not taken back when requests fail",
    ),
    "settings that make no version": (put(of("Pages", "AutoPublishAliasAllProperties"), False), "alias live"),
    "no alias": (drop(f"{GLOBALS}.AutoPublishAlias"), "alias live"),
    "SnapStart without versions": (drop(f"{GLOBALS}.AutoPublishAlias"), "SnapStart has no effect"),
    "SnapStart for all but one": (put(of("Pages", "SnapStart"), {"ApplyOn": "None"}), "Pages: SnapStart has no effect"),
    "SnapStart that cannot be switched off": (
        put(f"{GLOBALS}.SnapStart", {"ApplyOn": "PublishedVersions"}),
        "not off by default",
    ),
    "SnapStart by default": (put("Parameters.SnapStart.Default", "on"), "not off by default"),
    "a runtime without SnapStart": (put(f"{GLOBALS}.Runtime", "python3.11"), "Lambda refuses SnapStart"),
    "a disk that SnapStart does not have": (
        put(of("Consumer", "EphemeralStorage"), {"Size": 1024}),
        "Consumer: Lambda refuses SnapStart",
    ),
    "a log level without effect": (drop(f"{GLOBALS}.LoggingConfig.ApplicationLogLevel"), "LogLevel has no effect"),
    "a level that drops the metrics": (
        put(f"{GLOBALS}.LoggingConfig.ApplicationLogLevel", {"Ref": "LogLevel"}),
        "silences its metrics",
    ),
    "no traces": (drop(f"{GLOBALS}.Tracing"), "Tracing has no effect"),
    "no access log": (drop(of("Api", "AccessLogSettings")), "no access log"),
    "an access log without the function's request": (
        put(of("Api", "AccessLogSettings.Format"), '{"r":"$context.requestId"}'),
        "does not say integration.requestId",
    ),
    "hidden retries of a schedule": (drop(of("StuckScan", "EventInvokeConfig")), "twice more"),
    "failures that nobody keeps": (drop(of("Rescan", "EventInvokeConfig.DestinationConfig")), "kept nowhere"),
    "SAM's role for a queue": (drop(of("Consumer", "Role")), "every queue of the account"),
    "no reserved concurrency": (drop(of("Consumer", "ReservedConcurrentExecutions")), "or is not there"),
    "a reservation that every account must have": (
        put(of("StuckScan", "ReservedConcurrentExecutions"), 1),
        "cannot be switched off",
    ),
    "less reserved by default": (put("Parameters.ReservedConcurrency.Default", 0), "not 10 by default"),
    "every model": (with_any_model, "may ask any model"),
    "a model without a judge": (with_a_model_but_no_judge, "although there is no judge"),
    "a table without protection": (drop(of("Table", "DeletionProtectionEnabled")), "deleted by one call"),
    "a table that is open unless asked": (put("Parameters.TableProtection.Default", "off"), "deleted by one call"),
    "a table that no failed creation can take back": (
        put(of("Table", "DeletionProtectionEnabled"), True),
        "deleted by one call, or",
    ),
    "a bucket without versions": (drop(of("Content", "VersioningConfiguration")), "cannot be restored"),
    "rejected files that stay": (drop(RECEIVED_RULE), "what was rejected does not expire"),
    "rejected files that go too soon": (put(f"{RECEIVED_RULE}.ExpirationInDays", 1), "does not expire"),
    "rejected files whose expiry is off": (put(f"{RECEIVED_RULE}.Status", "Disabled"), "does not expire"),
    "published files that expire": (put(f"{RECEIVED_RULE}.Prefix", "content/"), "published files expire: 'content/'"),
    "artifacts that expire": (put(f"{RECEIVED_RULE}.Prefix", "artifact/"), "published files expire: 'artifact/'"),
    "everything that expires": (drop(f"{RECEIVED_RULE}.Prefix"), "published files expire: ''"),
    "earlier versions that stay": (drop(of("Content", "LifecycleConfiguration.Rules.2")), "kept for ever"),
    "a bucket without TLS": (with_plain_http, "without TLS"),
    "a changed first value of a secret": (
        put(of("AdminTokens", "SecretString"), '{"adminTokens": [], "more": []}'),
        "write over the tokens in AdminTokens",
    ),
    "an edge that nobody asked for": (drop("Resources.Distribution.Condition"), "Distribution: not by parameter"),
    "an edge by default": (put("Parameters.Edge.Default", "on"), "on by default"),
    "an edge without its key": (drop(f"{EDGE}.Origins.0.OriginCustomHeaders"), "does not show its key"),
    "functions that believe an edge that is not there": (
        put(f"{GLOBALS}.Environment.Variables.EDGE_KEY", "a-key-in-the-template"),
        "by its key alone",
    ),
    "limits by edge": (drop(f"{EDGE}.DefaultCacheBehavior.FunctionAssociations"), "limits would count edges"),
    "a web ACL that is not used": (drop(f"{EDGE}.WebACLId"), "guards nothing"),
    "an edge that keeps failures": (put(f"{EDGE}.CustomErrorResponses.0.ErrorCachingMinTTL", 10), "ten seconds more"),
    "an edge that keeps everything": (put(of("EdgeCache", "CachePolicyConfig.DefaultTTL"), 60), "did not allow"),
    "an edge that mixes callers": (
        put(of("EdgeCache", f"CachePolicyConfig.{IN_KEY}.CookiesConfig.CookieBehavior"), "none"),
        "the answer of another",
    ),
    "reports without a throttle": (drop(of("Api", "RouteSettings.POST /skills/{proxy+}")), "nothing but the limit"),
    "proofs without a throttle": (drop(of("Api", "RouteSettings.POST /api/v1/owners/proofs")), "nothing but the limit"),
    "sign-in without a throttle": (drop(of("Api", "RouteSettings.POST /owner/sign-in")), "nothing but the limit"),
    "a throttle of a route that is gone": (
        put(of("Api", "RouteSettings.POST /gone"), {"ThrottlingBurstLimit": 1, "ThrottlingRateLimit": 1}),
        "POST /gone: throttled, and not there",
    ),
    "no dashboard": (drop("Resources.Dashboard"), "not one dashboard"),
    "a dashboard of nothing": (
        put(of("Dashboard", "DashboardBody"), {"Fn::Sub": BOARD_OF_NOTHING}),
        "which nothing emits",
    ),
}  # fmt: skip


CHECKS = (*OPERATIONS, *EDGE_CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_the_template_has_no_problems(check):
    assert check(TEMPLATE) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    plant, sentence = MISTAKES[mistake]
    template = planted(TEMPLATE, plant)
    problems = [problem for check in CHECKS for problem in check(template)]
    assert any(sentence in problem for problem in problems), problems


def test_a_function_that_is_added_without_them_is_named_for_everything_it_lacks():
    template = planted(TEMPLATE, with_a_function_of_its_own_kind)
    problems = [problem for check in CHECKS for problem in check(template) if "Added" in problem]
    assert len(problems) == 7, problems  # errors, throttles, its alarm, versions, retries, failures, role


WEB_ACL = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/WebAcl-1/01234567-89ab-cdef-0123-456789abcdef"
REFUSED = {
    "a judge without a model": ({"Judge": "bedrock"}, "needs JudgeModelId"),
    "a model without a judge": ({"JudgeModelId": "some.model-v1"}, "nothing would be judged"),
    "an unknown judge": ({"Judge": "oracle"}, "not one of"),
    "a vendor without an id": ({"Vendors": "octocat"}, "octocat:583231"),
    "a vendor whose id is no number": ({"Vendors": "octocat:abc"}, "octocat:583231"),
    "vendors separated by commas": ({"Vendors": "octocat:583231,github:9919"}, "octocat:583231"),
    "a vendor's id of 13 digits": ({"Vendors": "octocat:1000000000000"}, "octocat:583231"),
    "retention that CloudWatch does not have": ({"LogRetentionDays": "45"}, "not one of"),
    "retention of no days": ({"LogRetentionDays": "0"}, "not one of"),
    "a reservation of five": ({"ReservedConcurrency": "5"}, "not one of"),
    "the stage of one machine": ({"Stage": "local"}, "deploy dev or prod"),
    "production without limits": ({"Stage": "prod", "RateLimits": "off"}, "needs RateLimits"),
    "a limit without a time": ({"RateLimits": "submit=10"}, "submit=10/3600"),
    "a limit of an unknown kind": ({"RateLimits": "sumbit=10/3600"}, "submit=10/3600"),
    "a limit of none": ({"RateLimits": "submit=0/3600"}, "submit=10/3600"),
    "a scanner's name in capitals": ({"ExternalScanners": "Bandit"}, "not like"),
    "a share above all": ({"AddressShare": "101"}, "above 100"),
    "a number of counters that splits their groups": ({"CounterShards": "15"}, "not one of"),
    "no place in the queue": ({"MaxActive": "0"}, "below 1"),
    "GitHub without TLS": ({"GitHubApiUrl": "http://api.github.com"}, "not like"),
    "a topic that is no ARN": ({"AlarmTopicArn": "alarms"}, "not like"),
    "a web ACL without an edge": ({"WebAclArn": WEB_ACL}, "guard nothing"),
    "a web ACL of a region": ({"Edge": "on", "WebAclArn": WEB_ACL.replace("us-east-1", "eu-west-1")}, "us-east-1"),
    "a trace of another kind": ({"Tracing": "PassThrough"}, "not one of"),
    "a protection of another kind": ({"TableProtection": "maybe"}, "not one of"),
    "a start of another kind": ({"SnapStart": "true"}, "not one of"),
    "a deployment of another kind": ({"DeploymentType": "BlueGreen"}, "not one of"),
    "a repository without an owner": ({"GitHubRepository": "vskill-platform"}, "not like"),
    "a client secret as a client id": ({"GitHubClientId": "0123456789" * 4}, "not its secret"),
    "a contact that is no address": ({"SecurityContact": "security@example.org"}, "like mailto:"),
    "a parameter that is not there": ({"Colour": "blue"}, "no parameter Colour"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_parameters_are_refused_before_anything_is_created(case):
    values, reason = REFUSED[case]
    assert reason in str(refusals_of(TEMPLATE, values))


GOOD = [
    {},
    {"Stage": "prod", "LogRetentionDays": "90"},
    {"Judge": "bedrock", "JudgeModelId": "eu.some.model-v1:0", "JudgeFoundationModelId": "some.model-v1:0"},
    {"Vendors": "octocat:583231 github:9919", "ExternalScanners": "bandit detect-secrets", "ReservedConcurrency": "0"},
    {"GitHubClientId": "Iv1.8a61f9b3a7aba766"},
    {"SecurityContact": "mailto:security@example.org"},
    {"SecurityContact": "https://example.org/security?from=vskill"},
    {"SnapStart": "on"},
    {"Edge": "on", "WebAclArn": WEB_ACL},
    {"RateLimits": " ".join(f"{kind}=1/60" for kind in LIMITED), "GitHubRepository": "acme/vskill.platform"},
]  # fmt: skip


@pytest.mark.parametrize("values", GOOD)
def test_possible_parameters_are_accepted(values):
    assert refusals_of(TEMPLATE, values) == []


RULED = {"Judge": "JUDGE", "JudgeModelId": "JUDGE_MODEL_ID", "Vendors": "VENDORS", "RateLimits": "RATE_LIMITS"}
RULED |= {"ExternalScanners": "EXTERNAL_SCANNERS", "AddressShare": "ADDRESS_SHARE", "MaxActive": "MAX_ACTIVE"}
RULED |= {"CounterShards": "COUNTER_SHARDS"}
RULED |= {"GitHubApiUrl": "GITHUB_API_URL", "GitHubClientId": "GITHUB_CLIENT_ID"}
RULED |= {"SecurityContact": "SECURITY_CONTACT"}
RUNNING = {"STAGE": "prod", "TABLE_NAME": "t", "BUCKET_NAME": "b", "QUEUE_URL": "q", "SECRET_ID": "s"}
RUNNING |= {"ALLOW_UPLOADS": "false", "MAX_ACTIVE": "1", "AWS_REGION": "us-east-1"}


def _refused_by_the_code(values):
    settings = {RULED[name]: value for name, value in values.items() if name in RULED}
    try:
        load_settings(RUNNING | settings)
    except InvalidSettings:
        return True
    return False


@pytest.mark.parametrize("case", [case for case, (values, _) in REFUSED.items() if set(values) <= set(RULED)])
def test_what_the_code_would_refuse_at_run_time_the_template_has_refused_before(case):
    values, _ = REFUSED[case]
    assert not _refused_by_the_code(values) or refusals_of(TEMPLATE, values)


@pytest.mark.parametrize("values", GOOD)
def test_what_the_template_accepts_the_code_can_run_with(values):
    assert not _refused_by_the_code(values)


def test_the_web_acl_is_one_of_cloudfront_and_counts_by_address():
    acl = load(ROOT / "waf.yaml")["Resources"]["WebAcl"]["Properties"]
    rates = [rule["Statement"].get("RateBasedStatement", {}) for rule in acl["Rules"]]
    assert acl["Scope"] == "CLOUDFRONT"
    assert {"Limit": {"Ref": "RequestsPerAddress"}, "AggregateKeyType": "IP"} in rates


def alarms_without_a_row(template, pages):
    rows = [line.split("|")[1] for page in pages for line in page.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"[A-Za-z]+", row)}
    alarms = {name for name, resource in template["Resources"].items() if resource["Type"] == "AWS::CloudWatch::Alarm"}
    return sorted(alarms - named)


RUNBOOKS = [(ROOT / "docs" / page).read_text() for page in ("aws.md", "reliability.md")]


def test_an_operator_finds_every_alarm_in_a_table_that_says_what_to_do():
    assert alarms_without_a_row(TEMPLATE, RUNBOOKS) == []


def test_an_alarm_that_no_table_names_is_found():
    without = [page.replace("SweepFails", "") for page in RUNBOOKS]
    assert alarms_without_a_row(TEMPLATE, without) == ["SweepFails"]


def test_the_linter_finds_nothing_in_the_template_of_the_web_acl():
    from cfnlint.api import ManualArgs, lint  # here: its import takes a tenth of the collection of all tests

    text = (ROOT / "waf.yaml").read_text()
    config = ManualArgs(regions=["us-east-1"])
    assert lint(text, config=config) == []
    assert lint(text.replace("AggregateKeyType: IP", "AggregateKeyType: FACE"), config=config) != []
