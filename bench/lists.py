"""Lists, searches, details and counts among 100 records, 10,000 and 100,000: the same requests, about the same time.

    make bench                                                    # or, to choose:
    PYTHONPATH=. .venv/bin/python -m bench.lists --records 2000 --repeat 20

The records are in the store of one machine (local/store), a separate process, in one table per size. Each case runs
over the wire first, which counts the requests and measures the wall time. Then the same responses are replayed from
memory, and the CPU time of the caller is measured: while it waits for a busy store, its CPU caches go cold, and the
same work takes a third more. Repetitions alternate between the tables, so other load affects all equally, and ratios
are medians of pairwise ratios. The milliseconds are the lower quartile; anything above it is other work.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from bench.list_records import env_of, skill_items, submission_items
from local.store.database import Database
from local.store.tables import Table
from local.store_process import StoreProcess
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import get_skill_with_counts, get_versions
from shared.records.submissions import State
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.http_client import Response
from shared.submissions.counters import get_totals
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.submissions.submission_search import search_submissions
from shared.submissions.submission_store import get_history, get_submission
from shared.worker_context import run_with_worker_env
from tests.support.aws_resources import CREDENTIALS, resource

SMALL = 100
MANY = (10_000, 100_000)
MAX_CPU_RATIO = 1.3
MAX_WALL_RATIO = {"search": 3.0}  # of its kind; lists and details 2.0
RESULT = Path(__file__).parent / "results" / "lists.json"
LIVE_RUNS = 15  # repetitions over the wire, for the wall time
WARM_UP = 5


class Sample(NamedTuple):
    wall_ms: float
    cpu_ms: float
    requests: int
    rows: int


class ReplayingAws(Aws):
    """Counts requests, and answers repeated ones from memory while told to."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.requests = 0
        self.cache: dict[bytes, Response] | None = None

    async def _send(self, service: str, origin: str, method: str, path: str, headers: Any, body: bytes) -> Response:
        self.requests += 1
        request = headers["x-amz-target"].encode() + body
        if self.cache is not None and request in self.cache:
            return self.cache[request]
        response = await super()._send(service, origin, method, path, headers, body)
        if self.cache is not None:
            self.cache[request] = response
        return response


class Store:
    """One table in the store."""

    def __init__(self, endpoint: str, records: int, last_submission_id: str) -> None:
        self.records, self.last_submission_id = records, last_submission_id
        names = {"TABLE_NAME": table_name(records), "BUCKET_NAME": "-", "QUEUE_URL": "-", "SECRET_ID": "-"}
        about = {"STAGE": "local", "ALLOW_UPLOADS": "true", "MAX_ACTIVE": "1", "AWS_ENDPOINT_URL": endpoint}
        self.aws = ReplayingAws(load_settings({**CREDENTIALS, **names, **about}))
        started_at = datetime.now(UTC)  # fixed, so that repeated queries send the same request
        self.env = env_of(DynamoKV(partial(self.aws.call, "dynamodb"), table_name(records)), lambda: started_at)

    def replay(self, enabled: bool) -> None:
        """Whether repeated requests are answered from memory from now on."""
        self.aws.cache = {} if enabled else None


def table_name(records: int) -> str:
    return f"records-{records}"


async def seed(database: Database, records: int) -> str:
    """Written straight into the file: over the wire it would take longer than all that is measured."""
    wanted = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
    definition = {"TableName": table_name(records), **{name: resource("Table")[name] for name in wanted}}
    items, last = await submission_items(records)

    def write(connection: Any) -> None:
        values = (definition["TableName"], orjson.dumps(definition).decode())
        number = connection.execute("INSERT INTO tables (name, definition) VALUES (?, ?)", values).lastrowid
        table = Table(number, definition)
        for n in range(records):
            for item in skill_items(n):
                table.put(connection, table.keys.key_of(item), item, None)
        for item in items:
            table.put(connection, table.keys.key_of(item), item, None)

    await database.write(write)
    return last


