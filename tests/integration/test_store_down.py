"""When a part does not answer: 503 with Retry-After and in time, never an empty list, never a 500."""

import socket
import time

import pytest

from functions.admin_api import handler as admin
from functions.skills_api import handler as skills
from functions.submissions_api import handler as submissions
from shared import runtime
from shared.timing import STORE_BUDGET
from tests.support.gateway_events import call, error_of
from tests.support.memory import ADMIN_TOKEN

BUNDLE = {"bundle": {"name": "a", "files": [{"path": "SKILL.md", "content": "---\nname: a\ndescription: A.\n---\n"}]}}
AUTHORIZED = {"headers": {"authorization": f"Bearer {ADMIN_TOKEN}-admin"}}
REQUESTS = [
    (submissions, "GET /api/v1/submissions", {}),
    (submissions, "GET /api/v1/submissions", {"query": "state=published"}),
    (submissions, "GET /api/v1/submissions", {"query": "repoUrl=github.com/o/r"}),
    (submissions, "GET /api/v1/submissions/{id}", {"path": {"id": "sub_" + "0" * 26}}),
    (submissions, "POST /api/v1/submissions", {"body": BUNDLE}),
    (submissions, "POST /api/v1/submissions", {"body": {"repoUrl": "https://github.com/o/r"}}),
    (skills, "GET /api/v1/skills", {}),
    (skills, "GET /api/v1/skills/{proxy+}", {"path": {"proxy": "a/b/c"}}),
    (skills, "GET /api/v1/skills/{proxy+}", {"path": {"proxy": "c"}}),
    (admin, "GET /api/v1/admin/stuck", AUTHORIZED),
    (admin, "POST /api/v1/admin/stuck/requeue", AUTHORIZED),
]
IDS = [f"{route} {list(event.values())}"[:70] for _, route, event in REQUESTS]


@pytest.fixture
def silent_store(function_env, monkeypatch):
    """Everything behind the functions takes requests and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=500) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        runtime.request_env.cache_clear()
        runtime._aws.cache_clear()
        yield


@pytest.mark.requirement("R15")
@pytest.mark.usefixtures("no_store")
@pytest.mark.parametrize(("handler", "route", "event"), REQUESTS, ids=IDS)
def test_a_store_that_is_gone_is_a_503_twice(handler, route, event):
    for _ in range(2):
        answer = call(handler, route, seconds=1, **event)
        assert error_of(answer) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0


@pytest.mark.requirement("R15")
@pytest.mark.usefixtures("silent_store")
@pytest.mark.parametrize(("handler", "route", "event"), REQUESTS, ids=IDS)
def test_a_store_that_hangs_is_a_503_before_time_is_up(handler, route, event):
    started = time.monotonic()
    answer = call(handler, route, seconds=1, **event)
    assert error_of(answer) == (503, "unavailable")
    assert time.monotonic() - started < STORE_BUDGET.total_seconds()  # which the retries alone would take


@pytest.mark.usefixtures("no_store")
def test_stats_that_are_not_known_are_null_or_a_503_and_never_numbers():
    answer = call(submissions, "GET /api/v1/submissions/stats", seconds=3)
    if answer.status == 503:  # a busy machine may not get to the half answer in time
        assert error_of(answer)[1] == "unavailable"
        return
    assert answer.body["degraded"] is True
    cards = ("total", "active", "published", "rejected", "blocked", "onHold")
    assert [answer.body[card] for card in cards] == [None] * 6


@pytest.mark.usefixtures("no_store")
def test_health_names_what_is_down():
    answer = call(submissions, "GET /api/v1/health", seconds=8)
    assert answer.status == 503
    assert answer.body["parts"] == {"store": "down", "content": "down", "queue": "down", "secrets": "ok"}


@pytest.mark.usefixtures("silent_store")
def test_health_answers_even_when_everything_hangs():
    started = time.monotonic()
    assert error_of(call(submissions, "GET /api/v1/health", seconds=1)) == (503, "unavailable")
    assert time.monotonic() - started < 5  # the bucket alone would take thirty


def test_secrets_that_cannot_be_read_refuse_everyone(function_env, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRETS_FILE", str(tmp_path / "none.json"))
    runtime.request_env.cache_clear()
    runtime._aws.cache_clear()
    assert error_of(call(admin, "GET /api/v1/admin/stuck", **AUTHORIZED)) == (503, "unavailable")
