"""What a function that is taken over could do, by the policies of template.yaml."""

import pytest

from local.cloudformation import load
from shared.storage.kv import Key, Put
from tests.support.deploy_role import may_deploy
from tests.support.guarded_kv import GuardedKV
from tests.support.iam import Simulator
from tests.support.memory import Clock, MemoryKV
from tests.support.planted_mistakes import planted
from tests.support.template_checks import ROOT, functions_of

TEMPLATE = load(ROOT / "template.yaml")
READ = "secretsmanager:GetSecretValue"
ADMINS = ["AdminApi", "AdminPages"]  # they check admin tokens
STRANGERS = [
    name
    for name, function in functions_of(TEMPLATE)
    if name not in ADMINS and "HttpApi" in {event["Type"] for event in function.get("Events", {}).values()}
]
PROTECTED = [
    "skill:a/b/c",
    "version:a/b/c",
    "clearance:a/b/c:h",
    "receipt:h:r",
    "own-receipt:sub_1",
    "block:1",
    "near:1",
    "near-evidence:h",
    "revoked:h",
    "audit:2026-01",
    "owner-tokens:1",
    "owner:name",
    "webhook-target:1",
    "signed-out:h",
    "queue:paused",
    "judge-budget:2026-01-01",
    "receipt-key:1",
    "dead-letter:1",
]
OWNERS = {"skill:a/b/c", "version:a/b/c", "receipt:h:r", "own-receipt:sub_1", "audit:2026-01", "owner:name"}
OWNERS |= {"owner-tokens:1", "webhook-target:1"}  # of the tokens they make and the webhook they name
MAY_WRITE = {  # what they are for: an owner rescans, withdraws and transfers; a critical external finding blocks
    "OwnerApi": OWNERS,
    "OwnerPages": OWNERS | {"signed-out:h"},
    "Webhooks": {"skill:a/b/c", "block:1", "near:1", "near-evidence:h"},
}
PRIVATE = [
    "owner-tokens:1",
    "webhook-target:1",
    "clearance:a/b/c:h",
    "audit:2026-01",
    "judge-budget:2026-01-01",
    "dead-letter:1",
]
MAY_READ = {name: {*PRIVATE[:4]} for name in ("OwnerApi", "OwnerPages")}


def test_all_public_functions_are_checked():
    assert {"Pages", "SubmissionsApi", "SkillsApi", "Registry", "OwnerApi", "OwnerPages", "Webhooks"} <= set(STRANGERS)


@pytest.mark.parametrize("function", STRANGERS)
def test_no_public_function_can_make_an_admin_session(function):
    simulator = Simulator(TEMPLATE, function)
    assert not simulator.may(READ, "SessionSecret")  # the key that signs one
    assert not simulator.may(READ, "AdminTokens")  # what one names


@pytest.mark.parametrize("key", PROTECTED)
@pytest.mark.parametrize("function", STRANGERS)
def test_no_public_function_can_write_what_people_and_workers_decide(function, key):
    assert Simulator(TEMPLATE, function).may_write(key) is (key in MAY_WRITE.get(function, ()))


@pytest.mark.parametrize("key", PRIVATE)
@pytest.mark.parametrize("function", STRANGERS)
def test_no_public_function_can_read_what_it_never_shows(function, key):
    assert Simulator(TEMPLATE, function).may("dynamodb:GetItem", "Table", [key]) is (key in MAY_READ.get(function, ()))


@pytest.mark.parametrize("function", [name for name in STRANGERS if name not in MAY_READ])
def test_lists_that_only_operators_see_are_closed(function):
    simulator = Simulator(TEMPLATE, function)
    assert not simulator.may("dynamodb:Query", "Table/index/list", ["reports:index#0"])
    assert not simulator.may("dynamodb:Query", "Table/index/state", ["report-open#0"])


def test_webhook_secrets_are_for_those_who_check_them_or_publish():
    readers = [name for name, _ in functions_of(TEMPLATE) if Simulator(TEMPLATE, name).may(READ, "WebhookSecrets")]
    assert readers == ["AdminApi", "AdminPages", "Webhooks", "Consumer", "LongScans"]


async def test_a_call_of_a_route_test_that_its_policy_would_refuse_is_named():
    kv = GuardedKV(MemoryKV(Clock().seconds), "functions.pages")
    await kv.put(Put(Key("skill:a/b/c"), "{}"))
    await kv.get(Key("audit:2026-01"))
    await kv.put(Put(Key("sub:1"), "{}"))
    assert kv.refused == {
        "functions.pages may not PutItem skill:a/b/c of Table",
        "functions.pages may not GetItem audit:2026-01 of Table",
    }


@pytest.mark.parametrize("function", STRANGERS)
def test_no_public_function_can_sign_a_receipt(function):
    assert not Simulator(TEMPLATE, function).may(READ, "ReceiptSecret")


NEEDED = {
    "SkillsApi": ["installs:a/b/c", "download:x:2026", "report:1", "repo-health:s", "limit:reports:ip", "github:pin:a"],
    "Registry": ["installs:a/b/c", "download:x:2026-01-01"],
    "SubmissionsApi": ["sub:1", "hist:1", "unique:s", "stats:1", "held:x", "idem:x:y", "github:1:c", "limit:submit:ip"],
    "Pages": ["sub:1", "hist:1", "unique:s", "stats:1", "held:x", "installs:a/b/c", "report:1", "limit:reports:ip"],
    "AdminApi": PROTECTED,
}  # fmt: skip


