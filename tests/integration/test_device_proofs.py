"""Proving a repository by GitHub's device flow, against the stub GitHub. S39: only an account that may push, once."""

import asyncio
import json

import pytest

from tests.support.memory import memory_env
from tests.support.owners import call_json
from tests.support.route_calls import call
from tests.support.stub_github import StubGitHub
from tests.support.stub_login import CLIENT_ID, USER_TOKEN, StubLogin

REPO = "acme/skills"
URL = f"https://github.com/{REPO}"
OPEN, PROVE = "POST /api/v1/owners/device", "POST /api/v1/owners/device/proofs"


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def env(github):
    github.repos.clear()
    github.asked.clear()
    github.repo(REPO, {"SKILL.md": "x"}, id=1000)
    github.login = StubLogin(may={1000: {"push": True}})
    env = memory_env(github_api_url=github.url, github_client_id=CLIENT_ID)
    yield env
    await env.github.close()


async def opened(env) -> dict:
    device = await call_json(env, OPEN, {"repoUrl": URL})
    env.clock.forward(seconds=device["intervalSeconds"])
    return device


async def prove(env, device):
    body = json.dumps({"deviceId": device["deviceId"], "label": "laptop"}).encode()
    return await call(env, PROVE, body=body, headers={"content-type": "application/json"})


async def refused(env, device) -> tuple[int, str]:
    answer = await prove(env, device)
    return answer.status, answer.json["error"]["code"]


async def test_an_account_that_may_push_gets_a_token_and_its_own_is_not_kept(env, github, caplog):
    device = await opened(env)
    assert (device["userCode"], device["verificationUri"]) == ("WDJB-MJHT", f"{github.url}/login/device")
    pending = await prove(env, device)
    assert (pending.status, pending.json["intervalSeconds"]) == (202, 5)
    env.clock.forward(seconds=5)
    github.login.answer = "token"
    token = await prove(env, device)
    assert (token.status, token.json["repo"], token.json["repoId"]) == (201, REPO, 1000)
    listed = await call_json(env, "GET /api/v1/owner/tokens", token=token.json["token"])
    assert [one["label"] for one in listed["tokens"]] == ["laptop"]
    stored = json.dumps([[key, item.doc] for key, item in env.kv.items.items()])
    for secret in (USER_TOKEN, device["deviceId"], token.json["token"]):
        assert secret not in stored + caplog.text + pending.text
    assert "device-code-1" not in stored  # deleted with the device


async def test_no_scope_is_asked_for_and_the_users_token_goes_to_the_api_once(env, github):
    device = await opened(env)
    github.login.answer = "token"
    assert (await prove(env, device)).status == 201
    assert github.login.forms[0] == {"client_id": CLIENT_ID, "scope": ""}
    assert all("client_secret" not in form for form in github.login.forms)
    assert [asked.path for asked in github.asked if USER_TOKEN in str(asked.headers)] == ["/repositories/1000"]
    to_login = [asked for asked in github.asked if asked.kind in ("device", "token")]
    assert len(to_login) == 2
    assert not any("Authorization" in asked.headers for asked in to_login)


@pytest.mark.requirement("S39")
@pytest.mark.parametrize("may", [{}, {1000: {"push": False, "triage": True}}, {2000: {"push": True, "admin": True}}])
async def test_an_account_that_may_not_push_proves_nothing(env, github, may):
    device = await opened(env)
    github.login.answer, github.login.may = "token", may
    assert await refused(env, device) == (403, "no_push_permission")
    github.login.may = {1000: {"push": True}}
    env.clock.forward(seconds=5)
    assert await refused(env, device) == (409, "device_expired")


@pytest.mark.requirement("S39")
async def test_a_sign_in_for_one_numeric_id_proves_no_other(env, github):
    device = await opened(env)
    github.login.answer = "token"
    github.login.leads_to = github.repo("mallory/own", {"SKILL.md": "x"}, id=2000)
    github.login.may = {2000: {"push": True}}
    assert await refused(env, device) == (409, "repository_changed")


async def test_a_new_repository_under_the_name_is_not_proven_in_place_of_the_old_one(env, github):
    device = await opened(env)
    github.login.answer = "token"
    github.rename(github.repos[REPO], "acme/moved")
    github.repo(REPO, {"SKILL.md": "x"}, id=3000)
    proven = (await prove(env, device)).json
    assert (proven["repo"], proven["repoId"]) == ("acme/moved", 1000)


