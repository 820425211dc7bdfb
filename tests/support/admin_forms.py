"""Signing in to the admin pages, through the form itself."""

import re

from tests.support.memory import ADMIN_TOKEN
from tests.support.route_calls import call


def csrf_token_in(page: str) -> str:
    return re.search(r'name="csrf_token" value="([0-9a-f]{64})"', page)[1]


async def signed_in(env, role: str = "admin") -> tuple[str, str]:
    """Returns the session cookie and a CSRF token."""
    sign_in_page = await call(env, "GET /admin")
    nonce = sign_in_page.cookies[0].partition(";")[0]
    form = {"token": f"{ADMIN_TOKEN}-{role}", "csrf_token": csrf_token_in(sign_in_page.text)}
    entered = await call(env, "POST /admin/sign-in", form=form, cookies=[nonce])
    assert (entered.status, entered.headers["location"]) == (303, "/admin")
    cookie = entered.cookies[0].partition(";")[0]
    panel = await call(env, "GET /admin", cookies=[cookie])
    return cookie, csrf_token_in(panel.text)
