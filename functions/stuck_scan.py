"""The schedule: find what got stuck, recover it, report how the queue is doing."""

from typing import Any

import msgspec

from shared import runtime, telemetry
from shared.submissions.queue_health import report_queue_health
from shared.verification.recovery import RecoveryReport, recover_stuck
from shared.worker_context import run_with_worker_env


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if event.get("source") != "aws.events":
        raise ValueError("This function handles EventBridge schedules only.")
    try:
        report = runtime.run(lambda: run_with_worker_env(runtime.worker_env(), tick), runtime.time_left(context))
    finally:
        telemetry.flush()
    result: dict[str, Any] = msgspec.to_builtins(report)
    return result


async def tick() -> RecoveryReport:
    report = await recover_stuck()
    await report_queue_health(report.paused, report.still_stuck)
    return report
