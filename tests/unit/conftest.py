"""Unit tests touch no socket. This is enforced: a test that opens one fails, even if the code swallows the error."""

import socket
import sys

import pytest

REFUSAL = "A unit test opens no socket: this one belongs in tests/integration."
_watching: list[list[str]] = []  # what the running unit test has opened; empty while others run


def _watch(event: str, arguments: tuple) -> None:
    # Those between parts of one machine are let through: every event loop wakes itself with a pair of them.
    if event == "socket.__new__" and _watching and arguments[1] != socket.AF_UNIX:
        _watching[-1].append(str(arguments[1]))
        raise PermissionError(REFUSAL)


sys.addaudithook(_watch)  # below the socket module, so there is no way around it; it stays until the process ends


@pytest.fixture(autouse=True)
def no_sockets():
    opened: list[str] = []
    _watching.append(opened)
    yield opened
    _watching.clear()
    assert not opened, REFUSAL
