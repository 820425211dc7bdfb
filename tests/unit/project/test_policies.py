"""What a function that is taken over could do, by the policies of template.yaml."""

import pytest

from local.cloudformation import load
from tests.support.iam import Simulator
from tests.support.planted_mistakes import planted
from tests.support.template_checks import ROOT

TEMPLATE = load(ROOT / "template.yaml")
READ = "secretsmanager:GetSecretValue"
STRANGERS = ["SubmissionsApi", "SkillsApi", "Registry", "Pages"]  # they answer anybody
PROTECTED = [
    "skill:a/b/c",
    "version:a/b/c",
    "clearance:a/b/c:h",
    "receipt:h:r",
    "block:1",
    "revoked:h",
    "audit:2026-01",
]


@pytest.mark.parametrize("function", STRANGERS)
def test_no_function_that_answers_anybody_can_make_an_admin_session(function):
    simulator = Simulator(TEMPLATE, function)
    assert not simulator.may(READ, "SessionSecret")  # the key that signs one
    assert not simulator.may(READ, "AdminTokens")  # what one names


@pytest.mark.parametrize("key", PROTECTED)
@pytest.mark.parametrize("function", STRANGERS)
def test_no_function_that_answers_anybody_can_write_what_people_and_workers_decide(function, key):
    assert not Simulator(TEMPLATE, function).may_write(key)


@pytest.mark.parametrize("function", STRANGERS)
def test_no_function_that_answers_anybody_can_sign_a_receipt(function):
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
    from tests.support.template_checks import functions_of

    readers = [name for name, _ in functions_of(TEMPLATE) if Simulator(TEMPLATE, name).may(READ, "AdminTokens")]
    assert readers == ["AdminApi", "AdminPages"]


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
        (_without_statement("Pages", "NeverWrites"), "Pages"),
        (_without_statement("SubmissionsApi", "NeverWrites"), "SubmissionsApi"),
    ],
)
def test_the_simulator_notices_a_policy_that_lost_its_guard(plant, function):
    assert Simulator(planted(TEMPLATE, plant), function).may_write("skill:a/b/c")
