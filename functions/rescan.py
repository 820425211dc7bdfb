"""The daily schedule: skills published under an older rule set are scanned again."""

from typing import Any

import msgspec

from shared import runtime, telemetry
from shared.verification.rescan import rescan_published
from shared.worker_context import run_with_worker_env


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if event.get("source") != "aws.events":
        raise ValueError("This function handles EventBridge schedules only.")
    env = runtime.worker_env()
    try:
        report = runtime.run(lambda: run_with_worker_env(env, rescan_published), runtime.time_left(context))
    finally:
        telemetry.flush()
    result: dict[str, Any] = msgspec.to_builtins(report)
    return result
