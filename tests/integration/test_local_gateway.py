"""The HTTP API's limits, with a function that is only pretended."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local import gateway
from local.console import Console
from local.function_pool import Invoked
from local.gateway import Gateway, listen
from local.template import Function, read_template
from local.worker import Outcome

TEMPLATE = Path(__file__).resolve().parents[1] / "support" / "runner_app" / "template.yaml"


class PretendedPool:
    """Responds after a while with the number of bytes received."""

    def __init__(self, function: Function, seconds: float) -> None:
        self.function, self._seconds = function, seconds
        self.finished = asyncio.Event()

    async def invoke(self, payload: bytes) -> Invoked:
        await asyncio.sleep(self._seconds)
        self.finished.set()
        answer = {"statusCode": 200, "body": str(len(json.loads(payload).get("body", "")))}
        return Invoked(Outcome(json.dumps(answer).encode()), 1, cold=False)


@pytest.fixture
def pool() -> PretendedPool:
    return PretendedPool(read_template(TEMPLATE, "http://127.0.0.1:1", "us-east-1").functions["Echo"], 0.2)


@pytest.fixture
async def port(pool: PretendedPool) -> AsyncIterator[int]:
    served = Gateway({"Echo": pool}, Console("ERROR"))  # type: ignore[dict-item]
    with listen("127.0.0.1", 0) as listener:
        await served.start(listener)
        yield listener.getsockname()[1]
        await served.stop(5)


async def exchange(port: int, request: bytes, then: bytes = b"") -> tuple[bytes, bytes]:
    """The responses before and after the second part is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    first = await reader.readuntil(b"\r\n\r\n") if then else b""
    writer.write(then)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return first, answer


async def test_a_slow_function_is_503_for_the_client_and_still_ends(
    port: int, pool: PretendedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "SECONDS_LIMIT", 0.01)
    _, answer = await exchange(port, b"GET /things/first HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b'{"message": "Service Unavailable"}')
    assert not pool.finished.is_set()
    await asyncio.wait_for(pool.finished.wait(), 10)


async def test_a_client_that_expects_100_continue_gets_it(port: int) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
    first, answer = await exchange(port, head + b"Expect: 100-continue\r\nConnection: close\r\n\r\n", then=b"hello")
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n5")


async def test_a_body_of_unknown_length_ends_at_the_limit(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "BODY_LIMIT", 4)
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    _, answer = await exchange(port, head + b"5\r\nhello\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_no_route_and_no_default_is_404(port: int, pool: PretendedPool) -> None:
    served = Gateway({}, Console("ERROR"))
    with listen("127.0.0.1", 0) as listener:
        await served.start(listener)
        request = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        _, answer = await exchange(listener.getsockname()[1], request)
        await served.stop(1)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.endswith(b'{"message": "Not Found"}')
