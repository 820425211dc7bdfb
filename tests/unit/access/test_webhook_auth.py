"""S19: a request of an external scanner is accepted for its signature alone, and once."""

import asyncio
import dataclasses

import pytest

from shared.access.webhook_auth import authenticate
from shared.errors import BadSignature, Unavailable
from shared.storage.kv import Key
from shared.storage.secret_store import SecretValues
from tests.support.memory import WEBHOOK_SECRETS, MemoryKV, memory_env, within
from tests.support.signed_requests import CLAIM, RESULTS, signed_body, signed_headers

ROUTE = f"POST {CLAIM}"


@pytest.fixture
def env():
    return memory_env(external_scanners=("bandit", "other"))


def believed(env, headers, body, route=ROUTE):
    return within(env, lambda: authenticate(route, headers, body))


async def refused(env, headers, body, route=ROUTE) -> str:
    with pytest.raises(BadSignature) as refusal:
        await believed(env, headers, body, route)
    assert not any(secret in str(refusal.value) for secret in WEBHOOK_SECRETS.values())
    return refusal.value.code


def now(env) -> float:
    return env.clock.time.timestamp()


@pytest.mark.parametrize("provider", WEBHOOK_SECRETS)
async def test_a_signed_request_names_its_scanner(env, provider):
    body = signed_body()
    assert await believed(env, signed_headers(CLAIM, body, now(env), provider), body) == provider


async def test_an_empty_body_can_be_signed_too(env):
    assert await believed(env, signed_headers(CLAIM, b"", now(env)), b"") == "bandit"


@pytest.mark.parametrize("missing", ["x-scan-provider", "x-scan-timestamp", "x-scan-signature"])
async def test_a_header_that_is_missing_is_refused(env, missing):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env))
    del headers[missing]
    assert await refused(env, headers, body) == "invalid_signature"


@pytest.mark.parametrize(
    "change",
    [
        {"x-scan-signature": "0" * 64},
        {"x-scan-signature": ""},
        {"x-scan-signature": "é\ud800"},
        {"x-scan-provider": "other"},
        {"x-scan-provider": "nobody"},
        {"x-scan-provider": ""},
        {"x-scan-timestamp": "\ud800"},
        {"x-scan-timestamp": "1"},
    ],
)
async def test_a_header_that_was_changed_is_refused(env, change):
    body = signed_body()
    assert await refused(env, signed_headers(CLAIM, body, now(env)) | change, body) == "invalid_signature"


async def test_another_body_path_or_method_is_refused(env):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env))
    assert await refused(env, headers, body + b" ") == "invalid_signature"
    assert await refused(env, headers, body, f"POST {RESULTS}") == "invalid_signature"
    assert await refused(env, headers, body, f"PUT {CLAIM}") == "invalid_signature"


@pytest.mark.parametrize(("seconds", "is_taken"), [(-299, True), (-302, False), (299, True), (302, False)])
async def test_five_minutes_in_either_direction_are_the_limit(env, seconds, is_taken):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env) + seconds)
    if is_taken:
        assert await believed(env, headers, body) == "bandit"
    else:
        assert await refused(env, headers, body) == "expired_signature"


async def test_a_replay_is_refused_for_as_long_as_it_would_be_believed(env):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env) + 290)  # its clock is ahead, so it stays valid for longest
    await believed(env, headers, body)
    for minutes in (0, 4, 5):
        env.clock.forward(minutes=minutes)
        assert await refused(env, headers, body) == "replayed_signature"
    env.clock.forward(minutes=2)
    assert await refused(env, headers, body) == "expired_signature"


async def test_of_one_request_sent_many_times_at_once_one_is_taken(env):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env))
    tries = (believed(env, headers, body) for _ in range(8))
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert outcomes.count("bandit") == 1
    assert sum(isinstance(outcome, BadSignature) for outcome in outcomes) == 7


@pytest.mark.requirement("R33")
async def test_what_is_kept_against_replays_goes_by_itself(env):
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env))
    await believed(env, headers, body)
    key = Key(f"seen-signature:bandit:{headers['x-scan-signature']}")
    assert await env.kv.get(key) is not None
    env.clock.forward(minutes=11)
    assert await env.kv.get(key) is None


async def test_nothing_is_kept_for_those_who_are_refused(env):
    body = signed_body()
    await refused(env, signed_headers(CLAIM, body, now(env), secret="guessed" * 9), body)
    await refused(env, signed_headers(CLAIM, body, now(env) - 600), body)
    assert env.kv.items == {}


async def test_a_scanner_that_is_not_configured_any_more_is_out():
    env = memory_env(external_scanners=("other",))
    body = signed_body()
    assert await refused(env, signed_headers(CLAIM, body, now(env)), body) == "invalid_signature"


@pytest.mark.parametrize("secret", ["", "short"])
async def test_an_empty_or_short_secret_refuses_every_request(env, secret):
    class Secrets:
        async def get(self):
            return SecretValues(signing_key="k" * 64, webhook_secrets={"bandit": secret})

    env = dataclasses.replace(env, secrets=Secrets())
    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env), secret=secret or "\0")
    assert await refused(env, headers, body) == "invalid_signature"


async def test_when_the_secret_or_the_store_cannot_be_read_every_request_is_refused(env):
    class Down:
        async def get(self):
            raise Unavailable("down")

    class DownKV(MemoryKV):
        async def put(self, put):
            raise Unavailable("down")

    body = signed_body()
    headers = signed_headers(CLAIM, body, now(env))
    with pytest.raises(Unavailable):
        await believed(dataclasses.replace(env, secrets=Down()), headers, body)
    with pytest.raises(Unavailable):
        await believed(dataclasses.replace(env, kv=DownKV(env.clock.seconds)), headers, body)
