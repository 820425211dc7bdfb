"""Several GitHub tokens, each with a quota of its own; and what is said where there is none."""

from datetime import timedelta

import msgspec
import pytest

from shared.errors import Deferred, Unavailable
from shared.github.http import GitHubHttp, warnings_about
from shared.github.quotas import Quotas
from shared.storage.kv import Put
from shared.storage.secret_store import SecretValues
from shared.telemetry import Watched, _metrics
from shared.timing import QUOTA_AGE
from tests.support.admin_forms import signed_in
from tests.support.memory import Clock, FixedSecrets, MemoryKV
from tests.support.route_calls import call

KEY = "k" * 64
ONE = SecretValues(signing_key=KEY, github_tokens=["first"])
TWO = SecretValues(signing_key=KEY, github_tokens=["first", "second"])


@pytest.fixture
def http():
    clock = Clock()
    http = GitHubHttp("https://api.github.com", FixedSecrets(), clock)
    http.test_clock = clock
    return http


async def note(http, token, remaining, limit=5000):
    resets_at = int((http.test_clock() + timedelta(minutes=30)).timestamp())
    headers = {"limit": limit, "remaining": remaining, "reset": resets_at}
    await http._note_quota(token, {f"x-ratelimit-{name}": str(value) for name, value in headers.items()})


async def test_the_token_with_the_most_left_is_used_and_an_unused_one_counts_as_full(http):
    await note(http, "first", 4000)
    assert await http._choose(TWO) == "second"
    await note(http, "second", 100)
    assert await http._choose(TWO) == "first"


async def test_only_when_no_token_has_any_left_the_work_waits(http):
    await note(http, "first", 0)
    await note(http, "second", 1)
    assert await http._choose(TWO) == "second"
    await note(http, "second", 0)
    with pytest.raises(Deferred, match="quota used up"):
        await http._choose(TWO)
    http.test_clock.time += timedelta(hours=1)
    assert await http._choose(TWO) in ("first", "second")


async def test_requests_leave_the_last_tenth_to_workers_only_when_every_token_is_that_low(http):
    await note(http, "first", 100)
    await note(http, "second", 4000)
    http.yield_quota_to_workers()
    await note(http, "second", 100)
    with pytest.raises(Deferred):
        http.yield_quota_to_workers()


async def test_a_token_that_was_taken_out_of_the_secret_is_forgotten(http):
    await note(http, "first", 100)
    await http._choose(SecretValues(signing_key=KEY, github_token="second"))
    http.yield_quota_to_workers()


async def test_what_is_left_is_a_metric_in_percent_of_the_best_token(http):
    await note(http, "first", 500)
    await note(http, "second", 2500)
    assert _metrics.metric_set[Watched.GITHUB_QUOTA_LEFT]["Value"] == [10.0, 50.0]


@pytest.fixture
def processes():
    """Two, which have nothing but the store in common."""
    clock = Clock()
    kv = MemoryKV(clock.seconds)

    def process():
        http = GitHubHttp("https://api.github.com", FixedSecrets(), clock, Quotas(kv, clock))
        http.test_clock, http.test_kv = clock, kv
        return http

    return process(), process()


async def test_what_one_process_used_up_another_knows_before_it_asks(processes):
    one, other = processes
    await note(one, "first", 0)
    assert await other._choose(TWO) == "second"
    await note(one, "second", 0)
    other.test_clock.forward(seconds=QUOTA_AGE.total_seconds())
    with pytest.raises(Deferred, match="quota used up"):
        await other._choose(TWO)
    other.test_clock.forward(minutes=31)
    assert await other._choose(TWO) in ("first", "second")


async def test_requests_of_every_process_leave_the_last_tenth_to_workers(processes):
    one, other = processes
    await note(one, "first", 100)
    await other._choose(ONE)
    with pytest.raises(Deferred):
        other.yield_quota_to_workers()


async def test_a_plentiful_quota_costs_no_write_and_its_records_name_no_token(processes):
    one, other = processes
    kv = one.test_kv
    await note(one, "first", 4990)
    assert not kv.items
    await note(one, "first", 4000)
    await note(one, "first", 3990)
    [row] = kv.items
    assert "first" not in row.pk
    assert "4000" in kv.items[row].doc
    await note(other, "first", 4500)  # it has not read the record: GitHub's own answer is newer, and is written
    assert "4500" in kv.items[row].doc


async def test_an_answer_of_an_earlier_hour_or_a_damaged_record_is_not_believed(processes):
    one, other = processes
    await note(one, "first", 0)
    one.test_clock.forward(minutes=45)
    assert await other._choose(ONE) == "first"
    [row] = one.test_kv.items
    await one.test_kv.put(Put(row, "{"))
    one.test_clock.forward(seconds=QUOTA_AGE.total_seconds())
    assert await other._choose(ONE) == "first"


@pytest.mark.parametrize("verb", ["get_many", "put"])
async def test_a_store_that_is_down_stops_no_request_to_github(processes, monkeypatch, verb):
    async def down(self, *args):
        raise Unavailable("down")

    monkeypatch.setattr(MemoryKV, verb, down)
    await note(processes[0], "first", 100)
    assert await processes[0]._choose(ONE) == "first"


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