# --- the cases ------------------------------------------------------------------------------------------------------

Case = Callable[[Store], Awaitable[int]]


async def _list_of_500(store: Store) -> int:
    return len((await list_submissions(ListQuery(limit=500))).rows)


async def _list_of_50(store: Store) -> int:
    return len((await list_submissions(ListQuery(limit=50))).rows)


async def _published(store: Store) -> int:
    query = ListQuery(states=(State.PUBLISHED,), by_update=True, limit=50)
    return len((await list_submissions(query)).rows)


async def _search_submissions(store: Store) -> int:
    return len((await search_submissions("owner00003", 50)).rows)


async def _search_within_a_state(store: Store) -> int:
    return len((await search_submissions("owner00003", 50, states=(State.PUBLISHED,))).rows)


async def _submission(store: Store) -> int:
    submission_id = store.last_submission_id
    submission, history = await asyncio.gather(get_submission(submission_id), get_history(submission_id))
    return len(history) if submission else 0


async def _stats(store: Store) -> int:
    submissions, market = await get_totals()
    return 1 if submissions.total == market.skills == store.records else 0


async def _skills(store: Store, query: SkillQuery) -> int:
    return len((await list_skills(query)).skills)


async def _skill(store: Store) -> int:
    skill, _ = await get_skill_with_counts("owner00003/repo00033/skill-00033")
    return 1 + len(await get_versions(skill.name))


CASES: dict[str, Case] = {
    "list of 500 submissions, per row": _list_of_500,
    "list of 50 submissions": _list_of_50,
    "list of 50 by state": _published,
    "search submissions": _search_submissions,
    "search submissions within a state": _search_within_a_state,
    "submission and its history": _submission,
    "stats": _stats,
    "list of 50 skills": partial(_skills, query=SkillQuery()),
    "list of 50 skills by installs": partial(_skills, query=SkillQuery(sort="installs")),
    "list of 50 skills of a category": partial(_skills, query=SkillQuery(category="other")),
    "skills of a category by installs": partial(_skills, query=SkillQuery(category="other", sort="installs")),
    "search skills": partial(_skills, query=SkillQuery(q="rare00003 owner00003")),
    "search skills, a word in all of them": partial(_skills, query=SkillQuery(q="skill")),
    "skill and its versions": _skill,
}


async def _sample(store: Store, case: Case) -> Sample:
    requests = store.aws.requests
    gc.collect()  # garbage of the previous case is not measured here
    wall, cpu = time.perf_counter(), time.process_time()
    rows = await run_with_worker_env(store.env, partial(case, store))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert rows, "nothing was found, so nothing was measured"
    return Sample(wall * 1000, cpu * 1000, store.aws.requests - requests, rows)


class Samples(NamedTuple):
    """Samples of one case on one store: over the wire, and with replayed responses."""

    live: list[Sample]
    cached: list[Sample]


