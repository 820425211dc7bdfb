"""pages and admin_pages as the gateway calls them, against moto. Each route twice: warm is where they break."""

import re
from urllib.parse import urlencode

import pytest

from functions import admin_pages, pages
from functions.submissions_api import handler as submissions
from tests.support.builders import a_bundle
from tests.support.gateway_events import Context, an_http_event, call
from tests.support.memory import ADMIN_TOKEN

pytestmark = pytest.mark.usefixtures("function_env")
FORM = {"content-type": "application/x-www-form-urlencoded"}


def ask(function, route, form=None, cookies=(), **event) -> dict:
    headers = FORM if form is not None else {}
    raw = None if form is None else urlencode(form)
    made = an_http_event(route, headers=headers, raw=raw, **event) | {"cookies": list(cookies)}
    return function.handler(made, Context())


def submit(name: str) -> str:
    bundle = a_bundle(name)
    files = [{"path": path, "content": content} for path, content in bundle["files"]]
    body = {"bundle": {"name": name, "files": files}}
    return call(submissions, "POST /api/v1/submissions", body=body).body["id"]


def test_every_public_page_answers_cold_and_warm():
    submission_id = submit("seen")
    routes = {
        "GET /": {},
        "GET /queue": {},
        "GET /submit": {},
        "GET /skills": {},
        "GET /submissions/{id}": {"id": submission_id},
    }
    for route, path in [*routes.items(), *routes.items()]:
        answer = ask(pages, route, path=path)
        assert answer["statusCode"] == 200, route
        assert answer["headers"]["content-type"] == "text/html; charset=utf-8"


def test_a_form_without_a_script_submits_and_leads_on():
    for name in ("first", "second"):
        form = {"repoUrl": "https://github.com/o/r", "skillPath": f"skills/{name}"}
        answer = ask(pages, "POST /submit", form=form)
        assert (answer["statusCode"], answer["headers"]["location"][:13]) == (303, "/submissions/")


def test_what_has_no_route_is_not_found_in_words_or_in_json():
    for path, kind in (("/nothing", "text/html"), ("/api/v1/nothing", "application/json")):
        answer = pages.handler(an_http_event("$default") | {"rawPath": path}, Context())
        assert answer["statusCode"] == 404
        assert answer["headers"]["content-type"].startswith(kind)


def test_the_panel_is_entered_used_and_left_cold_and_warm():
    submission_id = submit("decided")
    for _ in range(2):
        sign_in_page = ask(admin_pages, "GET /admin")
        nonce = sign_in_page["cookies"][0].partition(";")[0]
        form = {"token": f"{ADMIN_TOKEN}-admin", "csrf_token": csrf_token_in(sign_in_page)}
        entered = ask(admin_pages, "POST /admin/sign-in", form=form, cookies=[nonce])
        cookie = entered["cookies"][0].partition(";")[0]
        panel = ask(admin_pages, "GET /admin", cookies=[cookie])
        assert "Sign out" in panel["body"]
        csrf_token = csrf_token_in(panel)
        decided = ask(
            admin_pages,
            "POST /admin/review/{id}",
            form={"csrf_token": csrf_token, "action": "dequeue", "why": "a test"},
            cookies=[cookie],
            path={"id": submission_id},
        )
        assert decided["statusCode"] in (303, 409)  # the second time it is out already
        for route, more in (("recount", {}), ("stuck", {"why": "x"}), ("pause", {"why": "x", "action": "resume"})):
            answer = ask(admin_pages, f"POST /admin/{route}", form={"csrf_token": csrf_token, **more}, cookies=[cookie])
            assert answer["statusCode"] in (200, 303), route
        assert (
            ask(admin_pages, "POST /admin/sign-out", form={"csrf_token": csrf_token}, cookies=[cookie])["statusCode"]
            == 303
        )


def csrf_token_in(answer: dict) -> str:
    return re.search(r'name="csrf_token" value="([0-9a-f]{64})"', answer["body"])[1]