@pytest.mark.parametrize("function", NEEDED)
def test_what_the_code_writes_is_allowed(function):
    simulator = Simulator(TEMPLATE, function)
    assert [key for key in NEEDED[function] if not simulator.may("dynamodb:PutItem", "Table", [key])] == []


def test_only_functions_that_check_admin_tokens_can_read_them():
    readers = [name for name, _ in functions_of(TEMPLATE) if Simulator(TEMPLATE, name).may(READ, "AdminTokens")]
    assert readers == ADMINS


def _without_condition(function, sid):
    def plant(template):
        statements = template["Resources"][function]["Properties"]["Policies"][0]["Statement"]
        statements[:] = [{k: v for k, v in s.items() if (s["Sid"], k) != (sid, "Condition")} for s in statements]

    return plant


def _without_statement(function, sid):
    def plant(template):
        policy = template["Resources"][function]["Properties"]["Policies"][0]
        policy["Statement"] = [s for s in policy["Statement"] if s["Sid"] != sid]

    return plant


@pytest.mark.parametrize(
    ("plant", "function"),
    [
        (_without_condition("SkillsApi", "WhatReadersLeave"), "SkillsApi"),
        (_without_condition("Registry", "Installs"), "Registry"),
        (_without_condition("Pages", "Accept"), "Pages"),
        (_without_condition("SubmissionsApi", "Accept"), "SubmissionsApi"),
        (_without_statement("OwnerApi", "NeverWrites"), "OwnerApi"),
        (_without_statement("OwnerPages", "NeverWrites"), "OwnerPages"),
        (_without_statement("Webhooks", "NeverWrites"), "Webhooks"),
    ],
)
def test_the_simulator_notices_a_policy_that_lost_its_guard(plant, function):
    assert Simulator(planted(TEMPLATE, plant), function).may_write("clearance:a/b/c:h")


@pytest.mark.parametrize("function", STRANGERS)
def test_a_function_that_may_read_everything_is_noticed(function):
    template = planted(TEMPLATE, _without_statement(function, "NeverReads"))
    assert Simulator(template, function).may("dynamodb:GetItem", "Table", ["judge-budget:2026-01-01"])


DEV, PROD = "vskill-platform", "vskill-platform-prod"
OF_A_STACK = {  # a resource of every kind, with the name that CloudFormation gives it
    "lambda:UpdateFunctionCode": "lambda:eu-west-1:1:function:{}-Pages-AB12",
    "sqs:SetQueueAttributes": "sqs:eu-west-1:1:{}-SubmissionQueue-AB12",
    "dynamodb:UpdateTable": "dynamodb:eu-west-1:1:table/{}-Table-AB12",
    "logs:PutRetentionPolicy": "logs:eu-west-1:1:log-group:{}-Logs-AB12",
    "events:PutRule": "events:eu-west-1:1:rule/{}-StuckScanEveryFiveMinutes-AB12",
    "cloudwatch:PutMetricAlarm": "cloudwatch:eu-west-1:1:alarm:{}-PagesFails-AB12",
    "codedeploy:CreateDeployment": "codedeploy:eu-west-1:1:deploymentgroup:{0}-App-AB12/{0}-PagesDeploymentGroup-CD34",
    "iam:PutRolePolicy": "iam::1:role/{}-PagesRole-AB12",
}


@pytest.mark.parametrize("action", OF_A_STACK)
@pytest.mark.parametrize("stack", [DEV, PROD])
def test_a_workflow_may_change_what_its_own_stack_is_made_of(stack, action):
    assert may_deploy(TEMPLATE, stack, action, OF_A_STACK[action].format(stack))


@pytest.mark.parametrize("action", OF_A_STACK)
@pytest.mark.parametrize(("stack", "other"), [(DEV, PROD), (PROD, DEV), (DEV, "another-vskill-platform")])
def test_a_workflow_may_change_nothing_of_another_stage(stack, other, action):
    assert not may_deploy(TEMPLATE, stack, action, OF_A_STACK[action].format(other))


@pytest.mark.parametrize("action", ["iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:UpdateAssumeRolePolicy"])
def test_a_workflow_cannot_give_itself_more_rights(action):
    role = f"iam::1:role/{DEV}-DeployRole-AB12"
    assert not may_deploy(TEMPLATE, DEV, action, role)
    assert may_deploy(_deploying_without(["NotItself"]), DEV, action, role)


def test_a_role_without_the_boundary_between_stages_is_noticed():
    function = OF_A_STACK["lambda:UpdateFunctionCode"].format(PROD)
    assert may_deploy(_deploying_without(["NotAnotherStage"]), DEV, "lambda:UpdateFunctionCode", function)


def test_a_workflow_reads_no_secret():
    assert not may_deploy(TEMPLATE, DEV, READ, "secretsmanager:eu-west-1:1:secret:GitHubTokens-AB12")


def _deploying_without(sids):
    def plant(template):
        policy = template["Resources"]["DeployRole"]["Properties"]["Policies"][0]["PolicyDocument"]
        policy["Statement"] = [s for s in policy["Statement"] if s["Sid"] not in sids]

    return planted(TEMPLATE, plant)
