"""Bad input gets 400, 413 or 415 with a stable code and a sentence that says what to send instead. Never a 500."""

import json

import pytest

from functions.skills_api import handler as skills
from functions.submissions_api import handler as submissions
from tests.support.gateway_events import Context, an_http_event, call, error_of, read

SUBMIT = "POST /api/v1/submissions"
LIST = "GET /api/v1/submissions"
SKILLS = "GET /api/v1/skills"
REPO = "https://github.com/o/r"
FILE = {"path": "SKILL.md", "content": "x"}

pytestmark = pytest.mark.usefixtures("function_env")

BAD_JSON = {
    "empty": "",
    "no JSON": "repoUrl=x",
    "cut off": '{"repoUrl": "x"',
    "more after it": "{} {}",
    "single quotes": "{'repoUrl': 'x'}",
    "a comment": '{"repoUrl": "x"} // why',
    "a trailing comma": '{"repoUrl": "x",}',
    "NaN": '{"repoUrl": NaN}',
    "Infinity": '{"repoUrl": -Infinity}',
    "a key twice": '{"repoUrl": "a", "repoUrl": "b"}',
    "a key twice, deeper": '{"bundle": {"name": "a", "name": "b", "files": []}}',
    "a key twice, written differently": '{"repoUrl": "a", "\\u0072epoUrl": "b"}',
    "a lone surrogate": '{"repoUrl": "\\ud800"}',
    "a lone surrogate in a file": '{"bundle":{"name":"a","files":[{"path":"SKILL.md","content":"\\udfff"}]}}',
    "a lone surrogate as it is": '{"repoUrl": "\ud800"}',
    "deep lists": "[" * 100_000,
    "deep and closed": "[" * 50_000 + "]" * 50_000,
    "deeper than Python goes": "[" * 1010 + "]" * 1010,
    "deep objects": '{"a":' * 100_000,
    "a huge number": '{"repoUrl": ' + "9" * 5000 + "}",
    "a BOM": '\ufeff{"repoUrl": "x"}',
}


@pytest.mark.requirement("S10")
@pytest.mark.parametrize("raw", BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_not_plain_JSON_is_refused(raw):
    response = call(submissions, SUBMIT, raw=raw, headers={"content-type": "application/json"})
    assert error_of(response) == (400, "invalid_json")
    assert len(response.body["message"]) < 200
    assert "sys." not in response.body["message"]


BAD_BODY = [
    [],
    "text",
    1,
    None,
    {},
    {"repoUrl": REPO, "bundle": {"name": "a", "files": [FILE]}},
    {"repoUrl": None},
    {"repoUrl": 1},
    {"repoUrl": 10**30},
    {"repoUrl": [REPO]},
    {"repoUrl": REPO, "skillName": True},
    {"repoUrl": REPO, "state": "PUBLISHED"},
    {"repoUrl": REPO, "fence": 1},
    {"repoUrl": REPO, "certTier": "CERTIFIED"},
    {"repourl": REPO},
    {"repoUrl": REPO, "uploadToken": "x"},
    {"repoUrl": REPO, "source": "x" * 65},
    {"bundle": "x"},
    {"bundle": {"name": "a"}},
    {"bundle": {"files": [FILE]}},
    {"bundle": {"name": "a", "files": {}}},
    {"bundle": {"name": "a", "files": ["x"]}},
    {"bundle": {"name": "a", "files": [FILE | {"mode": "0777"}]}},
    {"bundle": {"name": "a", "files": [{"path": "SKILL.md", "content": 1}]}},
    {"bundle": {"name": "a", "files": [FILE]}, "skillName": "b"},
    {"bundle": {"name": "a", "files": [FILE]}, "skillPath": "b"},
]


@pytest.mark.requirement("S18")
@pytest.mark.parametrize("body", BAD_BODY, ids=lambda body: json.dumps(body)[:60])
def test_a_body_of_another_shape_is_refused(body):
    response = call(submissions, SUBMIT, raw=json.dumps(body))
    assert error_of(response) == (400, "invalid_body")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"repoUrl": "https://gitlab.com/o/r"}, 400, "invalid_repo_url"),
        ({"repoUrl": "http://[::1"}, 400, "invalid_repo_url"),
        ({"repoUrl": ""}, 400, "invalid_repo_url"),
        ({"repoUrl": REPO, "skillPath": "../x"}, 400, "invalid_skill_path"),
        ({"repoUrl": REPO, "skillPath": "\U0001f600" * 300}, 400, "invalid_skill_path"),
        ({"repoUrl": REPO, "skillName": "No Name"}, 400, "invalid_skill_name"),
        ({"repoUrl": REPO, "skillName": "versions"}, 400, "invalid_skill_name"),
        ({"bundle": {"name": "Caf\u00e9", "files": [FILE]}}, 400, "invalid_skill_name"),
        ({"bundle": {"name": "a", "files": []}}, 400, "invalid_bundle"),
        ({"bundle": {"name": "a", "files": [FILE, FILE]}}, 400, "invalid_bundle"),
        ({"bundle": {"name": "a", "files": [FILE | {"path": "../x"}]}}, 400, "invalid_bundle"),
        (
            {"bundle": {"name": "a", "files": [{"path": f"{n}", "content": ""} for n in range(501)]}},
            400,
            "invalid_bundle",
        ),
        ({"bundle": {"name": "a", "files": [FILE | {"content": "x" * (4 * 2**20 + 1)}]}}, 413, "too_large"),
        ({"repoUrl": "x" * (6 * 2**20)}, 413, "too_large"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)
