"""Reading N submissions of 1 KB: our readers and four others, against a stub DynamoDB with a fixed latency.

    make bench                                                    # or, to choose:
    PYTHONPATH=. .venv/bin/python bench/reads.py --latency 20 --repeat 15

The stub runs in a separate process, so the CPU time is that of the client alone. Repetitions are interleaved, so other
load on the machine affects every reader equally. Times are medians; `best` is the fastest run, the least disturbed one,
and the targets apply to it. Ratios carry over to other machines, milliseconds do not.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aioboto3
import aiohttp
import boto3
import orjson
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from bench.list_records import env_of
from shared.records.submissions import State, Submission, new_id
from shared.settings import Settings
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Key
from shared.submissions.submission_store import create, get_submissions_fresh, submission_key
from shared.worker_context import Env, run_with_worker_env
from tests.support.stub_dynamo import TABLE, StubDynamo

SIZES = (10, 100, 500, 1000, 5000)
RESULT = Path(__file__).parent / "results" / "reads.json"
REGION = "us-east-1"
PROJECTION = {
    "ProjectionExpression": "pk, sk, #d, #x",
    "ExpressionAttributeNames": {"#d": "doc", "#x": "expiresAt"},
    "ConsistentRead": True,
}

SEQUENTIAL = "boto3 get_item, one after another"
NATIVE = "aioboto3 batches, native maps"
JSON = "aioboto3 batches, JSON strings, json"
RAW = "raw aiohttp, SigV4, orjson"
GET_MANY = "get_many"
FRESH = "get_submissions_fresh"

# Maximum wall time in round trips by number of ids, and maximum CPU for 1,000 documents relative to two other readers.
MAX_ROUND_TRIPS = {10: 1.3, 100: 1.5, 500: 2.2, 1000: 3.0}
MAX_CPU_RATIO = {(GET_MANY, JSON): 0.6, (GET_MANY, RAW): 2.0, (FRESH, JSON): 0.75, (FRESH, RAW): 2.5}

Read = Callable[[list[str]], Awaitable[int]]


class Sample(NamedTuple):
    wall_ms: float
    cpu_ms: float
    requests: int


def main() -> int:
    options = _options()
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    with _stub_process(options.latency / 1000) as (url, ids):
        samples = asyncio.run(_measure(url, ids, options.repeat))
    report = _report(samples, options.latency)
    _print_table(report)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    return _check_targets(report)


# --- the documents --------------------------------------------------------------------------------------------------


async def _documents(count: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Submissions as the product stores them, and the same documents as native maps."""
    stored: list[dict[str, Any]] = []

    async def capture(_: str, params: Any) -> dict[str, Any]:
        stored.append(params["TransactItems"][0]["Put"]["Item"])
        return {}

    drafts = [_draft(n) for n in range(count)]
    env = _env(DynamoKV(capture, TABLE))
    for draft in drafts:
        await run_with_worker_env(env, partial(create, draft))
    return [draft.id for draft in drafts], stored + [_as_native_map(item) for item in stored]


def _draft(number: int) -> Submission:
    at = datetime.now(UTC)
    return Submission(
        id=new_id(at),
        source=f"https://github.com/someone/skills-{number}",
        skill_path=f"skills/skill-{number}",
        skill_name=f"someone/skills-{number}/skill-{number}",
        repo_url=f"https://github.com/Someone/skills-{number}",
        state=State.RECEIVED,
        created_at=at,
        updated_at=at,
        reason=f"attempt 1 of 3 failed: {'the source did not respond in time, ' * 15}{number}"[:560],
        content_hash=f"{number:064x}",
    )


def _as_native_map(item: dict[str, Any]) -> dict[str, Any]:
    document = TypeSerializer().serialize(json.loads(item["doc"]["S"]))
    return {**item, "pk": {"S": f"native:{item['pk']['S']}"}, "doc": document}


def _env(kv: DynamoKV) -> Env:
    return env_of(kv, lambda: datetime.now(UTC))


# --- the readers ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _readers(url: str) -> Any:
    """Each is well implemented: clients are created once, batches are sent concurrently, nothing is read twice."""
    plain = Config(max_pool_connections=50)
    where = {"region_name": REGION, "endpoint_url": url, "config": plain}
    aws = Aws(_settings(url))
    kv = DynamoKV(partial(aws.call, "dynamodb"), TABLE)
    blocking = boto3.client("dynamodb", **where)
    async with aioboto3.Session().client("dynamodb", **where) as client, aiohttp.ClientSession() as http:
        yield {
            SEQUENTIAL: partial(_one_by_one, blocking),
            NATIVE: partial(_native_maps, client),
            JSON: partial(_json_strings, client),
            RAW: partial(_raw, http, url),
            GET_MANY: partial(_get_many, kv),
            FRESH: partial(_fresh, _env(kv)),
        }
    blocking.close()
    await aws.close()


