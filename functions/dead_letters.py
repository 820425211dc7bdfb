"""The dead-letter queue: a message that failed five receives is stored for review, and its submission parked."""

from typing import Any

from functions.http.partial_batch import Record, answer_batch
from shared.storage.queue import Poison, parse_body
from shared.submissions.dead_letter_store import store_dead_letter
from shared.timing import MAX_RECEIVES
from shared.verification.recovery import park_undelivered


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return answer_batch(event, context, store)


async def store(record: Record) -> None:
    message_id, body = record["messageId"], record["body"]
    try:
        submission_id = parse_body(body).id
    except Poison as poison:
        await store_dead_letter(message_id, body, str(poison))
        return
    reason = f"failed {MAX_RECEIVES} deliveries"
    await store_dead_letter(message_id, body, reason, submission_id)
    await park_undelivered(submission_id, reason)
