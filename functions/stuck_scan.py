"""The schedule: find what got stuck, recover it."""

from typing import Any

import msgspec

from shared import runtime, telemetry
from shared.recovery import recover_stuck
from shared.worker_context import run_with_worker_env


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if event.get("source") != "aws.events":
        raise ValueError("This function answers EventBridge schedules only.")
    try:
        report = runtime.run(
            lambda: run_with_worker_env(runtime.worker_env(), recover_stuck), runtime.time_left(context)
        )
    finally:
        telemetry.flush()
    result: dict[str, Any] = msgspec.to_builtins(report)
    return result
