"""admin_api as the gateway calls it: who gets in, and what they find. Each route twice, on a warm process."""

import hashlib

import pytest

from functions.admin_api import ROUTES, handler
from functions.submissions_api import handler as submissions
from tests.support.http import call, error_of
from tests.support.memory import ADMIN_TOKEN
from tests.support.resources import client

STUCK = "GET /api/v1/admin/stuck"
REQUEUE = "POST /api/v1/admin/stuck/requeue"
NEEDS = {STUCK: "reviewer", REQUEUE: "admin"}
TOKENS = {
    "none": None,
    "empty": "Bearer ",
    "wrong": "Bearer wrong",
    "the hash": f"Bearer {hashlib.sha256(f'{ADMIN_TOKEN}-admin'.encode()).hexdigest()}",
    "basic": f"Basic {ADMIN_TOKEN}-admin",
    "reviewer": f"Bearer {ADMIN_TOKEN}-reviewer",
    "admin": f"Bearer {ADMIN_TOKEN}-admin",
}

pytestmark = pytest.mark.usefixtures("function_env")


def ask(route, who="admin", **event):
    token = TOKENS[who]
    return call(handler, route, headers={} if token is None else {"authorization": token}, **event)


def expected_status(route, who):
    if who not in ("reviewer", "admin"):
        return 401
    return 403 if who == "reviewer" and NEEDS[route] == "admin" else 200


def test_S16_every_admin_route_has_a_role():
    assert set(NEEDS) == set(ROUTES)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_S16_every_route_lets_in_whom_it_should_and_nobody_else(route):
    for who in TOKENS:
        for _ in range(2):
            answer = ask(route, who)
            assert answer.status == expected_status(route, who), (route, who)
            if answer.status == 401:
                assert error_of(answer)[1] == "unauthorized"
                assert answer.headers["www-authenticate"] == "Bearer"
            if answer.status == 403:
                assert error_of(answer)[1] == "forbidden"
            assert ADMIN_TOKEN not in str(answer.body)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_S15_a_revoked_token_is_out(route, function_env, moto_url):
    key = f"revoked:{hashlib.sha256(f'{ADMIN_TOKEN}-admin'.encode()).hexdigest()}"
    item = {"pk": {"S": key}, "sk": {"S": "."}, "doc": {"S": "{}"}}
    assert ask(route).status == 200
    client("dynamodb", moto_url).put_item(TableName=function_env.table_name, Item=item)
    assert error_of(ask(route)) == (401, "unauthorized")


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_stranger_learns_nothing_about_the_parameters(route):
    assert error_of(ask(route, "none", query="x=1")) == (401, "unauthorized")
    assert error_of(ask(route, "admin", query="x=1")) == (400, "unknown_parameter")


def test_without_anything_stuck_there_is_nothing_to_do():
    call(submissions, "POST /api/v1/submissions", body={"repoUrl": "https://github.com/o/r"})
    for _ in range(2):
        assert ask(STUCK).body == {"stuck": [], "count": 0, "unreadable": [], "more": False, "paused": None}
        report = ask(REQUEUE).body
        assert (report["found"], report["failed"], report["more"], report["paused"]) == (0, [], False, False)


def test_what_waits_too_long_is_shown_and_sent_again_once(function_env, moto_url):
    created = call(submissions, "POST /api/v1/submissions", body={"repoUrl": "https://github.com/o/r"}).body
    _grow_old(moto_url, function_env.table_name, created["id"])
    shown = ask(STUCK, "reviewer").body
    assert [(row["submission"]["id"], row["next"]) for row in shown["stuck"]] == [(created["id"], "send again")]
    assert (ask(REQUEUE).body["sentAgain"], ask(REQUEUE).body["sentAgain"]) == (1, 0)
    queue = client("sqs", moto_url)
    received = queue.receive_message(QueueUrl=function_env.queue_url, MaxNumberOfMessages=10)["Messages"]
    assert len(received) == 2  # at submit, and now


def _grow_old(moto_url, table_name, submission_id):
    """As if it had been submitted an hour ago."""
    table = client("dynamodb", moto_url)
    key = {"pk": {"S": f"sub:{submission_id}"}, "sk": {"S": "."}}
    item = table.get_item(TableName=table_name, Key=key)["Item"]
    year = item["dueSk"]["S"][:4]
    old = str(int(year) - 1)
    item["doc"]["S"] = item["doc"]["S"].replace(f'At":"{year}', f'At":"{old}')
    item["dueSk"]["S"] = item["dueSk"]["S"].replace(year, old, 1)
    table.put_item(TableName=table_name, Item=item)
