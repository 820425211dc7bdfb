"""Admin sessions: sign-in, CSRF tokens, roles, and how a failed action looks."""

import base64

import pytest

from functions import admin_pages
from shared.access.sessions import open_session
from shared.records.submissions import State
from shared.storage.kv import Key, Put
from shared.submissions.dead_letter_store import store_dead_letter
from shared.submissions.submission_store import get_submission, move_submission
from tests.support.admin_forms import csrf_token_in, signed_in
from tests.support.builders import a_bundle, submitted
from tests.support.memory import ADMIN_TOKEN, FixedSecrets, within
from tests.support.route_calls import call

GETS = [route for route in admin_pages.ROUTES if route.startswith("GET ")]
POSTS = [route for route in admin_pages.ROUTES if route.startswith("POST ") and route != "POST /admin/sign-in"]


async def held(env, name: str = "doubtful"):
    submission = await submitted(env, a_bundle(name))
    return await within(env, lambda: move_submission(submission, State.ON_HOLD, "system", "a doubt", parked_by="rule"))


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("route", GETS)
async def test_without_a_session_there_is_only_the_sign_in_page(env, route):
    await held(env)
    page = await call(env, route)
    assert "Admin token" in page.text
    assert "doubtful" not in page.text
    assert "Sign out" not in page.text


async def test_the_session_cookie_is_closed_and_never_the_token(env):
    sign_in_page = await call(env, "GET /admin")
    form = {"token": f"{ADMIN_TOKEN}-admin", "csrf_token": csrf_token_in(sign_in_page.text)}
    headers = {"x-forwarded-proto": "https"}
    nonce = sign_in_page.cookies[0].partition(";")[0]
    entered = await call(env, "POST /admin/sign-in", form=form, cookies=[nonce], headers=headers)
    cookie = entered.cookies[0]
    for part in ("HttpOnly", "SameSite=Strict", "Secure", "Path=/admin", "Max-Age=28800"):
        assert part in cookie.split("; ")
    claims = base64.urlsafe_b64decode(cookie.partition("=")[2].partition(".")[0])
    assert ADMIN_TOKEN.encode() not in claims


async def test_a_wrong_token_is_an_error_beside_the_field(env):
    sign_in_page = await call(env, "GET /admin")
    nonce = sign_in_page.cookies[0].partition(";")[0]
    form = {"token": "guess", "csrf_token": csrf_token_in(sign_in_page.text)}
    page = await call(env, "POST /admin/sign-in", form=form, cookies=[nonce])
    assert page.status == 401
    assert "This token is invalid or was revoked" in page.text


async def test_signing_in_needs_the_csrf_token_of_its_form(env):
    for csrf_token in ("", "0" * 64):
        form = {"token": f"{ADMIN_TOKEN}-admin", "csrf_token": csrf_token}
        assert (await call(env, "POST /admin/sign-in", form=form, cookies=["sign-in=x"])).status == 403
        assert (await call(env, "POST /admin/sign-in", form=form)).status == 403


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("route", POSTS)
async def test_no_form_works_without_a_session_and_its_csrf_token(env, route):
    submission = await held(env)
    cookie, csrf_token = await signed_in(env)
    form = {"csrf_token": csrf_token, "action": "reject", "why": "because", "id": submission.id}
    path = route.partition(" ")[2].replace("{id}", submission.id)
    answers = [
        await call(env, route, path, form=form, id=submission.id),
        await call(env, route, path, form=form, cookies=["session=x.y"], id=submission.id),
        await call(env, route, path, form={**form, "csrf_token": "0" * 64}, cookies=[cookie], id=submission.id),
        await call(env, route, path, form={"why": "because"}, cookies=[cookie], id=submission.id),
    ]
    assert [answer.status for answer in answers] == [401, 401, 403, 403]
    assert (await within(env, lambda: get_submission(submission.id))) == submission


async def test_the_csrf_token_of_one_session_is_invalid_in_another(env):
    _, csrf_token = await signed_in(env)
    env.clock.forward(seconds=1)
    other, _ = await signed_in(env)
    assert (await call(env, "POST /admin/sign-out", form={"csrf_token": csrf_token}, cookies=[other])).status == 403


async def test_a_session_ends_after_eight_hours(env):
    cookie, _ = await signed_in(env)
    env.clock.forward(hours=7, minutes=59)
    assert "Sign out" in (await call(env, "GET /admin", cookies=[cookie])).text
    env.clock.forward(minutes=2)
    assert "Sign out" not in (await call(env, "GET /admin", cookies=[cookie])).text


