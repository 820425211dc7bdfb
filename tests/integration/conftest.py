import socket

import pytest

from shared import runtime


@pytest.fixture
def closed_port():
    """An address without an answer: the port is bound, and no socket listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def no_store(function_env, closed_port, monkeypatch):
    """Everything behind the functions is gone."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed_port)
    runtime.request_env.cache_clear()
    runtime._aws.cache_clear()
