"""The schedule: skills published under an older rule set are scanned again, a round a day."""

from typing import Any

from shared import runtime
from shared.verification.rescan import rescan_when_due


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return runtime.run_schedule(event, context, rescan_when_due)
