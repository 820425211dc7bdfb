"""The dead-letter queue: a message that failed five receives is stored for review, and its submission parked."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from functions.http.partial_batch import failures_of, records_of
from shared import runtime, telemetry
from shared.storage.queue import Poison, parse_body
from shared.submissions.dead_letter_store import store_dead_letter
from shared.timing import MAX_RECEIVES
from shared.verification.recovery import park_undelivered
from shared.worker_context import Env, run_with_worker_env


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    try:
        return runtime.run(lambda: consume(records_of(event), runtime.worker_env()), runtime.time_left(context))
    finally:
        telemetry.flush()


async def consume(records: list[dict[str, Any]], env: Env) -> dict[str, Any]:
    def store_all() -> Awaitable[list[BaseException | None]]:
        return asyncio.gather(*map(store, records), return_exceptions=True)

    return failures_of(records, await run_with_worker_env(env, store_all))


async def store(record: Mapping[str, Any]) -> None:
    message_id, body = record["messageId"], record["body"]
    try:
        submission_id = parse_body(body).id
    except Poison as poison:
        await store_dead_letter(message_id, body, str(poison))
        return
    reason = f"failed {MAX_RECEIVES} deliveries"
    await store_dead_letter(message_id, body, reason, submission_id)
    await park_undelivered(submission_id, reason)
