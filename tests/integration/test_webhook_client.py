"""S40: a webhook reaches public addresses only, whatever its name is written like or resolves to."""

import asyncio
import socket

import pytest
from aiohttp import web

from shared.errors import InvalidRequest, InvalidSettings
from shared.settings import load_settings
from shared.storage import webhook_client
from shared.storage.public_address import is_public
from shared.storage.webhook_client import DeliveryFailed, HttpWebhooks, read_target_url
from tests.support.loopback import LoopbackServer

NOT_PUBLIC = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "169.254.170.2", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "fec0::1", "2001:db8::1"),
    *("::ffff:0:127.0.0.1", "::ffff:0:a9fe:a9fe", "64:ff9b:1::7f00:1", "1::1", "4000::1", "5f00::1", "3fff::1"),
    *("192.0.0.9", "192.88.99.1", "nonsense", ""),
]


class Receiver(LoopbackServer):
    def __init__(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        super().__init__(app)
        self.paths: list[str] = []
        self.hosts: list[str] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.hosts.append(request.host)
        if request.path == "/moved":
            return web.Response(status=302, headers={"location": f"{self.url}/inside"})
        if request.path == "/hangs":
            await asyncio.sleep(3600)
        return web.Response(status=500 if request.path == "/fails" else 204)


@pytest.fixture
def receiver():
    with Receiver() as server:
        yield server


def resolving(monkeypatch, *answers: list[str]) -> list[str]:
    """Every name leads to these addresses: another answer each time, the last one from then on."""
    asked: list[str] = []

    async def getaddrinfo(self, host, port, **_):
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


def post(url: str, allows_loopback: bool = False):
    return HttpWebhooks(allows_loopback).post(url, b"{}", {"content-type": "application/json"})


@pytest.mark.requirement("S40")
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_private_loopback_link_local_and_embedded_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "140.82.112.3", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are(address):
    assert is_public(address)


@pytest.mark.requirement("S40")
@pytest.mark.parametrize("address", NOT_PUBLIC[:-2])
async def test_a_name_that_resolves_to_one_is_not_connected_to(monkeypatch, address):
    for addresses in ([address], ["8.8.8.8", address]):
        resolving(monkeypatch, addresses)
        with pytest.raises(DeliveryFailed, match="not public"):
            await post("https://innocent.example.org/hook")


@pytest.mark.requirement("S40")
@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "localhost", "0"],
)
async def test_numbers_in_any_notation_and_literal_addresses_lead_nowhere(host):
    with pytest.raises(DeliveryFailed, match=r"not public|unusual way|does not resolve"):
        await post(f"https://{host}/hook")


@pytest.mark.requirement("S40")
async def test_the_name_is_resolved_once_and_the_connection_goes_to_that_address(monkeypatch, receiver):
    """Rebinding: the second answer would be another address."""
    asked = resolving(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    port = receiver.url.rpartition(":")[2]
    monkeypatch.setattr(webhook_client, "_is_local", lambda host: True)
    await post(f"http://hooks.example.org:{port}/hook", allows_loopback=True)
    assert asked == ["hooks.example.org"]
    assert receiver.hosts == [f"hooks.example.org:{port}"]


@pytest.mark.requirement("S40")
async def test_a_redirect_is_not_followed(receiver):
    with pytest.raises(DeliveryFailed, match="redirects are not followed"):
        await post(f"{receiver.url}/moved", allows_loopback=True)
    assert receiver.paths == ["/moved"]


@pytest.mark.requirement("S40")
@pytest.mark.parametrize(
    "url",
    [
        *("http://hooks.example.org/", "ftp://hooks.example.org/", "https://", "https://user:pw@hooks.example.org/"),
        *("//hooks.example.org", "https://a b.example.org/", "https://hooks.example.org\\@evil.example.org/"),
        *("https://hooks.example.org/#part", "https://[::1", "https://hooks.example.org:99999/", "javascript:alert(1)"),
        *("https://hööks.example.org/", "https://hooks.example.org/\r\nx: y", "http://127.0.0.1/"),
        "https://hooks.example.org/" + "x" * 500,
    ],
)
def test_only_https_addresses_are_taken(url):
    with pytest.raises(InvalidRequest):
        read_target_url(url, allows_loopback=False)


@pytest.mark.requirement("S40")
def test_loopback_over_http_is_a_setting_of_stage_local_alone():
    assert read_target_url("http://127.0.0.1:8000/x", allows_loopback=True)
    with pytest.raises(InvalidRequest):
        read_target_url("http://hooks.example.org/", allows_loopback=True)
    with pytest.raises(InvalidSettings, match="WEBHOOK_LOOPBACK"):
        load_settings(_env(STAGE="prod"))
    assert load_settings(_env(STAGE="local")).webhook_loopback


@pytest.mark.requirement("R43")
async def test_a_receiver_that_fails_hangs_or_is_not_there_is_a_failed_delivery(monkeypatch, receiver, closed_port):
    with pytest.raises(DeliveryFailed, match="answered 500"):
        await post(f"{receiver.url}/fails", allows_loopback=True)
    with pytest.raises(DeliveryFailed, match="connection failed"):
        await post(f"{closed_port}/", allows_loopback=True)
    monkeypatch.setattr(webhook_client, "WEBHOOK_TIMEOUT", webhook_client.WEBHOOK_TIMEOUT / 50)
    with pytest.raises(DeliveryFailed, match="did not answer"):
        await post(f"{receiver.url}/hangs", allows_loopback=True)


async def test_an_address_that_the_client_cannot_read_is_a_failed_delivery(monkeypatch):
    """Any other error would have it tried again for ever."""
    resolving(monkeypatch, ["8.8.8.8"])
    with pytest.raises(DeliveryFailed):
        await post(read_target_url("https://[2606:4700::1111]80~%00[%", allows_loopback=False))


def _env(**more: str) -> dict[str, str]:
    names = ("TABLE_NAME", "BUCKET_NAME", "QUEUE_URL", "SECRET_ID", "AWS_REGION")
    return {
        **dict.fromkeys(names, "x"),
        "ALLOW_UPLOADS": "true",
        "MAX_ACTIVE": "1",
        "WEBHOOK_LOOPBACK": "true",
        **more,
    }
