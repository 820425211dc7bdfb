"""S16: every page route of the template that is for signed-in people × whose session asks, with and without the CSRF
token of that session. Who may do what is written down here once more, by hand; a route that is not fails. The
submission and the skill of the forms belong to acme/skills."""

import pytest

from tests.integration.test_route_matrix import OWNERS, ROUTES, needs
from tests.support.admin_forms import csrf_token_in
from tests.support.admin_forms import signed_in as operator_signed_in
from tests.support.memory import memory_env
from tests.support.owners import owned_skill, owned_submission, stored_owner_token
from tests.support.route_calls import call

WHO = ("owner", "other owner", "reviewer", "admin")
SIGNED_IN = "Sign out"  # on every page of a session, and on no sign-in page
# Before there is a session: what they check instead is in the tests of proofs and of sign-ins.
DOORS = {f"POST /owner/{name}" for name in ("challenge", "prove", "device", "device/prove", "sign-in")}
DOORS.add("POST /admin/sign-in")
ANY_OWNER, OPERATORS, ADMINS = ("owner", "other owner"), ("reviewer", "admin"), ("admin",)
PAGES = {
    "GET /owner": ANY_OWNER,
    "GET /owner/submissions/{id}": ("owner",),
    **{f"GET /admin{path}": OPERATORS for path in ("", "/queue", "/skills", "/blocklist", "/access", "/audit")},
    "GET /admin/files/{proxy+}": OPERATORS,
}
# What is sent, and by whom it is not refused.
FORMS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "POST /owner/submissions/{id}": ({"action": "cancel"}, ("owner",)),
    "POST /owner/skills": ({"action": "withdraw", "name": "acme/skills/pdf"}, ("owner",)),
    "POST /owner/tokens": ({"action": "create", "label": "a test"}, ANY_OWNER),
    "POST /owner/webhook": ({"action": "remove"}, ANY_OWNER),
    "POST /owner/sign-out": ({}, ANY_OWNER),
    "POST /admin/review/{id}": ({"action": "dequeue"}, ADMINS),
    "POST /admin/appeals/{id}": ({"appeal": "none"}, OPERATORS),
    "POST /admin/requeue": ({"pick-none": "1"}, OPERATORS),
    "POST /admin/stuck": ({}, ADMINS),
    "POST /admin/dead-letters": ({"action": "discard", "id": "none"}, ADMINS),
    "POST /admin/pause": ({"action": "pause", "hours": "1"}, ADMINS),
    "POST /admin/recount": ({"action": "repair"}, ADMINS),
    "POST /admin/skills": ({"action": "block", "name": "acme/skills/pdf"}, ADMINS),
    "POST /admin/reports": ({"action": "settle", "id": "none"}, ADMINS),
    "POST /admin/blocklist": ({"skillName": "acme/skills/pdf"}, ADMINS),
    "POST /admin/tokens": ({"id": "none"}, ADMINS),
    "POST /admin/sign-out": ({}, OPERATORS),
}
OF_SESSIONS = [route for _, route in ROUTES if needs(route) == "a session" and route not in DOORS]


async def session_of(env, who: str) -> tuple[str, str]:
    """Its cookie and CSRF token."""
    if who not in OWNERS:
        return await operator_signed_in(env, who)
    entered = await call(env, "POST /owner/sign-in", form={"token": await stored_owner_token(env, *OWNERS[who])})
    cookie = entered.cookies[0].partition(";")[0]
    return cookie, csrf_token_in((await call(env, "GET /owner", cookies=[cookie])).text)


async def subjects(env) -> dict[str, str]:
    await owned_skill(env)
    submission = await owned_submission(env)
    return {"id": submission.id, "proxy": submission.id}


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("route", [route for route in OF_SESSIONS if route.startswith("GET ")])
async def test_every_page_of_a_session_is_shown_to_those_it_is_for(route):
    env = memory_env()
    named = await subjects(env)
    for who in WHO:
        cookie, _ = await session_of(env, who)
        answer = await call(env, route, cookies=[cookie], **named)
        is_shown = answer.status in (200, 404) and (SIGNED_IN in answer.text or answer.status == 404)
        assert is_shown == (who in PAGES[route]), (who, answer.status)


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("route", [route for route in OF_SESSIONS if route.startswith("POST ")])
async def test_every_form_needs_a_session_of_the_right_role_and_its_csrf_token(route):
    form, let_in = FORMS[route]
    for who in WHO:
        env = memory_env()
        named = await subjects(env)
        cookie, csrf_token = await session_of(env, who)
        for wrong in ({}, {"csrf_token": "0" * 64}):
            forged = await call(env, route, form={**form, "why": "because", **wrong}, cookies=[cookie], **named)
            assert forged.status in (401, 403), (who, wrong)
        sent = {**form, "why": "because", "csrf_token": csrf_token}
        assert (await call(env, route, form=sent, cookies=[], **named)).status == 401
        answer = await call(env, route, form=sent, cookies=[cookie], **named)
        assert (answer.status not in (401, 403)) == (who in let_in), (who, answer.status)


@pytest.mark.requirement("S16")
def test_each_page_route_is_in_one_table():
    assert sorted(OF_SESSIONS) == sorted([*PAGES, *FORMS])
