"""A web application on a free port of this machine, in a thread with a loop of its own."""

import asyncio
import threading

from aiohttp import web


class LoopbackServer:
    def __init__(self, app: web.Application) -> None:
        app.middlewares.append(self._remember)
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._transports: set[asyncio.BaseTransport] = set()
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
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        return f"http://127.0.0.1:{self._site._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        """A connection that a client left, unread or unused, must not outlive the loop."""
        assert self._runner.server is not None
        for socket in self._site._server.sockets:
            self._loop.remove_reader(socket.fileno())
        # What was accepted at the last moment becomes a connection first: to a closed server asyncio cannot attach it.
        await _a_few_steps()
        silent = {handler.transport for handler in self._runner.server.connections if handler.transport is not None}
        for transport in self._transports | silent:
            transport.abort()
        await self._runner.cleanup()
        await _a_few_steps()  # transports close a step or two after close() is called

    @web.middleware
    async def _remember(self, request: web.Request, handler):
        if request.transport is not None:
            self._transports.add(request.transport)
        return await handler(request)


async def _a_few_steps() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
