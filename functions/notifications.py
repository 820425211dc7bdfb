"""Notifications of owners: the schedule sends due events to their queue, the queue brings them to webhooks."""

from typing import Any

from functions.http.partial_batch import answer_batch
from shared import runtime
from shared.notifications.delivery import deliver, dispatch_due


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if "Records" not in event:
        return runtime.run_schedule(event, context, dispatch_due)
    return answer_batch(event, context, lambda record: deliver(record["body"]))
