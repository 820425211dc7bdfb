"""admin_api as the gateway calls it: who gets in, what they find, what they change. Each route twice, on a warm
process."""

import hashlib

import pytest

from functions.admin_api import ROUTES, handler
from shared.access.audit import get_audit
from tests.support import admin_subjects as subjects
from tests.support.admin_subjects import SCENES, WHY, on_loop
from tests.support.aws_resources import client
from tests.support.gateway_events import call, error_of
from tests.support.memory import ADMIN_TOKEN

ADMIN = "/api/v1/admin"
STUCK = f"GET {ADMIN}/stuck"
REQUEUE = f"POST {ADMIN}/stuck/requeue"

# Who may ask at all, written down by hand. What a reviewer may decide depends on the submission: see below.
NEEDS = {
    f"GET {ADMIN}/stuck": "reviewer",
    f"POST {ADMIN}/stuck/requeue": "admin",
    f"POST {ADMIN}/stuck/{{id}}/requeue": "admin",
    f"POST {ADMIN}/submissions/retry-all": "admin",
    f"POST {ADMIN}/submissions/{{id}}/approve": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/reject": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/retry": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/block": "admin",
    f"POST {ADMIN}/submissions/{{id}}/unblock": "admin",
    f"POST {ADMIN}/submissions/{{id}}/dequeue": "admin",
    f"GET {ADMIN}/submissions/{{id}}/review": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/claim": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/release": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/notes": "reviewer",
    f"GET {ADMIN}/appeals": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/appeals/{{appeal}}/answer": "reviewer",
    f"GET {ADMIN}/false-alarms": "reviewer",
    f"GET {ADMIN}/dead-letters": "reviewer",
    f"POST {ADMIN}/dead-letters/retry-all": "admin",
    f"POST {ADMIN}/dead-letters/{{id}}/retry": "reviewer",
    f"POST {ADMIN}/dead-letters/{{id}}/discard": "admin",
    f"GET {ADMIN}/queue": "reviewer",
    f"POST {ADMIN}/queue/pause": "admin",
    f"POST {ADMIN}/queue/resume": "admin",
    f"POST {ADMIN}/blocklist": "admin",
    f"POST {ADMIN}/blocklist/remove": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/block": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/unblock": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/yank": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/unyank": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/rescan": "admin",
    f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/delete": "admin",
    f"POST {ADMIN}/skills/rescan": "admin",
    f"GET {ADMIN}/reports": "reviewer",
    f"POST {ADMIN}/reports/{{id}}/confirm": "reviewer",
    f"POST {ADMIN}/reports/{{id}}/settle": "admin",
    f"POST {ADMIN}/rebuild-index": "admin",
    f"POST {ADMIN}/build-artifacts": "admin",
    f"GET {ADMIN}/audit": "reviewer",
    f"POST {ADMIN}/recount": "reviewer",  # and an admin to repair
    f"POST {ADMIN}/migrate-skill-slugs": "admin",
    f"GET {ADMIN}/tokens": "reviewer",
    f"POST {ADMIN}/tokens/{{id}}/revoke": "admin",
}
TOKENS = {
    "none": None,
    "empty": "Bearer ",
    "wrong": "Bearer wrong",
    "the hash": f"Bearer {hashlib.sha256(f'{ADMIN_TOKEN}-admin'.encode()).hexdigest()}",
    "basic": f"Basic {ADMIN_TOKEN}-admin",
    "reviewer": f"Bearer {ADMIN_TOKEN}-reviewer",
    "admin": f"Bearer {ADMIN_TOKEN}-admin",
}
NOBODY = {"id": "nobody", "appeal": "none", "owner": "no", "repo": "such", "skill": "skill"}

pytestmark = pytest.mark.usefixtures("function_env")


def ask(route, who="admin", **event):
    token = TOKENS[who]
    return call(handler, route, headers={} if token is None else {"authorization": token}, **event)


def audit():
    return on_loop(get_audit)


