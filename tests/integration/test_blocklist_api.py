"""The public blocklist as the gateway calls it, twice on a warm process: fields, scopes, what may be cached."""

import pytest

from functions import admin_api
from functions.skills_api import handler
from shared.evidence.blocklist import add_block, entry_for
from shared.marketplace.skill_admin import block_by_rule
from shared.marketplace.skill_store import find_skill
from shared.records.submissions import State
from shared.submissions.submission_store import move_submission
from tests.support import admin_subjects as subjects
from tests.support.admin_subjects import on_loop
from tests.support.gateway_events import Context, an_http_event, call, error_of
from tests.support.memory import ADMIN_TOKEN
from tests.support.published_skills import put
from tests.support.stored_skills import a_skill

LIST = "GET /api/v1/blocklist"
CHECK = "GET /api/v1/blocklist/check"
CLEAN = {"blocked": False, "rejected": False, "tainted": False, "taintReason": None}
AS_ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}-admin"}

pytestmark = pytest.mark.usefixtures("function_env")


def check(**query):
    answers = [call(handler, CHECK, query=query) for _ in range(2)]
    assert answers[0].body == answers[1].body
    return answers[0].body


def block(name, source=None, severity="high", content_hash=None):
    on_loop(lambda: add_block(entry_for(name, "steals keys", source, severity, content_hash)))


def test_an_empty_list_is_shown_as_such_and_is_not_cached():
    for _ in range(2):
        answer = call(handler, LIST)
        assert answer.body == {"entries": [], "count": 0, "lastUpdated": None}
        assert answer.headers["cache-control"] == "no-cache"


def test_entries_have_the_fields_that_clients_know_and_an_etag_that_changes_with_them():
    block("evil")
    block("acme/tools/worse", "https://github.com/acme/tools", "critical")
    answer = call(handler, LIST)
    newest, oldest = answer.body["entries"]
    always = {"skillName", "threatType", "severity", "reason", "evidenceUrls", "discoveredAt"}
    assert set(oldest) == always
    assert set(newest) == always | {"sourceUrl"}
    assert (newest["sourceUrl"], newest["severity"]) == ("https://github.com/acme/tools", "critical")
    assert (answer.body["count"], answer.body["lastUpdated"]) == (2, newest["discoveredAt"])
    etag = answer.headers["etag"]
    event = an_http_event(LIST, headers={"if-none-match": etag})
    assert handler(event, Context())["statusCode"] == 304
    block("another")
    assert handler(event, Context())["statusCode"] == 200


def test_a_list_with_gaps_is_no_list(function_env, moto_url):
    from tests.support.aws_resources import client

    block("evil")
    table = client("dynamodb", moto_url)
    key = {"pk": {"S": "block:name:evil"}, "sk": {"S": "."}}
    item = table.get_item(TableName=function_env.table_name, Key=key)["Item"]
    table.put_item(TableName=function_env.table_name, Item=item | {"doc": {"S": "{broken"}})
    answer = call(handler, LIST)
    assert error_of(answer) == (503, "unavailable")
    assert answer.headers["cache-control"] == "no-store"


def test_a_skill_is_checked_by_its_name_in_its_source_and_by_its_content():
    block("acme/tools/worse", "https://github.com/acme/tools")
    block("google")
    block("whatever", content_hash="a" * 64)
    for query in (
        {"name": "acme/tools/worse"},
        {"name": "ACME/Tools/worse"},
        {"name": "acme/tools/worse", "repoUrl": "https://github.com/Acme/tools.git"},
        {"name": "google"},
        {"name": "anybody/at-all/google"},
        {"name": "harmless", "hash": "a" * 64},
    ):
        answer = check(**query)
        assert (answer["blocked"], answer["entry"]["reason"]) == (True, "steals keys"), query
    for query in (
        {"name": "worse"},
        {"name": "worse", "repoUrl": "https://github.com/other/tools"},
        {"name": "other/tools/worse"},
        {"name": "harmless", "hash": "b" * 64},
    ):
        assert check(**query) == CLEAN, query
    assert check(name="other/x/y", repoUrl="https://github.com/acme/tools")["blocked"] is False


