"""What no route takes: 405 with the methods that would be right, else 404; JSON for programs, a page for people."""

import pytest

from functions.http.routes import methods_at
from functions.pages import every_route
from tests.support.route_calls import call


@pytest.mark.requirement("S24")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v1/submissions", "GET, POST"),
        ("POST", "/api/v1/submissions/stats", "GET"),
        ("PUT", "/api/v1/submissions/sub_x", "GET"),
        ("GET", "/api/v1/webhooks/scan-results", "POST"),
        ("HEAD", "/api/v1/health", "GET"),
        ("OPTIONS", "/api/v1/admin/stuck", "GET"),
        ("PATCH", "/api/v1/openapi.json", "GET"),
    ],
)
async def test_a_wrong_method_is_405_with_those_that_are_allowed(env, method, path, allowed):
    answer = await call(env, "$default", path, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.json["error"]["code"] == "method_not_allowed"
    assert method in answer.json["message"]


@pytest.mark.requirement("S24")
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1",
        "/api/v1/",
        "/api/v1/submission",
        "/api/v1//submissions",
        "/api/v1/submissions/",
        "/api/v1/submissions/a/b",
        "/api/v1/submissions/../admin/stuck",
        "/api/v2/submissions",
        "/api/../api/v1/submissions",
    ],
)
async def test_an_address_that_does_not_exist_is_404_in_our_shape(env, path):
    answer = await call(env, "$default", path, method="GET")
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert "allow" not in answer.headers


@pytest.mark.requirement("S24")
async def test_people_get_a_page_for_both(env):
    missing = await call(env, "$default", "/nowhere", method="GET")
    wrong = await call(env, "$default", "/queue", method="DELETE")
    assert (missing.status, wrong.status, wrong.headers["allow"]) == (404, 405, "GET")
    for answer in (missing, wrong):
        assert answer.headers["content-type"].startswith("text/html")
    assert "This address supports GET, not DELETE." in wrong.text


def test_every_address_knows_its_methods():
    assert methods_at("/submit", every_route()) == ["GET", "POST"]
    assert methods_at("/api/v1/skills/a/b/c", every_route()) == ["GET"]
    assert methods_at("/assets/a/b", every_route()) == []


@pytest.mark.requirement("S24")
async def test_an_address_that_takes_post_only_is_no_submission(env):
    answer = await call(env, "GET /api/v1/submissions/{id}", "/api/v1/submissions/discover", id="discover")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert methods_at("/api/v1/submissions/discover", every_route()) == ["POST"]
    assert methods_at("/api/v1/submissions/stats", every_route()) == ["GET"]
