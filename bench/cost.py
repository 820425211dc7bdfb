"""What one submission and one view cost on AWS: units and requests counted from real requests to DynamoDB in memory,
and the monthly bill at three loads with the prices assumed below. Prints a table and writes bench/results/cost.json.
Skills of a repository are read from a GitHub on loopback."""

import asyncio
import json
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shared.storage.documents import encode, stamp
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Put
from shared.submissions.counters import roll_up_hours
from shared.submissions.feed_store import feed_put
from shared.submissions.intake import submit_repo
from shared.submissions.submission_store import submission_key
from shared.worker_context import Env
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import memory_env, within
from tests.support.metered_dynamo import MeteredDynamo
from tests.support.route_calls import call
from tests.support.stub_github import StubGitHub

RESULTS = Path(__file__).parent / "results" / "cost.json"
LOADS = (1_000, 100_000, 1_000_000)  # published submissions a day
VIEWS_PER_SUBMISSION = 10
VIEWS = ("/queue", "/", "/skills", "/api/v1/queue/health")
CHANGES = "/api/v1/submissions/events"  # what an open page asks
UPDATE, CHANGED = "/queue?changed=…", 10  # what it asks then, for at most so many rows
RECENT_MOVES = (0, 100, 10_000)
NAMES = ("pdf-forms", "pdf-merge")
REPO = "https://github.com/acme/skills"
SKILL_MD = "---\nname: {name}\ndescription: Fills forms of {name}.\n---\n\n# Help\n\nRead it, then sum up {name}.\n"
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
# Lambda is charged for waiting too, assumed as 5 ms for DynamoDB and SQS and 25 ms for S3, one after the other: a
# submission waits for 15 and 10 requests, a view for three round trips.
WAITING_MS = {"submission": 15 * 5 + 10 * 25, "view": 3 * 5}
# Assumed beside what is counted: a submission makes 4 SQS requests, 6 PUTs and 4 GETs, and 3 KB of logs.
ASSUMED = {"SQS request": 4, "S3 PUT": 6, "S3 GET": 4, "log GB": 3e-6}


def metered_env(**settings: Any) -> tuple[Env, MeteredDynamo]:
    dynamo = MeteredDynamo()
    return memory_env(kv_type=lambda now: DynamoKV(dynamo, "t", now), **settings), dynamo  # type: ignore[arg-type, return-value]


async def cost_of_submission(env: Env, dynamo: MeteredDynamo) -> dict[str, Any]:
    """From an accepted upload to PUBLISHED, of a new skill with a small SKILL.md."""
    dynamo.forget()
    began = time.process_time()
    submission = await submitted(env, a_bundle())
    await processed(env, submission)
    return _figures(dynamo, time.process_time() - began, dynamo.writes_by_family)


async def cost_of_view(env: Env, dynamo: MeteredDynamo, path: str, query: str = "") -> dict[str, Any]:
    dynamo.forget()
    began = time.process_time()
    response = await call(env, f"GET {path}", path + query)
    assert response.status == 200, response.text
    return _figures(dynamo, time.process_time() - began, dynamo.reads_by_family)


async def cost_of_repository() -> list[dict[str, Any]]:
    """The same of skills of a repository, the first one and the next."""
    with StubGitHub() as stub:
        stub.repo("acme/skills", {f"skills/{name}/SKILL.md": SKILL_MD.format(name=name) for name in NAMES})
        env, dynamo = metered_env(github_api_url=stub.url)
        costs = []
        for name in NAMES:
            dynamo.forget()
            began = time.process_time()
            accepted = await within(
                env, partial(submit_repo, f"{REPO}/tree/main/skills/{name}", None, None, None, None)
            )
            await processed(env, accepted.submission)
            costs.append(_figures(dynamo, time.process_time() - began, dynamo.writes_by_family))
        await env.github.close()
    return costs


async def measure() -> dict[str, Any]:
    await cost_of_submission(*metered_env())  # what is loaded with the first one is no cost of each
    env, dynamo = metered_env()
    submission = await cost_of_submission(env, dynamo)
    views = {moves: await cost_of_views(moves) for moves in RECENT_MOVES}
    first, following = await cost_of_repository()
    return {
        "submission": submission,
        **{f"view of {path}, {moves:,} moves": cost for moves, of in views.items() for path, cost in of.items()},
        "first skill of a repository": first,
        "next skill of it": following,
    }


async def cost_of_views(moves: int) -> dict[str, Any]:
    """After so many moves within the last two minutes, four of each submission."""
    env, dynamo = metered_env()
    first = await submitted(env, a_bundle())
    await processed(env, first)
    await move_on(env)
    at = env.clock()
    ids = [f"sub_{n:026d}" for n in range(moves // 4)]  # not random: they decide the shard, and so the units
    for n, each in enumerate(ids):
        one = msgspec.structs.replace(first, id=each)
        await env.kv.put(Put(submission_key(one.id), encode(one)))
        for version in range(4):
            moved = at - timedelta(seconds=(n + version) % 110)
            await env.kv.put(feed_put(msgspec.structs.replace(one, version=version + 1, updated_at=moved)))
    await call(env, "GET /queue")  # what is loaded with the first page
    costs = {path: await cost_of_view(env, dynamo, path) for path in VIEWS}
    since, changed = stamp(at - timedelta(seconds=10)), ",".join([first.id, *ids][:CHANGED])
    return {
        **costs,
        CHANGES: await cost_of_view(env, dynamo, CHANGES, f"?since={since}"),
        UPDATE: await cost_of_view(env, dynamo, "/queue", f"?changed={changed}"),
    }


async def move_on(env: Env) -> None:
    """Some hours later, when nothing is active and the hours are rolled up."""
    env.clock.time = env.clock.time.replace(minute=30) + timedelta(hours=3)
    await within(env, partial(roll_up_hours, env.clock()))


def monthly_bill(costs: dict[str, Any], per_day: int) -> dict[str, float]:
    """In dollars for 30 days, with ten views for each submission. Without data at rest, transfer, WAF and the judge."""
    submission, view = costs["submission"], costs["view of /queue, 0 moves"]
    amounts = {
        "write unit": submission["write units"] + VIEWS_PER_SUBMISSION * view["write units"],
        "read unit": submission["read units"] + VIEWS_PER_SUBMISSION * view["read units"],
        "Lambda request": 2 + VIEWS_PER_SUBMISSION,
        "Lambda GB-second": MEMORY_GB * _milliseconds(submission, view) / 1000,
        "HTTP API request": 1 + VIEWS_PER_SUBMISSION,
        **ASSUMED,
    }
    bill = {name: round(30 * per_day * amount * PRICES[name], 2) for name, amount in amounts.items()}
    return {**bill, "total": round(sum(bill.values()), 2)}


def _milliseconds(submission: dict[str, Any], view: dict[str, Any]) -> float:
    of_view: float = view["cpu ms"] + WAITING_MS["view"]
    return submission["cpu ms"] + WAITING_MS["submission"] + VIEWS_PER_SUBMISSION * of_view


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