async def _one_by_one(client: Any, ids: list[str]) -> int:
    keys = [_wire_key(submission_key(id_)) for id_ in ids]
    responses = [client.get_item(TableName=TABLE, Key=key, **PROJECTION) for key in keys]
    return len([json.loads(response["Item"]["doc"]["S"]) for response in responses])


async def _native_maps(client: Any, ids: list[str]) -> int:
    keys = [Key(f"native:sub:{id_}") for id_ in ids]
    responses = await asyncio.gather(*(client.batch_get_item(RequestItems=batch) for batch in _batches(keys)))
    deserialize = TypeDeserializer().deserialize
    return len([deserialize(item["doc"]) for response in responses for item in response["Responses"][TABLE]])


async def _json_strings(client: Any, ids: list[str]) -> int:
    batches = _batches([submission_key(id_) for id_ in ids])
    responses = await asyncio.gather(*(client.batch_get_item(RequestItems=batch) for batch in batches))
    return len([json.loads(item["doc"]["S"]) for response in responses for item in response["Responses"][TABLE]])


async def _raw(http: aiohttp.ClientSession, url: str, ids: list[str]) -> int:
    batches = _batches([submission_key(id_) for id_ in ids])
    responses = await asyncio.gather(*(_signed_request(http, url, batch) for batch in batches))
    return len([orjson.loads(item["doc"]["S"]) for response in responses for item in response["Responses"][TABLE]])


async def _signed_request(http: aiohttp.ClientSession, url: str, batch: dict[str, Any]) -> Any:
    headers = {"X-Amz-Target": "DynamoDB_20120810.BatchGetItem", "Content-Type": "application/x-amz-json-1.0"}
    request = AWSRequest("POST", url + "/", headers, orjson.dumps({"RequestItems": batch}))
    SigV4Auth(Credentials("bench", "bench"), "dynamodb", REGION).add_auth(request)
    async with http.post(url, data=request.data, headers=dict(request.headers)) as response:
        return orjson.loads(await response.read())


async def _get_many(kv: DynamoKV, ids: list[str]) -> int:
    return len((await kv.get_many(map(submission_key, ids))).found)


async def _fresh(env: Env, ids: list[str]) -> int:
    return len((await run_with_worker_env(env, lambda: get_submissions_fresh(ids))).submissions)


def _batches(keys: list[Key]) -> list[dict[str, Any]]:
    wire = [_wire_key(key) for key in keys]
    return [{TABLE: {"Keys": wire[i : i + 100], **PROJECTION}} for i in range(0, len(wire), 100)]


def _wire_key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def _settings(url: str) -> Settings:
    return Settings("local", TABLE, "-", "-", "-", True, 1, REGION, url, None)


# --- the measurement ------------------------------------------------------------------------------------------------


