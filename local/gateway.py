"""The HTTP API of this machine: limits, routing, and one invocation per request."""

import asyncio
import errno
import json
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from local.config import Config, StartError
from local.console import Console, printable
from local.function_pool import FunctionPool, Invoked
from local.http_events import BadResponseError, Request, Response, Routes, make_event, read_response

BODY_LIMIT = 10 * 1024 * 1024
HEADERS_LIMIT = 10_240
SECONDS_LIMIT = 30.0
# The limits of the server must be above those of the gateway, which sends the right error.
LINE_LIMIT = 64 * 1024
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "trailer", "te"}


@dataclass(frozen=True)
class Exposure:
    """Who can reach the gateway, and how."""

    is_public: bool = False
    tls: ssl.SSLContext | None = None
    trusted_proxy: str | None = None
    store: str = ""  # its address, which other machines cannot reach

    @classmethod
    def of(cls, config: Config, store: str) -> "Exposure":
        return cls(config.is_public, _tls_context(config.tls), config.trusted_proxy, store)

    def client_of(self, request: web.BaseRequest) -> tuple[str, str]:
        """The address and the scheme. Only the proxy is believed: anyone can send these headers."""
        source, scheme = request.remote or "127.0.0.1", "https" if self.tls else "http"
        if self.trusted_proxy and source == self.trusted_proxy:
            forwarded = request.headers.getall("x-forwarded-for", [])
            source = forwarded[-1].rpartition(",")[2].strip() if forwarded else source
            scheme = "https"
        return source, scheme


def _tls_context(files: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    if files is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"The certificate {files[0]} cannot be used with the key {files[1]}: {error}.") from error
    return context


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except socket.gaierror as error:
        raise StartError(f"HOST is {host}; it must be an address of this machine.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"Port {port} is in use; choose another one: PORT={port + 1} make run") from error
        raise StartError(f"Port {port} cannot be opened on {host}: {error.strerror}.") from error


class Gateway:
    def __init__(self, pools: Mapping[str, FunctionPool], console: Console, exposure: Exposure | None = None) -> None:
        self._pools, self._console, self._exposure = pools, console, exposure or Exposure()
        self._routes = Routes([(route, name) for name, pool in pools.items() for route in pool.function.routes])
        self._invocations: set[asyncio.Task[Invoked]] = set()
        self._runner: web.ServerRunner | None = None

    async def start(self, listener: socket.socket) -> None:
        server = web.Server(
            self._handle,
            access_log=None,
            auto_decompress=False,
            max_line_size=LINE_LIMIT,
            max_field_size=LINE_LIMIT,
            max_headers=1000,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, backlog=512, ssl_context=self._exposure.tls).start()

    async def stop(self, seconds: float) -> None:
        """Accept no new requests; running ones get time to finish."""
        if self._runner is None:
            return
        for site in list(self._runner.sites):
            await site.stop()
        if self._invocations:
            await asyncio.wait(self._invocations, timeout=seconds)
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        start = time.monotonic()
        if _header_size(request) > HEADERS_LIMIT:
            return self._refuse(request, 431, "Request Header Fields Too Large", start)
        if (request.content_length or 0) > BODY_LIMIT:
            return self._refuse(request, 413, "Request Entity Too Large", start)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # curl would wait a second without it
        body = await _read_body(request)
        if body is None:
            return self._refuse(request, 413, "Request Entity Too Large", start)
        return await self._route(_as_request(request, body, *self._exposure.client_of(request)), start)

    async def _route(self, request: Request, start: float) -> web.Response:
        match = self._routes.find(request.method, request.path)
        if match is None:
            return self._refuse(request, 404, "Not Found", start)
        event = make_event(request, match)
        request_id = event["requestContext"]["requestId"]
        invoked = await self._invoke(match.function, json.dumps(event, ensure_ascii=False).encode())
        if invoked is None:
            self._log(match.function, request, 503, time.monotonic() - start, failure="no response within 30 s")
            return _message(503, "Service Unavailable", request_id)
        response, failure = _read_outcome(invoked)
        self._log(match.function, request, response.status, invoked.milliseconds / 1000, invoked.cold, failure)
        if self._exposure.is_public or self._exposure.trusted_proxy:
            response = await self._followed(response)
        return _response(response, request_id)

    async def _followed(self, response: Response) -> Response:
        """A redirect to the store, which only this machine reaches, becomes the content itself."""
        target = dict(response.headers).get("location", "")
        if not target.startswith(f"{self._exposure.store}/"):
            return response
        async with aiohttp.ClientSession() as session, session.get(target) as found:
            kept = ("content-type", "content-disposition", "cache-control")
            headers = [(name, found.headers[name]) for name in kept if name in found.headers]
            return Response(found.status, headers, await found.read())

    async def _invoke(self, function: str, payload: bytes) -> Invoked | None:
        # As on AWS, a function that is too slow for the gateway still runs to completion.
        invocation = asyncio.create_task(self._pools[function].invoke(payload))
        self._invocations.add(invocation)
        invocation.add_done_callback(self._invocations.discard)
        done, _ = await asyncio.wait({invocation}, timeout=SECONDS_LIMIT)
        return invocation.result() if done else None

    def _refuse(self, request: web.BaseRequest | Request, status: int, message: str, start: float) -> web.Response:
        self._log("-", request, status, time.monotonic() - start)
        return _message(status, message)

    def _log(
        self,
        function: str,
        request: web.BaseRequest | Request,
        status: int,
        seconds: float,
        cold: bool = False,
        failure: str | None = None,
    ) -> None:
        trigger = f"{request.method} {request.path} {status}".encode("ascii", "backslashreplace").decode()
        self._console.invocation(function, printable(trigger), seconds * 1000, cold=cold, failure=failure)


def _header_size(request: web.BaseRequest) -> int:
    line = len(request.raw_path)
    return line + sum(len(name) + len(value) + 4 for name, value in request.raw_headers)


async def _read_body(request: web.BaseRequest) -> bytes | None:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT:
            return None
    return bytes(body)


def _as_request(request: web.BaseRequest, body: bytes, source: str, scheme: str) -> Request:
    headers = [(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in request.raw_headers]
    protocol = f"HTTP/{request.version.major}.{request.version.minor}"
    return Request(request.method, request.raw_path, headers, body, source, protocol, scheme)


def _read_outcome(invoked: Invoked) -> tuple[Response, str | None]:
    outcome = invoked.outcome
    if outcome.response is None:
        return _failed(outcome.error_type), outcome.failure
    try:
        return read_response(outcome.response), None
    except BadResponseError as error:
        return _failed(""), str(error)


def _failed(error_type: str) -> Response:
    status, text = (
        (413, "Request Entity Too Large") if error_type == "RequestTooLarge" else (500, "Internal Server Error")
    )
    return Response(status, [("content-type", "application/json")], json.dumps({"message": text}).encode())


def _message(status: int, text: str, request_id: str = "") -> web.Response:
    body = json.dumps({"message": text}).encode()
    return _response(Response(status, [("content-type", "application/json")], body), request_id)


def _response(response: Response, request_id: str) -> web.Response:
    headers = CIMultiDict({"server": "local"})
    headers.extend((name, value) for name, value in response.headers if name not in HOP_BY_HOP)
    if request_id:
        headers["apigw-requestid"] = request_id
    return web.Response(status=response.status, body=response.body, headers=headers)
