"""Where users of the stub GitHub sign in: the device flow, and what a user's token says about a repository."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.stub_repo import StubRepo

CLIENT_ID = "Ov23liABCDEFGHIJKLMN"
USER_TOKEN = "gho_of-the-user"


@dataclass
class StubLogin:
    answer: str = "authorization_pending"  # an error, or "token": the user has entered the code
    new_interval: int | None = None  # with slow_down
    may: dict[int, dict[str, bool]] = field(default_factory=dict)  # what the user may do, by repository id
    leads_to: StubRepo | None = None  # answered for every id
    forms: list[dict[str, str]] = field(default_factory=list)
    is_spent: bool = False  # GitHub gives a token once for a code

    async def open(self, request: web.Request) -> web.Response:
        form = await self._form(request)
        if form.get("client_id") != CLIENT_ID:
            return web.json_response({"error": "Not Found"}, status=404)
        code = {"device_code": "device-code-1", "user_code": "WDJB-MJHT", "expires_in": 900, "interval": 5}
        return web.json_response({**code, "verification_uri": "https://elsewhere.example/login"})

    async def poll(self, request: web.Request) -> web.Response:
        form = await self._form(request)
        if form.get("client_id") != CLIENT_ID or form.get("device_code") != "device-code-1" or self.is_spent:
            return web.json_response({"error": "incorrect_device_code"})
        if self.answer != "token":
            more = {"interval": self.new_interval} if self.new_interval else {}
            return web.json_response({"error": self.answer, **more})
        self.is_spent = True
        return web.json_response({"access_token": USER_TOKEN, "token_type": "bearer", "scope": ""})

    def permissions(self, request: web.Request, repo: StubRepo) -> dict[str, Any]:
        """As GitHub does: only for the token of a user."""
        if request.headers.get("authorization") != f"Bearer {USER_TOKEN}":
            return {}
        return {"permissions": {"pull": True, "push": False, "admin": False, **self.may.get(repo.id, {})}}

    async def _form(self, request: web.Request) -> dict[str, str]:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        return form
