import socket

import pytest


@pytest.fixture
def closed_port():
    """An address where nobody answers: the port is held, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
