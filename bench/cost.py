"""What one submission and one view cost on AWS: units and requests counted from real requests to DynamoDB in memory,
and the monthly bill at three loads with the prices assumed below. Prints a table and writes bench/results/cost.json."""

import asyncio
import json
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from shared.storage.dynamo_kv import DynamoKV
from shared.submissions.counters import roll_up_hours
from shared.worker_context import Env
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import memory_env, within
from tests.support.metered_dynamo import MeteredDynamo
from tests.support.route_calls import call

RESULTS = Path(__file__).parent / "results" / "cost.json"
LOADS = (1_000, 100_000, 1_000_000)  # published submissions a day
VIEWS_PER_SUBMISSION = 10
# us-east-1, on demand, arm64, in dollars; from AWS's public price lists as known in 2025. Change them here.
PRICES = {
    "write unit": 0.625e-6,
    "read unit": 0.125e-6,
    "Lambda request": 0.20e-6,
    "Lambda GB-second": 0.0000133334,
    "HTTP API request": 1.00e-6,
    "SQS request": 0.40e-6,
    "S3 PUT": 5.0e-6,
    "S3 GET": 0.4e-6,
    "log GB": 0.50,
}
MEMORY_GB = 1.0
# Assumed beside what is counted: a submission makes 4 SQS requests, 4 PUTs and 2 GETs, and 3 KB of logs.
ASSUMED = {"SQS request": 4, "S3 PUT": 4, "S3 GET": 2, "log GB": 3e-6}


def metered_env() -> tuple[Env, MeteredDynamo]:
    dynamo = MeteredDynamo()
    return memory_env(kv_type=lambda now: DynamoKV(dynamo, "t", now)), dynamo  # type: ignore[arg-type, return-value]


async def cost_of_submission(env: Env, dynamo: MeteredDynamo) -> dict[str, Any]:
    """From an accepted upload to PUBLISHED, of a new skill with a small SKILL.md."""
    dynamo.forget()
    began = time.process_time()
    submission = await submitted(env, a_bundle())
    await processed(env, submission)
    return _figures(dynamo, time.process_time() - began, dynamo.writes_by_family)


async def cost_of_view(env: Env, dynamo: MeteredDynamo, path: str = "/queue") -> dict[str, Any]:
    dynamo.forget()
    began = time.process_time()
    await call(env, f"GET {path}")
    return _figures(dynamo, time.process_time() - began, dynamo.reads_by_family)


async def measure() -> dict[str, Any]:
    env, dynamo = metered_env()
    submission = await cost_of_submission(env, dynamo)
    env.clock.time = env.clock.time.replace(minute=30) + timedelta(hours=3)
    await within(env, partial(roll_up_hours, env.clock()))
    return {"submission": submission, "queue view": await cost_of_view(env, dynamo)}


def monthly_bill(costs: dict[str, Any], per_day: int) -> dict[str, float]:
    """In dollars for 30 days, with ten views for each submission. Without data at rest, transfer, WAF and the judge."""
    submission, view = costs["submission"], costs["queue view"]
    amounts = {
        "write unit": submission["write units"] + VIEWS_PER_SUBMISSION * view["write units"],
        "read unit": submission["read units"] + VIEWS_PER_SUBMISSION * view["read units"],
        "Lambda request": 2 + VIEWS_PER_SUBMISSION,
        "Lambda GB-second": MEMORY_GB * (submission["cpu ms"] + VIEWS_PER_SUBMISSION * view["cpu ms"]) / 1000,
        "HTTP API request": 1 + VIEWS_PER_SUBMISSION,
        **ASSUMED,
    }
    bill = {name: round(30 * per_day * amount * PRICES[name], 2) for name, amount in amounts.items()}
    return {**bill, "total": round(sum(bill.values()), 2)}


def _figures(dynamo: MeteredDynamo, seconds: float, families: dict[str, float]) -> dict[str, Any]:
    return {
        "write units": dynamo.written,
        "read units": dynamo.read,
        "requests": dict(dynamo.requests),
        "cpu ms": round(seconds * 1000, 1),
        "by family": dict(sorted(families.items(), key=lambda pair: -pair[1])),
    }


def main() -> None:
    costs = asyncio.run(measure())
    bills = {str(load): monthly_bill(costs, load) for load in LOADS}
    RESULTS.write_text(json.dumps({"costs": costs, "dollars a month": bills, "prices": PRICES}, indent=2) + "\n")
    for what, figures in costs.items():
        print(f"{what}: {figures}")
    for load, bill in bills.items():
        print(f"{int(load):>9,} a day: ${bill['total']:>10,.2f} a month  {bill}")


if __name__ == "__main__":
    main()
