"""One log line per outcome (constant message, facts in `extra`) and the metrics that alarms watch.

`logger.append_keys` is never used: it is process-global and would leak from one batch into another.
"""

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

logger = Logger(utc=True)
_metrics = Metrics(namespace="VskillPlatform")


def count(name: str, value: float = 1) -> None:
    _metrics.add_metric(name, MetricUnit.Count, value)


def flush() -> None:
    """Writes what was counted, in the embedded metric format. Handlers call it last."""
    if _metrics.metric_set:
        _metrics.flush_metrics()
