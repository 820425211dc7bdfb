"""Cold starts through the real Lambda runtime client: CPU time until the handler is loaded, and of the first request.

    python -m bench.cold_start [--repeat 7]      prints a table, writes bench/results/cold_start.json

Every start is a fresh process. The functions and two naive ones (Powertools with boto3, Powertools with aioboto3, each
with a route that reads one item) take turns in one run, so that other load affects all alike. The best of the
repetitions counts. Ratios carry over to other machines, milliseconds do not. `no .pyc` compiles every module.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from local.worker import Worker
from shared import runtime
from shared.access.auth import sha256_of
from shared.access.owners import new_token, token_put
from shared.db import get_kv
from shared.records.owners import Owner
from shared.worker_context import run_with_worker_env
from tests.support.aws_resources import create_resources
from tests.support.gateway_events import an_http_event
from tests.support.moto_server import moto_server
from tests.support.signed_requests import CLAIM, signed_body, signed_headers

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "cold_start.json"
NAIVE, NAIVE_BOTO3 = "naive aioboto3", "naive boto3"
NAIVE_CODE = {
    NAIVE_BOTO3: """
import os
import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

logger, metrics, app = Logger(service="naive"), Metrics(namespace="naive", service="naive"), APIGatewayHttpResolver()
table = boto3.client("dynamodb", endpoint_url=os.environ["AWS_ENDPOINT_URL"])

@app.get("/items")
def items():
    return table.get_item(TableName=os.environ["TABLE_NAME"], Key={"pk": {"S": "a"}, "sk": {"S": "a"}}).get("Item", {})

def handler(event, context):
    return app.resolve(event, context)
""",
    NAIVE: """
import asyncio, os
import aioboto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

logger, metrics, app = Logger(service="naive"), Metrics(namespace="naive", service="naive"), APIGatewayHttpResolver()
loop = asyncio.new_event_loop()
session = aioboto3.Session()

async def read():
    async with session.client("dynamodb", endpoint_url=os.environ["AWS_ENDPOINT_URL"]) as table:
        return await table.get_item(TableName=os.environ["TABLE_NAME"], Key={"pk": {"S": "a"}, "sk": {"S": "a"}})

@app.get("/items")
def items():
    return loop.run_until_complete(read()).get("Item", {})

def handler(event, context):
    return app.resolve(event, context)
