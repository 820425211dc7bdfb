"""Metrics as CloudWatch would read them from a function's log: lines in the embedded metric format."""

import json


def metrics_in(output: str) -> dict[str, float]:
    """The sum of each metric by its name."""
    found: dict[str, float] = {}
    for line in output.splitlines():
        if not line.startswith("{") or '"_aws"' not in line:
            continue
        values = json.loads(line)
        for described in values["_aws"]["CloudWatchMetrics"]:
            for metric in described["Metrics"]:
                found[metric["Name"]] = found.get(metric["Name"], 0) + sum(values[metric["Name"]])
    return found
