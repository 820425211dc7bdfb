"""S45: sessions of owners on their pages."""

import re

import pytest

from shared.access.owner_sessions import find_owner_session, open_owner_session
from shared.access.owners import find_owner_token, revoke_owner_token
from shared.access.sessions import find_session
from shared.records.owners import Owner
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
