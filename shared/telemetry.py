"""One log line per outcome (constant message, facts in `extra`) and the metrics that alarms watch.

`logger.append_keys` is never used: it is process-global and would leak from one batch into another. Each line names its
function and the request that Lambda gave it, and the trace where there is one, so that one query follows a submission.
"""

import logging
import os
from contextvars import ContextVar
from enum import StrEnum

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

NAMESPACE = "VskillPlatform"
SERVICE = "service"  # the only dimension: the stack, so that two in one account have separate metrics

logger = Logger(utc=True)
_request: ContextVar[str] = ContextVar("request", default="")
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
    INTERNAL_ERRORS = "InternalErrors"
    GITHUB_QUOTA_LEFT = "GitHubQuotaLeft"  # in percent


def note_request(request_id: str) -> None:
    """Of the invocation that begins: every line until the next one carries it."""
    _request.set(request_id)


class _Named(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
        record.functionRequest = _request.get()
        # Lambda's own level is INFO at most, or it would drop the metrics; and on Lambda Powertools follows that one.
        return record.levelno >= logging.getLevelNamesMapping().get(os.environ.get("LOG_LEVEL", ""), logging.INFO)


logger.addFilter(_Named())


def count(name: str, value: float = 1) -> None:
    _metrics.add_metric(name, MetricUnit.Count, value)


def measure_seconds(name: str, value: float) -> None:
    _metrics.add_metric(name, MetricUnit.Seconds, value)


def measure_percent(name: str, value: float) -> None:
    _metrics.add_metric(name, MetricUnit.Percent, value)


def flush() -> None:
    """Writes the metrics in the embedded metric format. Handlers call it last."""
    if _metrics.metric_set:
        _metrics.flush_metrics()
