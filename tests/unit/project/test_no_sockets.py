"""The guard in conftest.py: a unit test that opens a socket fails."""

import asyncio
import socket
import urllib.request
from contextlib import suppress

import pytest


@pytest.mark.parametrize(
    "open_one",
    [
        socket.socket,
        lambda: socket.create_server(("127.0.0.1", 0)),
        lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
        lambda: urllib.request.urlopen("http://127.0.0.1:9"),
        lambda: asyncio.run(asyncio.open_connection("127.0.0.1", 9)),
    ],
    ids=["plain", "server", "datagram", "request", "asyncio"],
)
def test_a_socket_is_refused_and_remembered_even_if_the_refusal_is_swallowed(open_one, no_sockets):
    with suppress(OSError):
        open_one()
        pytest.fail("it was opened")
    assert no_sockets
    no_sockets.clear()


def test_the_pair_that_wakes_an_event_loop_is_none(no_sockets):
    asyncio.run(asyncio.sleep(0))
    assert no_sockets == []
