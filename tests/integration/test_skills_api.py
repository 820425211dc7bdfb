"""skills_api as the gateway calls it, twice each, on a warm process."""

import pytest

from functions.consumer import handler as consumer
from functions.skills_api import handler
from functions.submissions_api import handler as submissions
from tests.support.builders import a_bundle, an_sqs_record
from tests.support.http import Context, call, error_of
from tests.support.resources import client

LIST = "GET /api/v1/skills"
ONE = "GET /api/v1/skills/{proxy+}"

pytestmark = pytest.mark.usefixtures("function_env")


def publish(name, description="Greets people."):
    files = [{"path": path, "content": content} for path, content in a_bundle(name, description)["files"]]
    created = call(submissions, "POST /api/v1/submissions", body={"bundle": {"name": name, "files": files}})
    event = {"Records": [an_sqs_record(created.body["id"])]}
    assert consumer(event, Context(60)) == {"batchItemFailures": []}
    return files[0]["content"]


def test_an_empty_marketplace_is_an_empty_list_twice():
    for _ in range(2):
        answer = call(handler, LIST)
        assert (answer.status, answer.body) == (200, {"skills": [], "cursor": None, "degraded": False, "stale": []})


def test_published_skills_are_listed_page_by_page_newest_first():
    names = [f"skill-{n}" for n in range(5)]
    for name in names:
        publish(name)
    whole = call(handler, LIST, query="limit=100").body
    assert [skill["skillSlug"] for skill in whole["skills"]] == names[::-1]
    assert _pages(1) == _pages(2) == [skill["name"] for skill in whole["skills"]]


def test_a_skill_is_found_by_its_full_and_its_short_name_with_its_text():
    text = publish("greeter")
    full, short = (call(handler, ONE, path={"proxy": name}) for name in ("uploads/anonymous/greeter", "greeter"))
    assert full.status == short.status == 200
    assert full.body == short.body
    skill = full.body["skill"]
    assert (skill["content"], skill["versions"], skill["currentVersion"]) == (text, 1, "1.0.0")
    assert (skill["author"], skill["repoSlug"], skill["skillSlug"]) == ("uploads", "anonymous", "greeter")
    assert (skill["description"], skill["category"], skill["isBlocked"]) == ("Greets people.", "other", False)


@pytest.mark.parametrize(
    "name", ["none", "a/b/none", "a/b", "x" * 3000, "a/b/" + "\U0001f600" * 800, "..", "a//b", "\ud800"]
)
def test_what_nobody_published_is_not_found(name):
    for _ in range(2):
        assert error_of(call(handler, ONE, path={"proxy": name})) == (404, "skill_not_found")


def test_a_short_name_of_several_skills_is_a_conflict_that_names_them(function_env, moto_url):
    for name in ("a/b/pdf", "c/d/pdf"):
        item = {"pk": {"S": "skill:alias:pdf"}, "sk": {"S": name}, "doc": {"S": "{}"}}
        client("dynamodb", moto_url).put_item(TableName=function_env.table_name, Item=item)
    answer = call(handler, ONE, path={"proxy": "pdf"})
    assert error_of(answer) == (409, "ambiguous_name")
    assert answer.body["error"]["details"] == {"candidates": ["a/b/pdf", "c/d/pdf"]}


def test_a_skill_with_an_old_name_does_not_take_the_list_down(function_env, moto_url):
    publish("greeter")
    table = client("dynamodb", moto_url)
    key = {"pk": {"S": "skill:uploads/anonymous/greeter"}, "sk": {"S": "."}}
    item = table.get_item(TableName=function_env.table_name, Key=key)["Item"]
    old = item["doc"]["S"].replace('"uploads/anonymous/greeter"', '"greeter"')
    table.put_item(TableName=function_env.table_name, Item=item | {"pk": {"S": "skill:greeter"}, "doc": {"S": old}})
    answer = call(handler, LIST)
    assert answer.status == 200
    assert [skill["skillSlug"] for skill in answer.body["skills"]] == ["greeter", "greeter"]


@pytest.mark.parametrize(
    ("route", "query", "code"),
    [
        (LIST, "q=x", "unknown_parameter"),
        (LIST, "cursor=x", "invalid_cursor"),
        (LIST, "limit=1&limit=2", "repeated_parameter"),
        (ONE, "version=1", "unknown_parameter"),
    ],
)
def test_nothing_in_a_query_is_ignored_in_silence(route, query, code):
    path = {"proxy": "a/b/c"} if route == ONE else None
    assert error_of(call(handler, route, query=query, path=path)) == (400, code)


def test_S09_the_cursor_of_another_list_is_refused():
    for n in range(2):
        publish(f"skill-{n}")
    cursor = call(submissions, "GET /api/v1/submissions", query="limit=1").body["cursor"]
    assert cursor
    assert error_of(call(handler, LIST, query={"cursor": cursor})) == (400, "invalid_cursor")


def test_a_bearer_token_on_a_public_route_is_no_error():
    assert call(handler, LIST, headers={"authorization": "Bearer x", "content-type": "application/json"}).status == 200


def _pages(limit):
    names, cursor = [], None
    while True:
        query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        page = call(handler, LIST, query=query).body
        names += [skill["name"] for skill in page["skills"]]
        cursor = page["cursor"]
        if cursor is None:
            return names
