"""The environment of one batch, scoped by a ContextVar: batches that overlap cannot see each other's.

There is no setter and no clear: an env is set for the duration of a `run_with_worker_env` call. Tasks, `gather` and
`asyncio.to_thread` inherit it; `loop.run_in_executor` does not.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from shared.github.client import GitHub
from shared.scanner.scan_runner import Scans
from shared.settings import Settings
from shared.storage.content import Content
from shared.storage.dynamo_kv import Wire
from shared.storage.kv import KV
from shared.storage.queue import BodyQueue, Queue
from shared.storage.secret_store import Secrets

if TYPE_CHECKING:  # loaded by the one function that sends webhooks
    from shared.storage.webhook_client import WebhookClient


@dataclass(frozen=True, slots=True)
class Env:
    """All external dependencies of the code."""

    kv: KV
    content: Content
    queue: Queue
    secrets: Secrets
    github: GitHub
    bedrock: Wire
    scans: Scans
    settings: Settings
    clock: Callable[[], datetime]
    webhooks: "WebhookClient | None" = None  # of the function that notifies owners
    notifications: BodyQueue | None = None
    long_scans: Queue | None = None  # of the consumer


T = TypeVar("T")

worker_env_storage: ContextVar[Env | None] = ContextVar("worker_env", default=None)


def get_worker_env() -> Env | None:
    return worker_env_storage.get()


async def run_with_worker_env(env: Env, fn: Callable[[], Awaitable[T]]) -> T:
    token = worker_env_storage.set(env)
    try:
        return await fn()
    finally:
        worker_env_storage.reset(token)
