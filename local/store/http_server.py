"""HTTP/1.1 on a socket of this machine: whole requests in, whole answers out, over kept connections."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]  # names in lower case
    body: bytes


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


Handler = Callable[[Request], Awaitable[Answer]]


class Connection(asyncio.Protocol):
    """One request at a time; a client that is gone cancels nothing that it asked for."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._length = 0
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answering is None:
            self._read()

    def _read(self) -> None:
        if self._head is None and not self._read_head():
            return
        assert self._head is not None
        if len(self._buffer) < self._length:
            return
        request = Request(*self._head, bytes(self._buffer[: self._length]))
        del self._buffer[: self._length]
        self._head = None
        self._answering = asyncio.get_running_loop().create_task(self._answer(request))

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self._refuse(431)
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, _, rest = lines[0].partition(" ")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = headers.get("content-length", "0")
        if (
            not rest.endswith(" HTTP/1.1")
            or "transfer-encoding" in headers
            or not (length.isascii() and length.isdigit())
        ):
            self._refuse(501)
            return False
        if int(length) > MAX_BODY:
            self._refuse(413)
            return False
        if not _is_of_this_machine(headers):
            self._refuse(403)
            return False
        if headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._head, self._length = (method, rest.removesuffix(" HTTP/1.1"), headers), int(length)
        return True

    async def _answer(self, request: Request) -> None:
        answer = await self._handler(request)
        if not self._transport.is_closing():
            self._transport.write(_encoded(answer, has_body=request.method != "HEAD"))
        self._answering = None
        if self._buffer:
            self._read()

    def _refuse(self, status: int) -> None:
        self._transport.write(_encoded(Answer(status, {"connection": "close"}), has_body=True))
        self._transport.close()


def _is_of_this_machine(headers: Mapping[str, str]) -> bool:
    """Only browsers send Origin; a web page whose name was pointed at this machine sends another Host."""
    host = headers.get("host", "")
    return "origin" not in headers and (host in LOOPBACK or host.rpartition(":")[0] in LOOPBACK)


def _encoded(answer: Answer, *, has_body: bool) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    phrase = HTTPStatus(answer.status).phrase
    head = f"HTTP/1.1 {answer.status} {phrase}\r\n{lines}content-length: {len(answer.body)}\r\n\r\n"
    return head.encode("latin-1") + (answer.body if has_body else b"")
