"""The HTTP API's limits, with a function that is only pretended."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local import gateway
from local.config import read_config
from local.console import Console
from local.function_pool import Invoked
from local.gateway import Exposure, Gateway, listen
from local.template import Function, read_template
from local.worker import Outcome
from tests.support.aws_resources import client, create_resources
from tests.support.certificates import write_certificate

TEMPLATE = Path(__file__).resolve().parents[1] / "support" / "runner_app" / "template.yaml"


class PretendedPool:
    """Responds after a while with the number of bytes received."""

    def __init__(self, function: Function, seconds: float) -> None:
        self.function, self._seconds = function, seconds
        self.finished = asyncio.Event()

    async def invoke(self, payload: bytes) -> Invoked:
        await asyncio.sleep(self._seconds)
        self.finished.set()
        event = json.loads(payload)
        if event["rawPath"].startswith("/things/redirected"):
            answer = {"statusCode": 302, "headers": {"location": event["rawPath"].removeprefix("/things/redirected/")}}
            return Invoked(Outcome(json.dumps(answer).encode()), 1, cold=False)
        if event["rawPath"] == "/things/who":
            seen = [event["headers"][f"x-forwarded-{name}"] for name in ("for", "proto")]
            return Invoked(Outcome(json.dumps({"statusCode": 200, "body": " ".join(seen)}).encode()), 1, cold=False)
        answer = {"statusCode": 200, "body": str(len(event.get("body", "")))}
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


# --- reached by other machines ---


async def ask(exposure: Exposure, pool: PretendedPool, path: str, headers: str = "") -> bytes:
    served = Gateway({"Echo": pool}, Console("ERROR"), exposure)  # type: ignore[dict-item]
    with listen("127.0.0.1", 0) as listener:
        await served.start(listener)
        tls = None
        if exposure.tls:
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(*listener.getsockname(), ssl=tls)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n".encode())
        answer = await reader.read()
        writer.close()
        await served.stop(1)
    return answer


@pytest.mark.parametrize(
    ("proxy", "seen"), [(None, b"127.0.0.1 http"), ("192.0.2.1", b"127.0.0.1 http"), ("127.0.0.1", b"192.0.2.9 https")]
)
async def test_only_the_proxy_is_believed_about_the_client(pool: PretendedPool, proxy: str | None, seen: bytes) -> None:
    """And of what it says only the end, which it added itself."""
    headers = "X-Forwarded-For: 203.0.113.5, 192.0.2.9\r\n"
    answer = await ask(Exposure(trusted_proxy=proxy), pool, "/things/who", headers)
    assert answer.endswith(b"\r\n\r\n" + seen)


async def test_with_a_certificate_it_serves_https(pool: PretendedPool, tmp_path: Path) -> None:
    config = read_config({"HOST": "192.0.2.7", **write_certificate(tmp_path)})
    answer = await ask(Exposure.of(config, "http://127.0.0.1:1"), pool, "/things/who")
    assert answer.endswith(b"\r\n\r\n127.0.0.1 https")


async def test_a_redirect_to_the_store_is_followed_for_those_who_cannot_reach_it(
    pool: PretendedPool, store_url: str
) -> None:
    bucket = create_resources(store_url)["BUCKET_NAME"]
    client("s3", store_url).put_object(Bucket=bucket, Key="artifact", Body=b"bytes of it")
    path = f"/things/redirected/{store_url}/{bucket}/artifact"
    for exposure in (Exposure(is_public=True, store=store_url), Exposure(trusted_proxy="127.0.0.1", store=store_url)):
        answer = await ask(exposure, pool, path)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\nbytes of it")
    for exposure in (Exposure(store=store_url), Exposure(is_public=True, store="http://127.0.0.1:1")):
        assert (await ask(exposure, pool, path)).startswith(b"HTTP/1.1 302 ")
