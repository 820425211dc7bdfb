"""The schedule: find what got stuck, recover it, report how the queue is doing."""

from typing import Any

from shared import runtime
from shared.db import now
from shared.submissions.counters import note_shards, roll_up_hours
from shared.submissions.data_version import note_first_version
from shared.submissions.queue_health import report_queue_health
from shared.verification.recovery import RecoveryReport, recover_all_stuck


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return runtime.run_schedule(event, context, tick)


async def tick() -> RecoveryReport:
    report = await recover_all_stuck()
    await note_shards()
    await roll_up_hours(now())
    await note_first_version()
    await report_queue_health(report.paused, report.still_stuck)
    return report
