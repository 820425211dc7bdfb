"""Activity of the past hours on a platform: its own code, run with a clock that is behind."""

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar
from unittest.mock import patch

from shared.github.client import GitHub
from shared.records.submissions import Delivery
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.content import S3Content
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.secret_store import secrets_from
from shared.submissions import intake
from shared.telemetry import logger
from shared.verification import pipeline
from shared.worker_context import Env, run_with_worker_env
from tests.support.aws_resources import CREDENTIALS
from tests.support.memory import MemoryQueue, ScansInThreads, no_judge
from tests.support.platform import Platform

WHILE = timedelta(seconds=60)
T = TypeVar("T")


class Event(NamedTuple):
    ago: timedelta
    submit: Callable[[], Awaitable[intake.Accepted]]


def an_upload(hours_ago: float, name: str, files: dict[str, str], token: str | None = None) -> Event:
    submit = partial(intake.submit_bundle, name, list(files.items()), token, None, None)
    return Event(timedelta(hours=hours_ago), submit)


def a_repository(hours_ago: float, url: str, path: str | None) -> Event:
    return Event(timedelta(hours=hours_ago), partial(intake.submit_repo, url, None, path, None, None))


def relive(platform: Platform, github_url: str, events: Iterable[Event]) -> list[intake.Accepted]:
    """One after the other, the oldest first. Nothing is sent: no worker of the platform hears of them."""
    in_order = sorted(events, key=lambda event: event.ago, reverse=True)

    async def happen(env: Env) -> list[intake.Accepted]:
        return [await _happen(env, event) for event in in_order]

    return in_store_of(platform, github_url, happen)


def in_store_of(platform: Platform, github_url: str, fn: Callable[[Env], Awaitable[T]]) -> T:
    """Runs the platform's code here, on the platform's store."""
    info = platform.info
    environment = {
        **CREDENTIALS,
        "STAGE": "local",
        "TABLE_NAME": info["table"],
        "BUCKET_NAME": info["bucket"],
        "QUEUE_URL": info["queueUrl"],
        "SECRET_ID": "none",
        "SECRETS_FILE": str(platform.directory / "secrets.json"),
        "ALLOW_UPLOADS": "true",
        "MAX_ACTIVE": "10000",
        "GITHUB_API_URL": github_url,
        "AWS_ENDPOINT_URL": info["endpoint"],
    }
    # A thread of its own: an open browser runs a loop in this one.
    with patch.dict(os.environ, environment), ThreadPoolExecutor(1) as thread, _quiet():
        return thread.submit(lambda: asyncio.run(_within(fn))).result()


@contextmanager
def _quiet() -> Iterator[None]:
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


async def _within(fn: Callable[[Env], Awaitable[T]]) -> T:
    aws = Aws(load_settings())
    env = _env(aws)
    try:
        return await run_with_worker_env(env, lambda: fn(env))
    finally:
        await env.github.close()
        await aws.close()


async def _happen(env: Env, event: Event) -> intake.Accepted:
    then = dataclasses.replace(env, clock=lambda: datetime.now(UTC) - event.ago)
    accepted = await run_with_worker_env(then, event.submit)
    message = Delivery("a message of that time")
    process = partial(pipeline.process_submission, accepted.submission.id, "a worker", WHILE, message)
    await run_with_worker_env(then, process)
    return accepted


def _env(aws: Aws) -> Env:
    settings = aws.settings
    secrets = secrets_from(settings, partial(aws.call, "secretsmanager"))
    return Env(
        kv=DynamoKV(partial(aws.call, "dynamodb"), settings.table_name),
        content=S3Content(partial(aws.call, "s3"), settings.bucket_name),
        queue=MemoryQueue(),
        secrets=secrets,
        github=GitHub(settings.github_api_url, secrets, lambda: datetime.now(UTC)),
        bedrock=no_judge,
        scans=ScansInThreads(),
        settings=settings,
        clock=lambda: datetime.now(UTC),
    )
