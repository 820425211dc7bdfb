"""A web application on a free port of this machine, in a thread with a loop of its own."""

import asyncio
import threading

from aiohttp import web


class LoopbackServer:
    def __init__(self, app: web.Application) -> None:
        app.middlewares.append(self._remember)
        self._app = app
        self._transports: set[asyncio.BaseTransport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> "LoopbackServer":
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> str:
        self._runner = web.AppRunner(self._app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        for transport in self._transports:
            transport.abort()  # what a client left unread would otherwise outlive the loop
        await self._runner.cleanup()
        await asyncio.sleep(0)  # the transports close one step later

    @web.middleware
    async def _remember(self, request: web.Request, handler):
        if request.transport is not None:
            self._transports.add(request.transport)
        return await handler(request)
