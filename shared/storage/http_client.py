"""HTTP/1.1 to one origin over kept connections: what calls to AWS need of HTTP, and nothing else.

Importing a general client takes longer than all else that a cold function does before its first response.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult

from botocore.exceptions import HTTPClientError

MAX_HEADERS = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
MAX_CONNECTIONS = 50
_BLANK = b"\r\n\r\n"


class Response(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class BrokenResponse(Exception):
    """The server closed the connection early, or sent what is no HTTP."""


class UnreadableResponse(HTTPClientError):
    """A response of AWS came and is not what the service promises."""


class HttpClient:
    """Connections to one origin. A connection on which anything went wrong is never used again."""

    def __init__(self, origin: SplitResult, tls: ssl.SSLContext | None, connect_seconds: float) -> None:
        self._host = origin.hostname or ""
        self._port = origin.port or (443 if tls else 80)
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle: list[_Connection] = []
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, silence_seconds: float
    ) -> Response:
        """Raises ConnectionError or OSError, TimeoutError or BrokenResponse."""
        async with self._places:
            connection = await self._connection()
            try:
                response = await connection.exchange(method, path, headers, body, silence_seconds)
            except BaseException:  # also when cancelled: a late response must not answer the next request
                connection.abort()
                raise
            if connection.is_open:
                self._idle.append(connection)
            return response

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    async def _connection(self) -> "_Connection":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, self._host, self._port, ssl=self._tls
                )
        except TimeoutError as error:
            raise ConnectionError("The server did not accept a connection in time.") from error
        return connection


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader("")
        self._done: asyncio.Future[Response] | None = None
        self._silence: asyncio.Timeout | None = None
        self._silence_seconds = 0.0

    async def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, silence_seconds: float
    ) -> Response:
        loop = asyncio.get_running_loop()
        self._reader, self._done, self._silence_seconds = ResponseReader(method), loop.create_future(), silence_seconds
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        assert self._transport is not None
        async with asyncio.timeout(silence_seconds) as self._silence:
            head = f"{method} {path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode("latin-1") + body)
            return await self._done

    def abort(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        if self._done is None or self._done.done():  # no request is waiting: the data answers nothing
            self.abort()
            return
        try:
            response = self._reader.feed(data)
        except BrokenResponse as error:
            self._done.set_exception(error)
            return
        if response is not None:
            self._finish(response)
        elif self._silence is not None:
            self._silence.reschedule(asyncio.get_running_loop().time() + self._silence_seconds)

    def eof_received(self) -> None:
        """The server sends nothing more: the end of a body without a length, or of a response that is incomplete."""
        self.is_open = False
        if self._done is not None and not self._done.done():
            response = self._reader.end()
            if response is None:
                self._done.set_exception(BrokenResponse("The connection was closed within the response."))
            else:
                self._finish(response)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._done is not None and not self._done.done():
            self._done.set_exception(BrokenResponse(f"The connection was lost: {error or 'closed'}"))

    def _finish(self, response: Response) -> None:
        assert self._done is not None
        if not self._reader.keeps_open:
            self.abort()
        self._done.set_result(response)


class ResponseReader:
    """Puts one response together from its pieces, in time that is linear in its size."""

    def __init__(self, method: str) -> None:
        self.keeps_open = False
        self._has_body = method != "HEAD"
        self._buffer = bytearray()
        self._searched = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._length: int | None = None  # of the body; None while unknown, or until the end
        self._chunks: list[bytes] | None = None

    def feed(self, data: bytes) -> Response | None:
        self._buffer += data
        if len(self._buffer) > MAX_BODY + MAX_HEADERS:
            raise BrokenResponse("The response is too large.")
        if not self._status and not self._read_head():
            return None
        if self._chunks is not None:
            return self._read_chunks()
        if self._length is None or len(self._buffer) < self._length:
            return None
        if len(self._buffer) > self._length:
            raise BrokenResponse("The response is longer than it says.")
        return self._response(bytes(self._buffer))

    def end(self) -> Response | None:
        is_until_end = self._status and self._length is None and self._chunks is None
        return self._response(bytes(self._buffer)) if is_until_end else None

    def _read_head(self) -> bool:
        """Leaves only the body in the buffer."""
        while (end := self._buffer.find(_BLANK, max(0, self._searched - 3))) >= 0:
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            del self._buffer[: end + len(_BLANK)]
            self._searched = 0
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise BrokenResponse("This is no HTTP response.")
            if rest[0] != "1":  # an interim response has no body, and the real one follows
                self._take_head(version, int(rest[:3]), lines[1:])
                return True
        self._searched = len(self._buffer)
        if self._searched > MAX_HEADERS:
            raise BrokenResponse("The headers of the response are too long.")
        return False

    def _take_head(self, version: str, status: int, lines: list[str]) -> None:
        self._status = status
        self._headers = {name.strip().lower(): value.strip() for name, _, value in (ln.partition(":") for ln in lines)}
        self.keeps_open = version != "HTTP/1.0" and self._headers.get("connection", "").lower() != "close"
        length = self._headers.get("content-length", "")
        if not self._has_body or status in (204, 304):
            self._length = 0
        elif self._headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = []
        elif length:
            self._length = _number(length, 10)
        else:
            self.keeps_open = False  # its end is the end of the connection

    def _read_chunks(self) -> Response | None:
        """Takes whole chunks out of the buffer. After the last come trailers, which are ignored, and a blank line."""
        assert self._chunks is not None
        at, is_last = 0, False
        while (line_end := self._buffer.find(b"\r\n", at)) >= 0:
            size = _number(self._buffer[at:line_end].partition(b";")[0].decode("latin-1"), 16)
            end = line_end + 2 + size + 2
            is_last = size == 0
            if is_last or len(self._buffer) < end:
                break
            self._chunks.append(bytes(self._buffer[line_end + 2 : end - 2]))
            at = end
        del self._buffer[:at]
        return self._response(b"".join(self._chunks)) if is_last and _BLANK in self._buffer else None

    def _response(self, body: bytes) -> Response:
        return Response(self._status, self._headers, body)


def _number(text: str, base: int) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isalnum() or len(digits) > 12:
        raise BrokenResponse("The length of the response is no number.")
    try:
        return int(digits, base)
    except ValueError as error:
        raise BrokenResponse("The length of the response is no number.") from error
