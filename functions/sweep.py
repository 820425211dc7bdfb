"""The schedule: look again at the repositories of what is published, and hold what changed hands."""

from typing import Any

from shared import runtime
from shared.marketplace.repo_sweep import sweep


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return runtime.run_schedule(event, context, sweep)
