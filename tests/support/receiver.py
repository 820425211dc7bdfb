"""The webhook of an owner, on loopback, that keeps what it gets."""

import json

from aiohttp import web

from tests.support.loopback import LoopbackServer


class Receiver(LoopbackServer):
    def __init__(self) -> None:
        app = web.Application()
        app.router.add_post("/hook", self._answer)
        super().__init__(app)
        self.events: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def _answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        self.events.append(json.loads(self.bodies[-1]))
        return web.Response(status=204)
