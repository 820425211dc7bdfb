"""S45: sessions of owners on their pages."""

import re
from datetime import timedelta

import pytest
from markupsafe import escape

from shared.access.owner_sessions import find_owner_session, open_owner_session
from shared.access.owners import find_owner_token, revoke_owner_token
from shared.access.sessions import find_session
from shared.notifications.events import RepoEvent, StoredEvent, stored_put
from shared.records.owners import Owner
from shared.settings import Limit
from tests.support.admin_forms import csrf_token_in
from tests.support.admin_forms import signed_in as signed_in_operator
from tests.support.memory import memory_env, within
from tests.support.owners import owned_skill, owned_submission, stored_owner_token
from tests.support.route_calls import call


@pytest.fixture
def env():
    return memory_env()


async def signed_in(env, repo="acme/skills", repo_id=1000) -> tuple[str, str]:
    """The cookie and the CSRF token of its pages."""
    token = await stored_owner_token(env, repo, repo_id)
    entered = await call(env, "POST /owner/sign-in", form={"token": token})
    assert entered.status == 303
    cookie = entered.cookies[0].partition(";")[0]
    return cookie, csrf_token_in((await call(env, "GET /owner", cookies=[cookie])).text)


@pytest.mark.requirement("S45")
async def test_a_session_of_an_owner_is_none_of_an_operator_and_the_other_way_round(env):
    cookie, _ = await signed_in(env)
    theirs, _ = await signed_in_operator(env)
    value, their_value = cookie.partition("=")[2], theirs.partition("=")[2]
    assert await within(env, lambda: find_owner_session(value))
    assert await within(env, lambda: find_session(their_value))
    assert await within(env, lambda: find_session(value)) is None
    assert await within(env, lambda: find_owner_session(their_value)) is None
    assert value.partition(".")[2] != await within(env, lambda: _signed_as_operator(value.partition(".")[0]))


async def _signed_as_operator(claims: str) -> str:
    from shared.access.sessions import ADMIN, _sign

    return await _sign(ADMIN, ADMIN, claims)


@pytest.mark.requirement("S45")
async def test_a_form_of_an_owner_needs_the_token_of_its_session(env):
    cookie, csrf_token = await signed_in(env)
    _, other = await signed_in(env, "other/skills", 2000)
    await owned_skill(env)
    form = {"action": "withdraw", "name": "acme/skills/pdf", "why": "because"}
    for wrong in ("", other):
        sent = await call(env, "POST /owner/skills", form=form | {"csrf_token": wrong}, cookies=[cookie])
        assert sent.status == 403
    sent = await call(env, "POST /owner/skills", form=form | {"csrf_token": csrf_token}, cookies=[cookie])
    assert (sent.status, sent.headers["location"]) == (303, "/owner?done=withdraw")


@pytest.mark.requirement("S45")
async def test_a_revoked_token_ends_its_session(env):
    secret = await stored_owner_token(env, "acme/skills", 1000)
    token = await within(env, lambda: find_owner_token(secret))
    cookie = await within(env, lambda: open_owner_session(token))
    assert await within(env, lambda: find_owner_session(cookie))
    await within(env, lambda: revoke_owner_token(Owner("acme/skills", 1000), token.id))
    assert await within(env, lambda: find_owner_session(cookie)) is None


async def test_signing_out_ends_the_session_for_good(env):
    cookie, csrf_token = await signed_in(env)
    assert (await call(env, "POST /owner/sign-out", form={"csrf_token": csrf_token}, cookies=[cookie])).status == 303
    assert "Sign out" not in (await call(env, "GET /owner", cookies=[cookie])).text


async def test_another_owner_sees_the_page_of_no_submission_of_mine(env):
    cookie, _ = await signed_in(env, "other/skills", 2000)
    mine = await owned_submission(env)
    shown = await call(
        env, "GET /owner/submissions/{id}", f"/owner/submissions/{mine.id}", cookies=[cookie], id=mine.id
    )
    assert shown.status == 403


async def test_a_new_token_is_shown_once_and_another_form_error_keeps_what_was_typed(env):
    cookie, csrf_token = await signed_in(env)
    form = {"csrf_token": csrf_token, "action": "create", "label": "release workflow"}
    made = await call(env, "POST /owner/tokens", form=form, cookies=[cookie])
    assert re.search(r"vso_1000_[\w-]{43}", made.text)
    assert not re.search(r"vso_1000_[\w-]{43}", (await call(env, "GET /owner", cookies=[cookie])).text)
    bad = await call(env, "POST /owner/tokens", form=form | {"label": "x" * 61}, cookies=[cookie])
    assert (bad.status, "x" * 61 in bad.text) == (400, True)


async def test_a_cancelled_and_reopened_submission_on_the_pages(env):
    cookie, csrf_token = await signed_in(env)
    mine = await owned_submission(env)
    path = f"/owner/submissions/{mine.id}"
    for verb in ("cancel", "reopen"):
        form = {"csrf_token": csrf_token, "action": verb, "why": "because"}
        sent = await call(env, "POST /owner/submissions/{id}", path, form=form, cookies=[cookie], id=mine.id)
        assert sent.headers["location"] == f"{path}?done={verb}", sent.text