@pytest.mark.requirement("S39")
async def test_a_sign_in_is_used_once(env, github):
    device = await opened(env)
    github.login.answer = "token"
    assert (await prove(env, device)).status == 201
    env.clock.forward(seconds=5)
    assert await refused(env, device) == (409, "device_expired")


@pytest.mark.requirement("S39")
async def test_a_sign_in_expires(env, github):
    device = await opened(env)
    github.login.answer = "token"
    env.clock.forward(minutes=14, seconds=55)  # GitHub's code is valid for 15 minutes
    assert await refused(env, device) == (409, "device_expired")
    assert github.count("token") == 0


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        ("expired_token", 409, "device_expired"),
        ("access_denied", 403, "access_denied"),
        ("unsupported_grant_type", 502, "github_down"),
    ],
)
async def test_what_github_refuses_is_reported_with_its_code(env, github, answer, status, code):
    device = await opened(env)
    github.login.answer = answer
    assert await refused(env, device) == (status, code)


@pytest.mark.parametrize(("new_interval", "wait"), [(None, 10), (12, 12)])
async def test_github_is_asked_no_sooner_than_it_allows(env, github, new_interval, wait):
    device = await call_json(env, OPEN, {"repoUrl": URL})
    assert await refused(env, device) == (429, "slow_down")
    assert github.count("token") == 0
    env.clock.forward(seconds=5)
    github.login.answer, github.login.new_interval = "slow_down", new_interval
    slower = await prove(env, device)
    assert (slower.status, slower.json["error"]["code"], slower.headers["retry-after"]) == (429, "slow_down", str(wait))
    github.login.answer = "token"
    env.clock.forward(seconds=wait - 1)
    assert await refused(env, device) == (429, "slow_down")
    env.clock.forward(seconds=1)
    assert (await prove(env, device)).status == 201


async def test_of_polls_at_the_same_time_one_asks_github(env, github):
    device = await opened(env)
    answers = await asyncio.gather(*(prove(env, device) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [202, 429, 429, 429, 429]
    assert github.count("token") == 1


@pytest.mark.parametrize("kind", ["device", "token", "repo"])
async def test_the_device_flow_follows_no_redirect(env, github, kind):
    device = await opened(env)
    github.login.answer = "token"
    github.fail(kind, "elsewhere")
    try:
        if kind == "device":
            assert (await call_json(env, OPEN, {"repoUrl": URL}))["error"]["code"] == "upstream_failed"
        else:
            assert await refused(env, device) == (502, "upstream_failed")
    finally:
        github.fail(kind, None)


async def test_an_unknown_client_id_is_reported(github):
    env = memory_env(github_api_url=github.url, github_client_id="Ov23liUNKNOWNUNKNOWN")
    github.repo(REPO, {"SKILL.md": "x"}, id=1000)
    problem = (await call_json(env, OPEN, {"repoUrl": URL}))["error"]
    await env.github.close()
    assert problem["code"] == "github_down"
    assert "client id" in problem["message"]


async def test_without_a_client_id_it_is_off():
    env = memory_env()
    assert (await call_json(env, OPEN, {"repoUrl": URL}))["error"]["code"] == "device_flow_off"
    assert await refused(env, {"deviceId": "x"}) == (404, "device_flow_off")
    assert "Sign in with GitHub" not in (await call(env, "GET /owner")).text


async def test_the_pages_sign_in_without_script(env, github):
    assert 'formaction="/owner/device"' in (await call(env, "GET /owner")).text
    shown = await call(env, "POST /owner/device", form={"repoUrl": URL})
    assert "WDJB-MJHT" in shown.text
    assert f'href="{github.url}/login/device"' in shown.text
    form = {"deviceId": shown.text.partition('name="deviceId" value="')[2].partition('"')[0]}
    assert (await call(env, "POST /owner/device/prove", form=form)).status == 429
    env.clock.forward(seconds=5)
    waiting = await call(env, "POST /owner/device/prove", form=form)
    assert (waiting.status, "has not been entered" in waiting.text, "WDJB-MJHT" in waiting.text) == (200, True, True)
    env.clock.forward(seconds=5)
    github.login.answer = "token"
    signed_in = await call(env, "POST /owner/device/prove", form=form)
    assert (signed_in.status, signed_in.headers["location"]) == (303, "/owner")
    assert "owner-session=" in signed_in.cookies[0]
    again = await call(env, "POST /owner/device/prove", form=form)
    assert (again.status, "Start again" in again.text) == (409, True)