@pytest.mark.parametrize("repo", ["https://github.com/uploads/anonymous", "github.com/Uploads/anonymous.git/"])
def test_what_github_has_under_the_name_of_our_uploads_is_never_installed(repo):
    """A client takes `uploads/anonymous/{name}` for an address, and anybody may have that account."""
    submission = subjects.published()
    assert check(name=submission.skill_name) == CLEAN
    answer = call(handler, CHECK, query={"name": "greeter", "repoUrl": repo}).body
    assert (answer["blocked"], answer["entry"]["threatType"]) == (True, "impersonation")


def test_a_skill_that_newer_rules_took_out_is_blocked_though_no_entry_names_it():
    submission = subjects.published()
    skill = on_loop(lambda: find_skill(submission.skill_name))
    on_loop(lambda: block_by_rule(skill, "A newer rule set found something."))
    answer = check(name=submission.skill_name)
    assert answer["blocked"]
    assert answer["entry"]["reason"] == "A newer rule set found something."
    assert answer["entry"]["contentHash"] == submission.content_hash


def test_a_refusal_is_reported_with_its_reason():
    submission = subjects.rejected()
    for name in (submission.skill_name, submission.skill_name.rpartition("/")[2]):
        answer = check(name=name)
        assert (answer["blocked"], answer["rejected"]) == (False, True)
        rejection = answer["rejection"]
        assert set(rejection) == {"skillName", "state", "reason", "score", "rejectedAt"}
        assert (rejection["skillName"], rejection["state"]) == (submission.skill_name, "REJECTED")
        assert rejection["reason"]
    held = subjects.held()
    assert check(name=held.skill_name) == CLEAN
    on_loop(lambda: move_submission(held, State.DEQUEUED, "admin:anna", "not now"))
    assert check(name=held.skill_name)["rejection"]["state"] == "DEQUEUED"


def test_what_a_rule_blocked_cannot_be_installed_before_a_decision():
    submission = subjects.parked(State.BLOCKED, by="rule")
    for name in (submission.skill_name, submission.skill_name.rpartition("/")[2]):
        answer = check(name=name)
        assert (answer["blocked"], answer["rejected"]) == (True, False)
        assert (answer["entry"]["threatType"], answer["entry"]["reason"]) == ("suspected", "a doubt")
    on_loop(lambda: move_submission(submission, State.REJECTED, "admin:anna", "it is bad"))
    answer = check(name=submission.skill_name)
    assert (answer["blocked"], answer["rejection"]["reason"]) == (False, "it is bad")


def test_other_blocked_skills_of_its_author_taint_a_skill_but_not_what_is_blocked_alone():
    good = a_skill("acme/tools/good")
    bad = a_skill("acme/other/bad")
    put(good, bad)
    on_loop(lambda: block_by_rule(bad, "A newer rule set found something."))
    tainted = check(name="acme/tools/good")
    assert (tainted["blocked"], tainted["tainted"]) == (False, True)
    assert tainted["taintReason"] == "Another skill of acme is blocked."
    alone = check(name="acme/other/bad")
    assert (alone["blocked"], alone["tainted"]) == (True, False)
    upload = subjects.published()
    blocked = subjects.published()
    route = "POST /api/v1/admin/skills/{owner}/{repo}/{skill}/block"
    path = subjects.path_of(blocked.skill_name)
    assert call(admin_api.handler, route, path=path, headers=AS_ADMIN, body={"reason": "bad"}).status == 200
    assert check(name=upload.skill_name)["tainted"] is False


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "missing_parameter"),
        ("name=", "invalid_name"),
        ("name=x&hash=abc", "invalid_hash"),
        ("name=x&repoUrl=https://evil.example/a/b", "invalid_repo_url"),
        ("name=x&y=1", "unknown_parameter"),
    ],
)
def test_what_cannot_be_asked_is_refused(query, code):
    assert error_of(call(handler, CHECK, query=query)) == (400, code)


def test_a_token_of_whatever_kind_is_no_error_here():
    for token in ("Bearer wrong", "Basic x", f"Bearer {ADMIN_TOKEN}-admin"):
        assert call(handler, LIST, headers={"authorization": token}).status == 200
        assert call(handler, CHECK, query="name=x", headers={"authorization": token}).status == 200
