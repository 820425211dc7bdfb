"""The daily schedule: skills published under an older rule set are scanned again."""

from typing import Any

from shared import runtime
from shared.verification.rescan import rescan_published


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return runtime.run_schedule(event, context, rescan_published)