@contextmanager
def _stub_process(latency: float) -> Iterator[tuple[str, list[str]]]:
    """The documents are created in that process too, so this one collects only the garbage of the readers."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve_stub, args=(there, latency), daemon=True)
    process.start()
    there.close()  # so that a crashed stub is an error here, not an endless wait
    try:
        yield here.recv()
    finally:
        with suppress(BrokenPipeError):
            here.send("stop")
        process.join()


def _serve_stub(pipe: Any, latency: float) -> None:
    async def serve() -> None:
        async with StubDynamo(latency) as stub:
            ids, items = await _documents(max(SIZES))
            stub.items = {Key(item["pk"]["S"], item["sk"]["S"]): item for item in items}
            gc.freeze()
            pipe.send((stub.url, ids))
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


async def _measure(url: str, ids: list[str], repeat: int) -> dict[tuple[str, int], list[Sample]]:
    samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    async with _readers(url) as readers, aiohttp.ClientSession() as control:
        for read in readers.values():  # the first call connects and loads what it needs
            await read(ids[:200])
        for size in SIZES:
            for _ in range(repeat):
                for name, read in readers.items():
                    if len(samples[name, size]) < _max_repeats(name, size, repeat):
                        samples[name, size].append(await _sample(control, url, read, ids[:size]))
    return samples


def _max_repeats(name: str, size: int, repeat: int) -> int:
    """Sequential reads take minutes and grow linearly, so they are measured less often, and not at all beyond 1,000."""
    if name != SEQUENTIAL or size <= 10:
        return repeat
    return 1 if size <= 1000 else 0


async def _sample(control: aiohttp.ClientSession, url: str, read: Read, ids: list[str]) -> Sample:
    before = await _requests_so_far(control, url)
    gc.collect()  # garbage of the previous reader is not measured here
    wall, cpu = time.perf_counter(), time.process_time()
    count = await read(ids)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert count == len(ids), f"{count} documents read instead of {len(ids)}"
    return Sample(wall * 1000, cpu * 1000, await _requests_so_far(control, url) - before)


async def _requests_so_far(control: aiohttp.ClientSession, url: str) -> int:
    async with control.get(f"{url}/requests") as response:
        return int(await response.text())


# --- the report -----------------------------------------------------------------------------------------------------


def _report(samples: dict[tuple[str, int], list[Sample]], latency_ms: float) -> dict[str, Any]:
    rows = [_row(name, size, measured, latency_ms) for (name, size), measured in samples.items() if measured]
    by_case = {(row["reader"], row["ids"]): row for row in rows}
    for row in rows:
        row["wallRatio"] = {name: _ratio(row, by_case.get((name, row["ids"])), "wallMs") for name in (JSON, RAW)}
        row["cpuRatio"] = {name: _ratio(row, by_case.get((name, row["ids"])), "cpuMs") for name in (JSON, RAW)}
    # Other load on the same cores stretches wall times without limit, CPU times and their ratios much less.
    busy = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    return {"latencyMs": latency_ms, "python": sys.version.split()[0], "machine": busy, "rows": rows}


def _row(name: str, size: int, measured: list[Sample], latency_ms: float) -> dict[str, Any]:
    wall = statistics.median(sample.wall_ms for sample in measured)
    best = min(sample.wall_ms for sample in measured)
    return {
        "reader": name,
        "ids": size,
        "runs": len(measured),
        "requests": measured[0].requests,
        "wallMs": round(wall, 2),
        "roundTrips": round(wall / latency_ms, 2),
        "bestRoundTrips": round(best / latency_ms, 2),
        "cpuMs": round(statistics.median(sample.cpu_ms for sample in measured), 2),
    }


def _ratio(row: dict[str, Any], other: dict[str, Any] | None, field: str) -> float | None:
    return None if other is None else round(row[field] / other[field], 2)


def _print_table(report: dict[str, Any]) -> None:
    machine = report["machine"]
    print(f"Reads of 1 KB documents, {report['latencyMs']} ms per request, Python {report['python']}")
    print(f"Load {machine['load']} on {machine['cores']} cores; a higher load distorts the wall times.\n")
    columns = ("ids", "requests", "wall ms", "trips", "best", "CPU ms", "CPU/json", "CPU/raw")
    print(f"{'reader':38}" + "".join(f"{column:>10}" for column in columns))
    for row in report["rows"]:
        numbers = [row[name] for name in ("ids", "requests", "wallMs", "roundTrips", "bestRoundTrips", "cpuMs")]
        numbers += [row["cpuRatio"][JSON], row["cpuRatio"][RAW]]
        print(f"{row['reader']:38}" + "".join(f"{number:>10}" for number in numbers))


def _check_targets(report: dict[str, Any]) -> int:
    by_case = {(row["reader"], row["ids"]): row for row in report["rows"]}
    checks = [
        (f"{FRESH}, {size} ids: round trips", by_case[FRESH, size]["bestRoundTrips"], most)
        for size, most in MAX_ROUND_TRIPS.items()
    ]
    checks += [
        (f"{ours}, 1000 ids: CPU / {other}", by_case[ours, 1000]["cpuRatio"][other], most)
        for (ours, other), most in MAX_CPU_RATIO.items()
    ]
    print()
    for what, value, most in checks:
        print(f"{'ok    ' if value <= most else 'MISSED'} {what}: {value} (at most {most})")
    return 0 if all(value <= most for _, value, most in checks) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time reads of many submissions.")
    parser.add_argument("--latency", type=float, default=20, help="milliseconds the stub takes per request")
    parser.add_argument("--repeat", type=int, default=15, help="repetitions; the numbers are their medians")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
