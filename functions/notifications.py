"""Notifications of owners: the schedule sends due events to their queue, the queue brings them to webhooks."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from functions.http.partial_batch import failures_of, records_of
from shared import runtime, telemetry
from shared.notifications.delivery import deliver, dispatch_due
from shared.worker_context import Env, run_with_worker_env


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if "Records" not in event:
        return runtime.run_schedule(event, context, dispatch_due)
    try:
        return runtime.run(lambda: consume(records_of(event), runtime.worker_env()), runtime.time_left(context))
    finally:
        telemetry.flush()


async def consume(records: list[dict[str, Any]], env: Env) -> dict[str, Any]:
    """All at once: a receiver that hangs delays no other."""

    def deliver_all() -> Awaitable[list[BaseException | None]]:
        return asyncio.gather(*(deliver(record["body"]) for record in records), return_exceptions=True)

    return failures_of(records, await run_with_worker_env(env, deliver_all))
