"""Access to the current env: that of the batch if there is one, else the request env of the process."""

from datetime import datetime
from typing import TYPE_CHECKING

from shared.github.client import GitHub
from shared.runtime import request_env
from shared.scanner.scan_runner import Scans
from shared.settings import Settings
from shared.storage.content import Content
from shared.storage.dynamo_kv import Wire
from shared.storage.kv import KV
from shared.storage.queue import BodyQueue, Queue
from shared.storage.secret_store import Secrets
from shared.worker_context import Env, get_worker_env

if TYPE_CHECKING:  # loaded by the one function that sends webhooks
    from shared.storage.webhook_client import WebhookClient


def get_env() -> Env:
    return get_worker_env() or request_env()


def get_kv() -> KV:
    return get_env().kv


def get_content() -> Content:
    return get_env().content


def get_queue() -> Queue:
    return get_env().queue


def find_long_scan_queue() -> Queue | None:
    return get_env().long_scans


def get_secrets() -> Secrets:
    return get_env().secrets


def get_github() -> GitHub:
    return get_env().github


def get_bedrock() -> Wire:
    return get_env().bedrock


def get_scans() -> Scans:
    return get_env().scans


def get_webhooks() -> "WebhookClient":
    client = get_env().webhooks
    assert client is not None  # only the function that notifies owners sends webhooks
    return client


def get_notification_queue() -> BodyQueue:
    queue = get_env().notifications
    assert queue is not None  # template.yaml names it for the function that notifies owners
    return queue


def get_settings() -> Settings:
    return get_env().settings


def now() -> datetime:
    return get_env().clock()