def test_bad_values_are_refused_with_their_own_code(body, status, code):
    assert error_of(call(submissions, SUBMIT, body=body)) == (status, code)


@pytest.mark.requirement("S24")
@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_a_body_that_is_not_sent_as_JSON_is_refused(content_type):
    event = an_http_event(SUBMIT, body={"repoUrl": REPO})
    del event["headers"]["content-type"]
    event["headers"] |= {} if content_type is None else {"content-type": content_type}
    assert error_of(read(submissions(event, Context()))) == (415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x"])
def test_the_type_of_JSON_may_be_written_in_every_way(content_type):
    assert call(submissions, SUBMIT, body={"repoUrl": REPO}, headers={"content-type": content_type}).status == 201


BAD_LIMITS = [
    "0",
    "-1",
    "501",
    "5_0",
    "%D9%A1",
    "1.0",
    "1e2",
    "+5",
    "%205",
    "0x10",
    "",
    "ten",
    "9" * 5000,
    "%00",
    "1,2",
]


@pytest.mark.requirement("S08")
@pytest.mark.parametrize("limit", BAD_LIMITS, ids=lambda limit: limit[:12])
@pytest.mark.parametrize(("handler", "route"), [(submissions, LIST), (skills, SKILLS)])
def test_a_limit_out_of_range_is_refused_with_the_range(handler, route, limit):
    response = call(handler, route, query=f"limit={limit}")
    assert error_of(response) == (400, "invalid_limit")
    assert "from 1 to " in response.body["message"]


@pytest.mark.requirement("S08")
@pytest.mark.parametrize(("handler", "route", "highest"), [(submissions, LIST, 500), (skills, SKILLS, 100)])
def test_limits_in_range_are_taken(handler, route, highest):
    for limit in (1, highest):
        assert call(handler, route, query=f"limit={limit}").status == 200
    assert error_of(call(handler, route, query=f"limit={highest + 1}"))[0] == 400


@pytest.mark.parametrize(
    ("route", "query", "code"),
    [
        (LIST, "page=2", "unknown_parameter"),
        (LIST, "Limit=5", "unknown_parameter"),
        (LIST, "=x", "unknown_parameter"),
        (LIST, "limit=5&limit=6", "repeated_parameter"),
        (LIST, "state=published&state=active", "repeated_parameter"),
        (LIST, "state=", "invalid_state"),
        (LIST, "state=Published", "invalid_state"),
        (LIST, "state=active,blocked", "invalid_state"),
        (LIST, "sort=name", "invalid_sort"),
        (LIST, "sortDir=up", "invalid_sortDir"),
        (LIST, "state=active&sort=createdAt", "combination_not_served"),
        (LIST, "repoUrl=github.com/o/r&state=active", "combination_not_served"),
        (LIST, "repoUrl=github.com/o/r&sort=updatedAt", "combination_not_served"),
        (LIST, "repoUrl=gitlab.com/o/r", "invalid_repo_url"),
        (LIST, "repoUrl=", "invalid_repo_url"),
        (LIST, "cursor=x", "invalid_cursor"),
        (LIST, "cursor=%FF", "invalid_cursor"),
        ("GET /api/v1/submissions/stats", "a=1", "unknown_parameter"),
        ("GET /api/v1/health", "a=1", "unknown_parameter"),
    ],
)
def test_nothing_in_a_query_is_ignored_in_silence(route, query, code):
    assert error_of(call(submissions, route, query=query)) == (400, code)


@pytest.mark.parametrize(
    ("handler", "route", "event"),
    [
        (submissions, SUBMIT, {"body": {"bundle": {"name": "Corporate", "files": [FILE]}}}),
        (submissions, SUBMIT, {"body": {"bundle": {"name": "a", "files": [FILE | {"path": "../rate"}]}}}),
        (submissions, SUBMIT, {"body": {"repoUrl": REPO, "rate": 1}}),
        (submissions, LIST, {"query": "RATE=1"}),
        (submissions, "GET /api/v1/submissions/{id}", {"path": {"id": "sub_rate"}}),
        (skills, "GET /api/v1/skills/{proxy+}", {"path": {"proxy": "migrate"}}),
        (skills, "GET /api/v1/skills/{proxy+}", {"path": {"proxy": "a/b/Generate-Rates"}}),
    ],
)
def test_an_error_that_quotes_the_letters_rate_does_not_read_like_a_limit(handler, route, event):
    response = call(handler, route, **event)
    assert 400 <= error_of(response)[0] < 500
    assert "rate" in response.body["message"].lower()