async def _measure(sizes: Sequence[int], repeat: int) -> tuple[dict[tuple[str, int], Samples], dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as folder:
        started = time.perf_counter()
        file = Path(folder) / "platform.db"
        database = Database(file)
        last = {records: await seed(database, records) for records in sizes}
        database.close()
        print(f"Seeded {', '.join(map(str, sizes))} in {time.perf_counter() - started:.0f} s.\n", flush=True)
        process = StoreProcess(Path(folder))
        await process.start()
        try:
            stores = [Store(process.endpoint, records, last[records]) for records in sizes]
            samples = await _measure_all(stores, repeat)
            return samples, {"memoryMb": _memory_mb(process.pid), "fileMb": round(file.stat().st_size / 1e6)}
        finally:
            await process.stop()


def _memory_mb(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return round(int(line.split()[1]) / 1000)


async def _measure_all(stores: list[Store], repeat: int) -> dict[tuple[str, int], Samples]:
    gc.collect()
    gc.freeze()  # garbage of the seeding is not measured
    samples: dict[tuple[str, int], Samples] = {}
    for name, case in CASES.items():
        for store in stores:
            samples[name, store.records] = Samples([], [])
            store.replay(False)
            await _sample(store, case)  # the first call connects and loads what it needs
        for _ in range(LIVE_RUNS):
            for store in stores:
                samples[name, store.records].live.append(await _sample(store, case))
            stores = [*stores[1:], stores[0]]  # the first has colder caches
        for store in stores:
            store.replay(True)
            for _ in range(WARM_UP):
                await _sample(store, case)
        for _ in range(repeat):
            for store in stores:
                samples[name, store.records].cached.append(await _sample(store, case))
            stores = [*stores[1:], stores[0]]
    for store in stores:
        await store.aws.close()
    return samples


# --- the report -----------------------------------------------------------------------------------------------------


class Line(msgspec.Struct, rename="camel"):
    case: str
    records: int
    requests_few: int
    requests_many: int
    cpu_few_ms: float
    cpu_many_ms: float
    cpu_ratio: float
    wall_few_ms: float
    wall_many_ms: float
    wall_ratio: float

    @property
    def is_met(self) -> bool:
        most = next((limit for word, limit in MAX_WALL_RATIO.items() if word in self.case), 2.0)
        return self.requests_few == self.requests_many and self.cpu_ratio <= MAX_CPU_RATIO and self.wall_ratio <= most


def _line(name: str, records: int, few: Samples, many: Samples) -> Line:
    per_row = name.endswith("per row")
    cpus = [[s.cpu_ms / (s.rows if per_row else 1) for s in samples.cached] for samples in (few, many)]
    walls = [[s.wall_ms / (s.rows if per_row else 1) for s in samples.live] for samples in (few, many)]
    requests = [statistics.mode(s.requests for s in samples.live) for samples in (few, many)]
    cpu, wall = ([round(_lower_quartile(values), 3) for values in kind] for kind in (cpus, walls))
    return Line(name, records, *requests, *cpu, _ratio(cpus), *wall, _ratio(walls))


def _ratio(pairs: Sequence[Sequence[float]]) -> float:
    return round(statistics.median(of_many / of_few for of_few, of_many in zip(*pairs, strict=True)), 2)


def _lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def main() -> int:
    options = _options()
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    samples, size = asyncio.run(_measure([SMALL, *options.records], options.repeat))
    lines = [_line(name, many, samples[name, SMALL], samples[name, many]) for many in options.records for name in CASES]
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    _print(lines, size, machine)
    RESULT.parent.mkdir(exist_ok=True)
    report = {"few": SMALL, "machine": machine, "store": size, "rows": msgspec.to_builtins(lines)}
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(line.is_met for line in lines) else 1


def _print(lines: list[Line], size: dict[str, Any], machine: dict[str, Any]) -> None:
    print(f"Load {machine['load']} on {machine['cores']} cores. The store: {size}. Few: {SMALL} records.\n")
    columns = ("many", "requests", "of many", "CPU ms", "of many", "ratio", "wall ms", "of many", "ratio")
    print(f"{'':7}{'case':38}" + "".join(f"{column:>9}" for column in columns))
    for line in lines:
        _, *numbers = msgspec.structs.astuple(line)
        print(f"{'ok' if line.is_met else 'MISSED':7}{line.case:38}" + "".join(f"{n:>9}" for n in numbers))
    missed = sum(not line.is_met for line in lines)
    print(f"\nTarget: the same requests, at most {MAX_CPU_RATIO} times the CPU and 2 times the wall time (searches 3).")
    print(f"MISSED: {missed} of {len(lines)}.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare lists of many records with lists of few.")
    parser.add_argument("--records", type=int, nargs="+", default=MANY, help="submissions, and as many skills")
    parser.add_argument("--repeat", type=int, default=100, help="repetitions")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
