"""The state of a Lambda process between invocations: one event loop, one client per service, the request env.

One loop for the life of the process: a cached client on a second loop breaks on the second, warm, call, and a new
client per invocation costs 27 ms. `run_until_complete` runs in a copy of the context, so nothing leaks from one
invocation into the next.
"""

import asyncio
import os
import random
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from shared import telemetry
from shared.github.client import GitHub
from shared.github.repo_cache import RepoCache
from shared.scanner.scan_runner import ScanProcesses
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.content import S3Content
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.queue import SqsQueue
from shared.storage.secret_store import secrets_from
from shared.timing import time_limit
from shared.worker_context import Env, run_with_worker_env

T = TypeVar("T")
ANSWER_MARGIN = timedelta(milliseconds=500)  # of Lambda's time, reserved to settle and respond


def run(fn: Callable[[], Awaitable[T]], limit: timedelta) -> T:
    async def limited() -> T:
        with time_limit(limit):
            try:
                return await fn()
            finally:
                await _end_strays()

    return _loop().run_until_complete(limited())


def run_schedule(event: dict[str, Any], context: Any, work: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """A function behind an EventBridge schedule: runs `work` in the worker env and returns its report."""
    if event.get("source") != "aws.events":
        raise ValueError("This function handles EventBridge schedules only.")
    try:
        report = run(lambda: run_with_worker_env(worker_env(), work), time_left(context))
    finally:
        telemetry.flush()
    result: dict[str, Any] = msgspec.to_builtins(report)
    return result


def time_left(context: Any) -> timedelta:
    """What every handler asks first: from here on its log lines carry the request."""
    telemetry.note_request(context.aws_request_id)
    return timedelta(milliseconds=context.get_remaining_time_in_millis()) - ANSWER_MARGIN


@cache
def request_env() -> Env:
    aws = _aws()
    settings = aws.settings
    secrets = secrets_from(settings, partial(aws.call, "secretsmanager"))
    kv = DynamoKV(partial(aws.call, "dynamodb"), settings.table_name)
    content = S3Content(partial(aws.call, "s3"), settings.bucket_name, partial(aws.sign_url, "s3"))
    return Env(
        kv=kv,
        content=content,
        queue=SqsQueue(partial(aws.call, "sqs"), settings.queue_url),
        secrets=secrets,
        github=GitHub(settings.github_api_url, secrets, _clock, RepoCache(kv, content, _clock)),
        bedrock=partial(aws.call, "bedrock-runtime"),
        scans=ScanProcesses(),
        settings=settings,
        clock=_clock,
        long_scans=SqsQueue(partial(aws.call, "sqs"), settings.long_scan_queue_url)
        if settings.long_scan_queue_url
        else None,
        **_notifying(aws),
    )


def _notifying(aws: Aws) -> dict[str, Any]:
    """Only the function that notifies owners has a queue for that, and loads what sends webhooks."""
    url = aws.settings.notification_queue_url
    if url is None:
        return {}
    from shared.storage.webhook_client import HttpWebhooks

    queue = SqsQueue(partial(aws.call, "sqs"), url)
    return {"notifications": queue, "webhooks": HttpWebhooks(aws.settings.webhook_loopback)}


def worker_env() -> Env:
    """The env of a batch: the same clients, which belong to the process; only the scope belongs to the batch."""
    return request_env()


def close() -> None:
    """Releases the clients: before a snapshot, and in tests, to start afresh."""
    if request_env.cache_info().currsize:
        _loop().run_until_complete(request_env().github.close())
        request_env().scans.close()
    if _aws.cache_info().currsize:
        _loop().run_until_complete(_aws().close())
    request_env.cache_clear()
    _aws.cache_clear()


def before_snapshot() -> None:
    """Connections, cached secrets and credentials, scan processes, threads and the loop are not part of a snapshot:
    every restored copy would have the same ones, hours later. The first request after a restore makes its own."""
    close()
    if _loop.cache_info().currsize:
        _loop().run_until_complete(_loop().shutdown_default_executor())
        _loop().close()
        _loop.cache_clear()


def after_restore() -> None:
    """What is secret comes from the kernel, which Lambda reseeds. These two generators have state in the process."""
    random.seed()
    ssl.RAND_add(os.urandom(48), 48)


async def _end_strays() -> None:
    """A `gather` that fails leaves its other calls running: they must not run on into the next invocation."""
    strays = asyncio.all_tasks() - {asyncio.current_task()}
    for stray in strays:
        stray.cancel()
    await asyncio.gather(*strays, return_exceptions=True)


def _clock() -> datetime:
    return datetime.now(UTC)


@cache
def _aws() -> Aws:
    return Aws(load_settings())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
    from snapshot_restore_py import register_after_restore, register_before_snapshot  # part of Lambda's runtime

    register_before_snapshot(before_snapshot)
    register_after_restore(after_restore)