async def test_a_revoked_token_ends_its_sessions_at_once(env):
    cookie, csrf_token = await signed_in(env)
    tokens = (await FixedSecrets().get()).admin_tokens
    sha256 = next(token.sha256 for token in tokens if token.role == "admin")
    await within(env, lambda: env.kv.put(Put(Key(f"revoked:{sha256}"), "{}")))
    assert "Sign out" not in (await call(env, "GET /admin", cookies=[cookie])).text
    assert (await call(env, "POST /admin/recount", form={"csrf_token": csrf_token}, cookies=[cookie])).status == 401


async def test_an_edited_session_is_none(env):
    session = await within(env, lambda: open_session(f"{ADMIN_TOKEN}-reviewer", "192.0.2.1"))
    for forged in (session[:-1] + ("0" if session[-1] != "0" else "1"), "A" + session, session.partition(".")[0], "."):
        assert "Admin token" in (await call(env, "GET /admin", cookies=[f"session={forged}"])).text


async def test_a_decision_goes_through_and_shows_in_the_audit_list(env):
    submission = await held(env)
    cookie, csrf_token = await signed_in(env, "reviewer")
    form = {
        "csrf_token": csrf_token,
        "action": "reject",
        "why": "it hides what it does",
        "version": str(submission.version),
    }
    route, path = "POST /admin/review/{id}", f"/admin/review/{submission.id}"
    done = await call(env, route, path, form=form, cookies=[cookie], id=submission.id)
    assert (done.status, done.headers["location"]) == (303, "/admin?done=reject")
    panel = await call(env, "GET /admin", "/admin?done=reject", cookies=[cookie])
    assert "The author can see your reason" in panel.text
    assert "it hides what it does" in panel.text
    assert (await within(env, lambda: get_submission(submission.id))).state == State.REJECTED


async def test_a_refused_decision_keeps_what_was_typed(env):
    submission = await held(env)
    cookie, csrf_token = await signed_in(env, "reviewer")
    route, path = "POST /admin/review/{id}", f"/admin/review/{submission.id}"
    for form, status, text in (
        ({"action": "approve", "why": ""}, 400, "A reason is required"),
        ({"action": "block", "why": "typed with care"}, 403, "requires the role admin"),
        ({"action": "reject", "why": "typed with care", "version": "1"}, 409, "changed since"),
        ({"action": "fry", "why": "typed with care"}, 400, "This button is not known here"),
    ):
        answer = await call(
            env, route, path, form={"csrf_token": csrf_token, **form}, cookies=[cookie], id=submission.id
        )
        assert answer.status == status
        assert text in answer.text
        assert form["why"] in answer.text
    assert (await within(env, lambda: get_submission(submission.id))) == submission


async def test_a_reviewer_is_not_offered_what_only_an_admin_may(env):
    await held(env)
    for role, offered in (("reviewer", False), ("admin", True)):
        cookie, _ = await signed_in(env, role)
        assert ('value="block"' in (await call(env, "GET /admin", cookies=[cookie])).text) == offered
        assert ("Pause queue</button>" in (await call(env, "GET /admin/queue", cookies=[cookie])).text) == offered


async def test_dead_letters_are_retried_one_by_one_or_all_of_a_reason(env):
    cookie, csrf_token = await signed_in(env)
    parked = [await held(env, f"dead-{n}") for n in range(3)]
    for n, submission in enumerate(parked):
        await within(env, lambda n=n, s=submission: store_dead_letter(f"m-{n}", "{}", "failed 5 deliveries", s.id))
    panel = await call(env, "GET /admin/queue", cookies=[cookie])
    assert "Retry all with reason “failed 5 deliveries”" in panel.text
    forms = [{"id": "m-0", "action": "retry"}, {"reason": "failed 5 deliveries", "action": "retry"}]
    for form in forms:
        sent = {"csrf_token": csrf_token, "why": "the queue is well again", **form}
        assert (await call(env, "POST /admin/dead-letters", form=sent, cookies=[cookie])).status == 303
    states = [(await within(env, lambda s=s: get_submission(s.id))).state for s in parked]
    assert states == [State.RECEIVED] * 3
    assert "Messages that fail five deliveries" in (await call(env, "GET /admin/queue", cookies=[cookie])).text


async def test_every_panel_acts(env):
    cookie, csrf_token = await signed_in(env)

    async def post(route, **form):
        return await call(
            env, f"POST /admin/{route}", form={"csrf_token": csrf_token, "why": "test", **form}, cookies=[cookie]
        )

    assert (await post("pause", action="pause", hours="2")).status == 303
    assert "Queue paused by admin" in (await call(env, "GET /admin", cookies=[cookie])).text
    assert (await post("pause", action="pause", hours="25")).status == 400
    assert (await post("pause", action="pause", hours="ten")).status == 400
    assert (await post("pause", action="resume")).status == 303
    assert (await post("stuck")).status == 303
    assert "No drift" in (await post("recount")).text
    assert (await post("dead-letters", action="discard", id="m-0")).status == 404
    assert (await post("sign-out")).cookies[0].startswith("session=;")
