"""One log line per outcome (constant message, facts in `extra`) and the metrics that alarms watch.

`logger.append_keys` is never used: it is process-global and would leak from one batch into another.
"""

from enum import StrEnum

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

NAMESPACE = "VskillPlatform"
SERVICE = "service"  # the only dimension: the stack, so that two in one account have separate metrics

logger = Logger(utc=True)
_metrics = Metrics(namespace=NAMESPACE)


class Watched(StrEnum):
    """The metrics that alarms in template.yaml watch: progress, since a running process may still do nothing."""

    STUCK_SCAN_FINISHED = "StuckScanFinished"
    STUCK_FOUND = "StuckFound"
    STUCK_RECOVERED = "StuckRecovered"
    STUCK_FAILED = "StuckFailed"
    OLDEST_ACTIVE_AGE = "OldestActiveAge"
    ACTIVE = "Active"
    ORPHANED_ACTIVE = "OrphanedActive"
    DRAIN_RATE = "DrainRate"
    PAUSED = "Paused"
    DEAD_LETTERS = "DeadLetters"
    READS_FAILED = "ReadsFailed"
    JUDGE_ERRORS = "JudgeErrors"
    SWEEP_LAG = "SweepLag"
    NOTIFICATION_LAG = "NotificationLag"


def count(name: str, value: float = 1) -> None:
    _metrics.add_metric(name, MetricUnit.Count, value)


def measure_seconds(name: str, value: float) -> None:
    _metrics.add_metric(name, MetricUnit.Seconds, value)


def flush() -> None:
    """Writes the metrics in the embedded metric format. Handlers call it last."""
    if _metrics.metric_set:
        _metrics.flush_metrics()
