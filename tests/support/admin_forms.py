"""Signing in to the admin pages, through the form itself."""

import re

from tests.support.memory import ADMIN_TOKEN
from tests.support.requests import call


def word_in(page: str) -> str:
    return re.search(r'name="word" value="([0-9a-f]{64})"', page)[1]


async def signed_in(env, role: str = "admin") -> tuple[str, str]:
    """The session cookie and a form's word, through the form itself."""
    door = await call(env, "GET /admin")
    nonce = door.cookies[0].partition(";")[0]
    form = {"token": f"{ADMIN_TOKEN}-{role}", "word": word_in(door.text)}
    entered = await call(env, "POST /admin/sign-in", form=form, cookies=[nonce])
    assert (entered.status, entered.headers["location"]) == (303, "/admin")
    cookie = entered.cookies[0].partition(";")[0]
    panel = await call(env, "GET /admin", cookies=[cookie])
    return cookie, word_in(panel.text)
