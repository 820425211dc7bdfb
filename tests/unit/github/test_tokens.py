"""Several GitHub tokens, each with a quota of its own; and what is said where there is none."""

from datetime import timedelta

import msgspec
import pytest

from shared.errors import Deferred
from shared.github.http import GitHubHttp, warnings_about
from shared.storage.secret_store import SecretValues
from shared.telemetry import Watched, _metrics
from tests.support.admin_forms import signed_in
from tests.support.memory import Clock, FixedSecrets
from tests.support.route_calls import call

KEY = "k" * 64
TWO = SecretValues(signing_key=KEY, github_tokens=["first", "second"])


@pytest.fixture
def http():
    clock = Clock()
    http = GitHubHttp("https://api.github.com", FixedSecrets(), clock)
    http.test_clock = clock
    return http


def note(http, token, remaining, limit=5000):
    resets_at = int((http.test_clock() + timedelta(minutes=30)).timestamp())
    headers = {"limit": limit, "remaining": remaining, "reset": resets_at}
    http._note_quota(token, {f"x-ratelimit-{name}": str(value) for name, value in headers.items()})


def test_the_token_with_the_most_left_is_used_and_an_unused_one_counts_as_full(http):
    note(http, "first", 4000)
    assert http._choose(TWO) == "second"
    note(http, "second", 100)
    assert http._choose(TWO) == "first"


def test_only_when_no_token_has_any_left_the_work_waits(http):
    note(http, "first", 0)
    note(http, "second", 1)
    assert http._choose(TWO) == "second"
    note(http, "second", 0)
    with pytest.raises(Deferred, match="quota used up"):
        http._choose(TWO)
    http.test_clock.time += timedelta(hours=1)
    assert http._choose(TWO) in ("first", "second")


def test_requests_leave_the_last_tenth_to_workers_only_when_every_token_is_that_low(http):
    note(http, "first", 100)
    note(http, "second", 4000)
    http.yield_quota_to_workers()
    note(http, "second", 100)
    with pytest.raises(Deferred):
        http.yield_quota_to_workers()


def test_a_token_that_was_taken_out_of_the_secret_is_forgotten(http):
    note(http, "first", 100)
    http._choose(SecretValues(signing_key=KEY, github_token="second"))
    http.yield_quota_to_workers()


def test_what_is_left_is_a_metric_in_percent_of_the_best_token(http):
    note(http, "first", 500)
    note(http, "second", 2500)
    assert _metrics.metric_set[Watched.GITHUB_QUOTA_LEFT]["Value"] == [10.0, 50.0]


def test_the_token_of_an_earlier_secret_still_counts():
    both = SecretValues(signing_key=KEY, github_token="old", github_tokens=["new"])
    assert both.all_github_tokens == ["new", "old"]
    assert warnings_about(both) == []
    assert "15 submissions" in warnings_about(SecretValues(signing_key=KEY))[0]


async def test_health_names_a_missing_token_and_is_still_up(env, monkeypatch):
    async def without_token(self):
        return SecretValues(signing_key=KEY)

    assert (await call(env, "GET /api/v1/health")).json["warnings"] == []
    monkeypatch.setattr(FixedSecrets, "get", without_token)
    answer = await call(env, "GET /api/v1/health")
    assert answer.status == 200
    assert "no GitHub token" in answer.json["warnings"][0]


async def test_the_admin_page_names_a_missing_token(env, monkeypatch):
    with_token = FixedSecrets.get

    async def without_token(self):
        return msgspec.structs.replace(await with_token(self), github_token=None)

    cookie, _ = await signed_in(env)
    assert "no GitHub token" not in (await call(env, "GET /admin", cookies=[cookie])).text
    monkeypatch.setattr(FixedSecrets, "get", without_token)
    assert "no GitHub token" in (await call(env, "GET /admin", cookies=[cookie])).text
