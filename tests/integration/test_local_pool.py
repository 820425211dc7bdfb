"""Runtime processes of one function, without the rest of the platform."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local.config import read_config
from local.console import Console
from local.function_pool import IDLE_LIMIT, FunctionPool, StartLimit, function_environment
from local.template import read_template

TEMPLATE = Path(__file__).resolve().parents[1] / "support" / "runner_app" / "template.yaml"


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[FunctionPool]:
    (tmp_path / "tmp").mkdir()
    config = read_config({"LOCAL_DIR": str(tmp_path)}, TEMPLATE)
    function = read_template(TEMPLATE, "http://127.0.0.1:1", "us-east-1").functions["Slow"]
    environment = function_environment(function, config, "http://127.0.0.1:1", "us-east-1")
    pool = FunctionPool(function, environment, config.code, "us-east-1", Console("ERROR"), StartLimit(), lambda: None)
    yield pool
    await pool.stop()


def event(seconds: float) -> bytes:
    return json.dumps({"pathParameters": {"seconds": str(seconds)}}).encode()


async def test_idle_processes_are_stopped_but_one_stays_warm(slow: FunctionPool) -> None:
    await asyncio.gather(*(slow.invoke(event(0.5)) for _ in range(3)))
    assert len(slow.pids) == 3
    await slow.reap()
    assert len(slow.pids) == 3
    for worker in slow._workers:
        worker.idle_since -= IDLE_LIMIT.total_seconds()
    await slow.reap()
    assert len(slow.pids) == 1
    assert not (await slow.invoke(event(0))).cold


async def test_no_more_processes_than_the_concurrency(slow: FunctionPool) -> None:
    invoked = await asyncio.gather(*(slow.invoke(event(0.1)) for _ in range(9)))
    assert len(slow.pids) <= slow.concurrency == 4
    assert [entry.outcome.failure for entry in invoked] == [None] * 9


async def test_an_event_over_6_mb_is_not_delivered(slow: FunctionPool) -> None:
    invoked = await slow.invoke(b"x" * (6 * 1024 * 1024 + 1))
    assert invoked.outcome.error_type == "RequestTooLarge"
    assert slow.pids == []


async def test_a_process_that_cannot_start_is_an_outcome(slow: FunctionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    invoked = await slow.invoke(event(0))
    assert invoked.outcome.error_type == "Runtime.StartError"
    monkeypatch.undo()
    assert (await slow.invoke(event(0))).outcome.failure is None