async def test_a_webhook_is_set_replaced_and_removed_on_the_page_and_its_secret_shown_once(env):
    cookie, csrf_token = await signed_in(env)
    form = {"csrf_token": csrf_token, "action": "set", "url": "https://hooks.example.org/one"}
    secrets = []
    for url in ("https://hooks.example.org/one", "https://hooks.example.org/two"):
        made = await call(env, "POST /owner/webhook", form=form | {"url": url}, cookies=[cookie])
        assert (made.status, f"<code>{url}</code>" in made.text) == (200, True)
        secrets += re.findall(r"whsec_[\w-]+", made.text)
    assert len(set(secrets)) == 2
    shown = (await call(env, "GET /owner", cookies=[cookie])).text
    assert "<code>https://hooks.example.org/two</code>" in shown
    assert "whsec_" not in shown
    remove = {"csrf_token": csrf_token, "action": "remove"}
    removed = await call(env, "POST /owner/webhook", form=remove, cookies=[cookie])
    assert (removed.status, removed.headers["location"]) == (303, "/owner?done=webhook-removed")
    assert "No webhook is set." in (await call(env, "GET /owner", cookies=[cookie])).text
    again = await call(env, "POST /owner/webhook", form=remove, cookies=[cookie])
    assert again.status == 409


async def test_a_webhook_address_that_is_refused_stays_in_its_field_with_the_reason_below(env):
    cookie, csrf_token = await signed_in(env)
    typed = 'http://hooks.example.org/"<x>'
    form = {"csrf_token": csrf_token, "action": "set", "url": typed}
    refused = await call(env, "POST /owner/webhook", form=form, cookies=[cookie])
    assert refused.status == 400
    assert f'value="{escape(typed)}"' in refused.text
    [below] = re.findall(r'id="webhook-url-problem">([^<]*)<', refused.text)
    assert below == "The address of a webhook must begin with https://."
    assert "No webhook is set." in refused.text


@pytest.mark.requirement("S45")
async def test_a_webhook_is_set_with_the_token_of_the_session_only(env):
    cookie, _ = await signed_in(env)
    _, other = await signed_in(env, "other/skills", 2000)
    for action in ("set", "remove"):
        form = {"csrf_token": other, "action": action, "url": "https://hooks.example.org/"}
        assert (await call(env, "POST /owner/webhook", form=form, cookies=[cookie])).status == 403
        assert (await call(env, "POST /owner/webhook", form=form)).status == 401


async def test_setting_a_webhook_counts_as_an_action_of_the_owner(monkeypatch):
    monkeypatch.setattr("shared.access.owners.ACTIONS_AN_HOUR", 1)
    env = memory_env(limits={"submit": Limit(1000, timedelta(hours=1))})
    cookie, csrf_token = await signed_in(env)
    form = {"csrf_token": csrf_token, "action": "set", "url": "https://hooks.example.org/one"}
    answers = [await call(env, "POST /owner/webhook", form=form, cookies=[cookie]) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 429]
    assert 'id="webhook-url-problem">Rate limit: 1 actions per hour' in answers[1].text


async def test_the_page_shows_deliveries_with_their_last_error_and_every_dead_end(env):
    cookie, _ = await signed_in(env)
    at = env.clock()
    about = {"type": "skill.withdrawn", "repo": "acme/skills", "skill_name": "acme/skills/pdf"}
    fates = [
        {"failed_at": at, "attempts": 12, "error": "the receiver answered 500"},
        *({"delivered_at": at, "attempts": 1} for _ in range(9)),
        {"due_at": at + timedelta(hours=1), "attempts": 2, "error": "the receiver answered 503"},
    ]
    for n, fate in enumerate(fates):
        event = RepoEvent(id=f"e{n}", at=at + timedelta(seconds=n), repo_id=1000, version=f"1.0.{n}", **about)
        await env.kv.put(stored_put(StoredEvent(event=event, **fate)))
    others = RepoEvent(id="other", at=at + timedelta(seconds=20), repo_id=6666, version="6.6.6", **about)
    await env.kv.put(stored_put(StoredEvent(event=others)))
    shown = (await call(env, "GET /owner", cookies=[cookie])).text
    assert "Last error: the receiver answered 503" in shown
    assert "Last error: the receiver answered 500" in shown  # older than the ten that are shown
    assert "Given up after 12 attempts" in shown
    assert "6.6.6" not in shown


async def test_signing_in_on_the_page_of_a_submission_leads_back_to_it_and_nowhere_else(env):
    submission = await owned_submission(env)
    path = f"/owner/submissions/{submission.id}"
    asked = await call(env, "GET /owner/submissions/{id}", path, id=submission.id)
    assert asked.text.count(f'name="then" value="{path}"') == 2
    token = await stored_owner_token(env, "acme/skills", 1000)
    for then, led_to in {path: path, "//evil.example": "/owner", f"{path}@evil": "/owner", "/admin": "/owner"}.items():
        entered = await call(env, "POST /owner/sign-in", form={"token": token, "then": then})
        assert entered.headers["location"] == led_to