# --- who gets in ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S16")
def test_every_admin_route_has_a_role():
    assert set(NEEDS) == set(ROUTES)


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_every_route_lets_in_exactly_the_roles_it_should(route):
    for who in TOKENS:
        for _ in range(2):
            answer = ask(route, who, path=NOBODY)
            if who not in ("reviewer", "admin"):
                assert error_of(answer) == (401, "unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
            elif who == "reviewer" and NEEDS[route] == "admin":
                assert error_of(answer) == (403, "forbidden")
            else:
                assert answer.status not in (401, 403, 500, 503), (route, who)
            assert ADMIN_TOKEN not in str(answer.body)


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_revoked_token_is_out(route, function_env, moto_url):
    key = f"revoked:{hashlib.sha256(f'{ADMIN_TOKEN}-admin'.encode()).hexdigest()}"
    item = {"pk": {"S": key}, "sk": {"S": "."}, "doc": {"S": "{}"}}
    assert ask(route, path=NOBODY).status != 401
    client("dynamodb", moto_url).put_item(TableName=function_env.table_name, Item=item)
    assert error_of(ask(route, path=NOBODY)) == (401, "unauthorized")


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_stranger_learns_nothing_about_the_parameters(route):
    assert error_of(ask(route, "none", query="x=1", path=NOBODY)) == (401, "unauthorized")
    assert error_of(ask(route, "admin", query="x=1", path=NOBODY)) == (400, "unknown_parameter")


# --- every action, with who and why ---------------------------------------------------------------------------------


def test_every_route_that_changes_something_has_a_scene():
    assert set(SCENES) == {route for route in ROUTES if route.startswith("POST ")}


@pytest.mark.parametrize("route", sorted(SCENES))
def test_every_action_is_taken_by_the_real_store_and_then_the_audit_list_is_read_warm(route):
    scene = SCENES[route]()
    answer = ask(route, path=scene.path, body={scene.why_field: WHY} | scene.body)
    assert answer.status == 200, answer.body
    [entry] = ask(f"GET {ADMIN}/audit").body["entries"]
    assert (entry["by"], entry["role"], entry["why"]) == ("admin", "admin", WHY)


# --- what is stuck --------------------------------------------------------------------------------------------------


def test_without_anything_stuck_there_is_nothing_to_do():
    subjects.submit_repo("https://github.com/o/r")
    for _ in range(2):
        assert ask(STUCK).body == {"stuck": [], "count": 0, "unreadable": [], "more": False, "paused": None}
        report = ask(REQUEUE, body={"reason": WHY}).body
        assert (report["found"], report["failed"], report["more"], report["paused"]) == (0, [], False, False)


def test_what_waits_too_long_is_shown_and_sent_again_once(function_env, moto_url):
    created = subjects.submit_repo("https://github.com/o/r")
    _grow_old(moto_url, function_env.table_name, created["id"])
    shown = ask(STUCK, "reviewer").body
    assert [(row["submission"]["id"], row["next"]) for row in shown["stuck"]] == [(created["id"], "send again")]
    one = f"POST {ADMIN}/stuck/{{id}}/requeue"
    answers = [ask(one, path={"id": created["id"]}, body={"reason": WHY}).body for _ in range(2)]
    assert answers == [{"id": created["id"], "done": "send again"}, {"id": created["id"], "done": "leave"}]
    assert ask(REQUEUE, body={"reason": WHY}).body["sentAgain"] == 0
    queue = client("sqs", moto_url)
    received = queue.receive_message(QueueUrl=function_env.queue_url, MaxNumberOfMessages=10)["Messages"]
    assert len(received) == 2  # at submit, and now


def _grow_old(moto_url, table_name, submission_id):
    """As if it had been submitted a year ago."""
    table = client("dynamodb", moto_url)
    key = {"pk": {"S": f"sub:{submission_id}"}, "sk": {"S": "."}}
    item = table.get_item(TableName=table_name, Key=key)["Item"]
    year = item["dueSk"]["S"][:4]
    old = str(int(year) - 1)
    item["doc"]["S"] = item["doc"]["S"].replace(f'At":"{year}', f'At":"{old}')
    item["dueSk"]["S"] = item["dueSk"]["S"].replace(year, old, 1)
    table.put_item(TableName=table_name, Item=item)


# --- counters, tokens ----------------------------------------------------------------------------------------


def counted_to_the_end(role="admin", **body):
    """All calls of one count: how many records each had read, and the last answer."""
    answer = recounted(role, body)
    checked = [answer["checked"]]
    while answer["cursor"]:
        assert answer["drift"] is answer["counted"] is answer["busy"] is None
        assert not answer["repaired"]
        answer = recounted(role, {**body, "cursor": answer["cursor"]})
        checked.append(answer["checked"])
    return checked, answer


def recounted(role, body):
    """On a busy machine the store may be too slow for an answer: 503 asks to come again, and a count goes on."""
    for _ in range(5):
        answer = ask(f"POST {ADMIN}/recount", role, body=body)
        if answer.status != 503:
            break
    assert answer.status == 200, answer.body
    return answer.body


def test_a_recount_finds_drift_a_repair_takes_it_away_and_only_an_admin_repairs(function_env, moto_url, monkeypatch):
    monkeypatch.setattr("shared.moderation.recount.RECORDS_PER_PAGE", 1)
    monkeypatch.setattr("shared.moderation.recount.PAGES_AT_ONCE", 1)
    subjects.held()
    subjects.waiting()
    key = {"pk": {"S": "stats:3"}, "sk": {"S": "."}}
    client("dynamodb", moto_url).update_item(
        TableName=function_env.table_name,
        Key=key,
        UpdateExpression="ADD RECEIVED :n, PUBLISHED :m",
        ExpressionAttributeValues={":n": {"N": "5"}, ":m": {"N": "-2"}},
    )
    drift = {"RECEIVED": 5, "PUBLISHED": -2}
    for _ in range(2):
        checked, counted = counted_to_the_end("reviewer")
        assert checked[:2] == [1, 2]
        assert (counted["checked"], counted["total"]) == (2, 5)
        assert (counted["drift"], counted["unread"], counted["busy"], counted["repaired"]) == (drift, 0, 0, False)
    repair = {"repair": True, "reason": WHY}
    assert error_of(ask(f"POST {ADMIN}/recount", "reviewer", body=repair)) == (403, "forbidden")
    _, repaired = counted_to_the_end(**repair)
    assert (repaired["drift"], repaired["repaired"]) == (drift, True)
    _, after = counted_to_the_end()
    assert (after["drift"], after["counted"]) == ({}, after["found"])
    assert after["counted"]["ON_HOLD"] == 1


def test_tokens_are_listed_without_their_hashes_and_one_is_revoked_at_once():
    tokens = ask(f"GET {ADMIN}/tokens", "reviewer").body
    assert tokens["count"] == 2
    assert [(token["name"], token["role"], token["isYours"]) for token in tokens["tokens"]] == [
        ("reviewer", "reviewer", True),
        ("admin", "admin", False),
    ]
    assert not any(len(str(value)) > 32 for token in tokens["tokens"] for value in token.values())
    reviewer, admin = (token["id"] for token in tokens["tokens"])
    route = f"POST {ADMIN}/tokens/{{id}}/revoke"
    assert error_of(ask(route, path={"id": "nobody"}, body={"reason": WHY})) == (404, "token_not_found")
    assert error_of(ask(route, path={"id": admin}, body={"reason": WHY})) == (409, "own_token")
    mine = {"reason": WHY, "evenMine": True}
    assert error_of(ask(route, path={"id": admin}, body=mine)) == (409, "last_admin")
    for _ in range(2):  # a second time it is what it is
        revoked = ask(route, path={"id": reviewer}, body={"reason": WHY}).body
        assert (revoked["revoked"], revoked["revokedBy"]) == (True, "admin")
    assert error_of(ask(STUCK, "reviewer")) == (401, "unauthorized")
    assert [entry.action for entry in audit()] == ["revoke token"]
