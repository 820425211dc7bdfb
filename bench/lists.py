"""Lists, searches, details and counts among 100 records and among 10,000: the same requests, about the same CPU.

    make bench                                                    # or, to choose:
    PYTHONPATH=. .venv/bin/python -m bench.lists --records 2000 --repeat 20

Both stores are tables in ministack, a separate process. Each case runs over the wire first, which counts the requests
and measures the wall time. The wall time has no target: index queries of the emulator slow down as it fills, those of
DynamoDB do not. Then the same responses are replayed from memory, and the CPU time of the caller is measured: while it
waits for a busy emulator, its CPU caches go cold, and the same work takes a third more. Repetitions alternate between
the stores, so other load on the machine affects both equally: the ratio is the median of the pairwise ratios. The
milliseconds are the lower quartile; anything above it is other work on this machine.
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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from botocore.config import Config

from bench.list_records import env_of, skill_items, submission_items
from local.emulator import Emulator
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import get_skill_with_counts, get_versions
from shared.records.submissions import State
from shared.settings import load_settings
from shared.storage import aws, dynamo_kv
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.submissions.counters import get_totals
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.submissions.submission_search import search_submissions
from shared.submissions.submission_store import get_history, get_submission
from shared.worker_context import run_with_worker_env
from tests.support.aws_resources import client, create_resources

SMALL = 100
MAX_CPU_RATIO = 1.3
RESULT = Path(__file__).parent / "results" / "lists.json"
LIVE_RUNS = 3  # repetitions over the wire, for the wall time
WARM_UP = 5
WRITES_IN_FLIGHT = 2
BATCH_SIZE = 25  # the limit of DynamoDB


class Sample(NamedTuple):
    wall_ms: float
    cpu_ms: float
    requests: int
    rows: int


class CachedResponse(NamedTuple):
    """A response to be replayed: as much of it as the SDK reads."""

    status_code: int
    headers: Any
    body: bytes

    @property
    async def content(self) -> bytes:
        return self.body


class Store:
    """One table in the emulator, and a connection that counts its requests."""

    def __init__(self, endpoint: str, records: int) -> None:
        self.records = records
        settings = load_settings({**create_resources(endpoint)})
        self._aws = Aws(settings)
        self._seeder = client("dynamodb", endpoint)
        self._table = settings.table_name
        self.requests = 0
        self._cache: dict[tuple[str, bytes], CachedResponse] = {}
        self._is_caching = False
        started_at = datetime.now(UTC)  # fixed, so that repeated queries send the same request
        self.env = env_of(DynamoKV(self._counted, self._table), lambda: started_at)
        self.last_submission_id = ""

    async def connect(self) -> None:
        client = await self._aws._client("dynamodb")
        self._send = client._endpoint.http_session.send
        client.meta.events.register("before-send.dynamodb", self._send_cached)

    def cache_responses(self, enabled: bool) -> None:
        """Whether repeated requests are replayed from memory from now on."""
        self._is_caching = enabled
        self._cache.clear()

    async def _send_cached(self, request: Any, **_: Any) -> Any:
        request_key = (str(request.headers["X-Amz-Target"]), bytes(request.body))
        if request_key in self._cache:
            return self._cache[request_key]
        response = await self._send(request)
        if self._is_caching:
            self._cache[request_key] = CachedResponse(response.status_code, response.headers, await response.content)
        return response

    async def _counted(self, operation: str, params: Any) -> dict[str, Any]:
        self.requests += 1
        response: dict[str, Any] = await self._aws.call("dynamodb", operation, params)
        return response

    async def seed(self) -> None:
        await self._write(item for n in range(self.records) for item in skill_items(n))
        items, self.last_submission_id = await submission_items(self.records)
        await self._write(items)

    async def _write(self, items: Iterable[dict[str, Any]]) -> None:
        todo = iter(items)

        async def write_some() -> None:
            while some := list(islice(todo, BATCH_SIZE)):
                puts = [{"PutRequest": {"Item": item}} for item in some]
                response = await asyncio.to_thread(self._seeder.batch_write_item, RequestItems={self._table: puts})
                assert not response.get("UnprocessedItems")

        await asyncio.gather(*(write_some() for _ in range(WRITES_IN_FLIGHT)))

    async def close(self) -> None:
        await self._aws.close()


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
    requests = store.requests
    gc.collect()  # garbage of the previous case is not measured here
    wall, cpu = time.perf_counter(), time.process_time()
    rows = await run_with_worker_env(store.env, partial(case, store))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert rows, "nothing was found, so nothing was measured"
    return Sample(wall * 1000, cpu * 1000, store.requests - requests, rows)


class Samples(NamedTuple):
    """Samples of one case on one store: over the wire, and with replayed responses."""

    live: list[Sample]
    cached: list[Sample]


async def _measure(records: int, repeat: int) -> dict[tuple[str, int], Samples]:
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as directory:
        for folder in ("content", "tmp"):
            (Path(directory) / folder).mkdir()
        emulator = Emulator(Path(directory), interval=3600)
        await emulator.start()
        try:
            return await _measure_at(emulator.endpoint, records, repeat)
        finally:
            await emulator.stop()


async def _measure_at(endpoint: str, records: int, repeat: int) -> dict[tuple[str, int], Samples]:
    stores = [Store(endpoint, SMALL), Store(endpoint, records)]
    started = time.perf_counter()
    for store in stores:
        await store.connect()
        await store.seed()
    seconds = time.perf_counter() - started
    print(f"Seeded {SMALL} and {records} submissions and skills in {seconds:.0f} s.\n", flush=True)
    gc.collect()
    gc.freeze()  # garbage of the seeding is not measured
    samples = {}
    for name, case in CASES.items():
        for store in stores:
            store.cache_responses(False)
            await _sample(store, case)  # the first call connects and loads what it needs
            samples[name, store.records] = Samples([await _sample(store, case) for _ in range(LIVE_RUNS)], [])
            store.cache_responses(True)
            for _ in range(WARM_UP):
                await _sample(store, case)
        for _ in range(repeat):
            for store in stores:
                samples[name, store.records].cached.append(await _sample(store, case))
            stores.reverse()  # the first of a pair has colder caches
    for store in stores:
        await store.close()
    return samples


# --- the report -----------------------------------------------------------------------------------------------------


class Line(msgspec.Struct, rename="camel"):
    case: str
    requests_few: int
    requests_many: int
    cpu_few_ms: float
    cpu_many_ms: float
    cpu_ratio: float
    wall_few_ms: float
    wall_many_ms: float

    @property
    def is_met(self) -> bool:
        return self.requests_few == self.requests_many and self.cpu_ratio <= MAX_CPU_RATIO


def _line(name: str, few: Samples, many: Samples) -> Line:
    per_row = name.endswith("per row")
    cpus = [[s.cpu_ms / (s.rows if per_row else 1) for s in samples.cached] for samples in (few, many)]
    ratio = statistics.median(of_many / of_few for of_few, of_many in zip(*cpus, strict=True))
    cpu = map(_lower_quartile, cpus)
    wall = [statistics.median(s.wall_ms for s in samples.live) for samples in (few, many)]
    requests = [statistics.mode(s.requests for s in samples.live) for samples in (few, many)]
    return Line(name, *requests, *(round(c, 3) for c in cpu), round(ratio, 2), *(round(w, 1) for w in wall))


def _lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def main() -> int:
    options = _options()
    _raise_timeouts()
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    samples = asyncio.run(_measure(options.records, options.repeat))
    lines = [_line(name, samples[name, SMALL], samples[name, options.records]) for name in CASES]
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    _print(lines, options.records, machine)
    RESULT.parent.mkdir(exist_ok=True)
    report = {"few": SMALL, "many": options.records, "machine": machine, "rows": msgspec.to_builtins(lines)}
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(line.is_met for line in lines) else 1


def _raise_timeouts() -> None:
    """The emulator may take seconds to query a large table; such a request must not be retried."""
    aws._CONFIGS["dynamodb"] = aws._ONCE.merge(Config(connect_timeout=60, read_timeout=120))
    dynamo_kv.STORE_BUDGET = timedelta(minutes=10)


def _print(lines: list[Line], records: int, machine: dict[str, Any]) -> None:
    print(f"Load {machine['load']} on {machine['cores']} cores. Few: {SMALL} records, many: {records}.\n")
    columns = ("requests", "of many", "CPU ms", "of many", "ratio", "wall ms", "of many")
    print(f"{'':7}{'case':40}" + "".join(f"{column:>10}" for column in columns))
    for line in lines:
        numbers = [line.requests_few, line.requests_many, line.cpu_few_ms, line.cpu_many_ms, line.cpu_ratio]
        numbers += [line.wall_few_ms, line.wall_many_ms]
        verdict = "ok" if line.is_met else "MISSED"
        print(f"{verdict:7}{line.case:40}" + "".join(f"{number:>10}" for number in numbers))
    missed = sum(not line.is_met for line in lines)
    print(f"\nTarget: the same requests, at most {MAX_CPU_RATIO} times the CPU. MISSED: {missed} of {len(lines)}.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare lists of many records with lists of few.")
    parser.add_argument("--records", type=int, default=10_000, help="submissions, and as many skills")
    parser.add_argument("--repeat", type=int, default=100, help="repetitions")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