""",
}
NAIVE_EVENT = an_http_event("GET /items")
NAIVE_EVENT["requestContext"]["stage"] = "$default"
SCHEDULE = {"source": "aws.events", "detail-type": "Scheduled Event"}
MESSAGE = {
    "messageId": "m",
    "eventSource": "aws:sqs",
    "receiptHandle": "r",
    "body": json.dumps({"schema": 1, "id": "sub_01kdyak3sekvt0nrzh632vfn3z"}),
    "attributes": {"ApproximateReceiveCount": "1"},
}
ADMIN_TOKEN, SCANNER, SCANNER_SECRET = "an-admin-token", "bandit", "w" * 64
EVENTS: dict[str, dict[str, Any]] = {
    "submissions_api": an_http_event("GET /api/v1/submissions"),
    "skills_api": an_http_event("GET /api/v1/skills"),
    "registry": an_http_event("GET /api/search", query="q=pdf"),
    "admin_api": an_http_event("GET /api/v1/admin/stuck", headers={"authorization": f"Bearer {ADMIN_TOKEN}"}),
    "webhooks": an_http_event(f"POST {CLAIM}", raw=signed_body().decode()),
    "pages": an_http_event("GET /queue"),
    "admin_pages": an_http_event("GET /admin"),
    "owner_api": an_http_event("GET /api/v1/owner/tokens"),
    "owner_pages": an_http_event("GET /owner"),
    "consumer": {"Records": [MESSAGE]},
    "dead_letters": {"Records": [MESSAGE]},
    "stuck_scan": SCHEDULE,
    "rescan": SCHEDULE,
    "sweep": SCHEDULE,
    "notifications": SCHEDULE,  # what starts it cold: its schedule comes before its messages
}
TARGETS = {
    **dict.fromkeys(("submissions_api", "skills_api", "registry", "owner_api", "admin_api", "webhooks"), 0.6),
    "consumer": 0.75,
}


class Start(NamedTuple):
    """CPU seconds."""

    init: float
    first: float

    @property
    def total(self) -> float:
        return self.init + self.first


def main() -> None:
    options = _options()
    load = os.getloadavg()[0]
    with moto_server() as url, tempfile.TemporaryDirectory() as folder:
        environment = _environment(url, Path(folder))
        os.environ.update(environment)
        store_owner_token()
        results = {
            kind: _as_figures(asyncio.run(measure(options.repeat, Path(folder), {**environment, **extra})))
            for kind, extra in (("with .pyc", {}), ("no .pyc", _uncompiled(Path(folder))))
        }
    missed = [line for kind in results for line in _report(kind, results[kind])]
    about = {"loadBefore": load, "python": sys.version.split()[0], "repeat": options.repeat, "targets": TARGETS}
    RESULT.write_text(json.dumps({**about, "starts": results}, indent=1) + "\n")
    print(f"\nload before {load:.1f}; {len(missed)} targets missed" + "".join(f"\n  {line}" for line in missed))
    sys.exit(bool(missed))


async def measure(repeat: int, folder: Path, environment: dict[str, str]) -> dict[str, Start]:
    best: dict[str, Start] = {}
    for _ in range(repeat):
        for name in (NAIVE, *EVENTS, NAIVE_BOTO3):
            start = await _start(name, folder, environment)
            best[name] = min(best.get(name, start), start, key=lambda one: one.total)
    return best


async def _start(name: str, folder: Path, environment: dict[str, str]) -> Start:
    module = name.replace(" ", "_") if name in NAIVE_CODE else f"functions.{name}"
    event = NAIVE_EVENT if name in NAIVE_CODE else _as_of_now(EVENTS[name])
    output: list[str] = []
    worker = Worker(
        f"arn:aws:lambda:us-east-1:0:function:{module}", timedelta(seconds=60), output.append, lambda _: None
    )
    await worker.start(f"{module}.handler", environment, folder)
    try:
        failed = await worker.started()
        init = _cpu_seconds(worker.pid)
        outcome = failed or await worker.invoke(json.dumps(event).encode())
        if outcome.failure or not _is_success(json.loads(outcome.response or b"{}")):
            raise RuntimeError(f"{name}: {outcome.failure or outcome.response}\n" + "\n".join(output))
        return Start(init, _cpu_seconds(worker.pid) - init)
    finally:
        worker.kill()
        await worker.stop()


def _as_of_now(event: dict[str, Any]) -> dict[str, Any]:
    """A signature of an external scanner is valid for minutes."""
    if event.get("rawPath") != CLAIM:
        return event
    signed = signed_headers(CLAIM, event["body"].encode(), time.time(), SCANNER, SCANNER_SECRET)
    return {**event, "headers": {**event["headers"], **signed}}


def _is_success(response: Any) -> bool:
    """Of a page, an API route or a schedule: an error is answered by less code."""
    return not isinstance(response, dict) or response.get("statusCode", 200) < 300


def _cpu_seconds(pid: int) -> float:
    """Of all its threads, in nanoseconds: the figures in `stat` have steps of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _environment(url: str, folder: Path) -> dict[str, str]:
    for name, code in NAIVE_CODE.items():
        (folder / f"{name.replace(' ', '_')}.py").write_text(code)
    keys = {
        "SECRETS_FILE": {
            "signingKey": "k" * 64,
            "adminTokens": [{"name": "bench", "role": "admin", "sha256": sha256_of(ADMIN_TOKEN)}],
            "webhookSecrets": {SCANNER: SCANNER_SECRET},
        },
        "SESSION_SECRET_FILE": {"sessionKey": "s" * 64},
        "OWNER_SESSION_SECRET_FILE": {"sessionKey": "o" * 64},
    }
    for name, content in keys.items():
        (folder / name).write_text(json.dumps(content))
    return {
        **create_resources(url),
        **{name: str(folder / name) for name in keys},
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{folder}",
        "POWERTOOLS_SERVICE_NAME": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_LAMBDA_FUNCTION_NAME": "bench",
        "EXTERNAL_SCANNERS": SCANNER,
    }


def store_owner_token() -> None:
    """A token of an owner, as a proof would have stored it, for the request of `owner_api`."""
    issued = new_token(Owner("acme/skills", 1000), "bench")

    async def store() -> None:
        await get_kv().put(token_put(issued.token))

    runtime.run(lambda: run_with_worker_env(runtime.worker_env(), store), timedelta(seconds=10))
    runtime.close()
    EVENTS["owner_api"]["headers"]["authorization"] = f"Bearer {issued.secret}"


def _uncompiled(folder: Path) -> dict[str, str]:
    return {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(folder / uuid.uuid4().hex)}


def _as_figures(starts: dict[str, Start]) -> dict[str, dict[str, float]]:
    """Milliseconds of CPU time, and the ratio to the naive function that all targets are about."""
    baseline = starts[NAIVE].total
    return {
        name: {
            "initMs": round(start.init * 1000, 1),
            "firstMs": round(start.first * 1000, 1),
            "ratio": round(start.total / baseline, 3),
        }
        for name, start in starts.items()
    }


def _report(kind: str, figures: dict[str, dict[str, float]]) -> list[str]:
    """Prints a table and returns what missed its target."""
    print(f"\n{kind:<18}{'init ms':>9}{'first ms':>9}{'ratio':>7}{'target':>8}")
    missed = []
    for name, one in figures.items():
        target = target_of(name)
        print(f"{name:<18}{one['initMs']:>9.0f}{one['firstMs']:>9.0f}{one['ratio']:>7.2f}{target or '':>8}")
        if target and one["ratio"] > target:
            missed.append(f"{name} {kind}: {one['ratio']:.2f}, not {target}")
    return missed


def target_of(name: str) -> float | None:
    """The naive functions have none."""
    return TARGETS.get(name, 1.0) if name in EVENTS else None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
