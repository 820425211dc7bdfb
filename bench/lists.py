"""Lists, searches, details and counts among 100 records and among 10,000: the same requests, about the same CPU.

    make bench                                                    # or, to choose:
    PYTHONPATH=. .venv/bin/python -m bench.lists --records 2000 --repeat 20

Both stores are ministack, a process of its own. Each question is put over the wire first: that counts the requests and
takes the wall time, which is shown and which nothing is held to: the emulator's index queries take longer the more it
holds, as those of DynamoDB do not. Then the same answers are given again from memory, at the wire, and the CPU time of
the caller is taken: while it waits for a busy emulator, its caches go cold, and the same work takes a third more.
Repetitions alternate between the stores, so whatever else the machine does hits both of a pair alike: the ratio is the
median of those of the pairs. The milliseconds are the lower quartile: what is above it is other work on this machine.
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
from tests.support.resources import client, create_resources

FEW = 100
MOST_CPU = 1.3
RESULT = Path(__file__).parent / "results" / "lists.json"
LIVE = 3  # repetitions over the wire, for the wall time
WARM_UP = 5
WRITES_IN_FLIGHT = 2
PER_BATCH = 25  # DynamoDB takes no more


class Sample(NamedTuple):
    wall_ms: float
    cpu_ms: float
    requests: int
    rows: int


class Kept(NamedTuple):
    """An answer of the store, to be given again: as much of a response as the SDK looks at."""

    status_code: int
    headers: Any
    body: bytes

    @property
    async def content(self) -> bytes:
        return self.body


class Store:
    """One table in the emulator, and the wire to it that counts."""

    def __init__(self, endpoint: str, records: int) -> None:
        self.records = records
        settings = load_settings({**create_resources(endpoint)})
        self._aws = Aws(settings)
        self._patient = client("dynamodb", endpoint)
        self._table = settings.table_name
        self.requests = 0
        self._kept: dict[tuple[str, bytes], Kept] = {}
        self._is_kept = False
        asked_at = datetime.now(UTC)  # what depends on the time is to be the same question again
        self.env = env_of(DynamoKV(self._counted, self._table), lambda: asked_at)
        self.a_submission = ""

    async def connect(self) -> None:
        client = await self._aws._client("dynamodb")
        self._send = client._endpoint.http_session.send
        client.meta.events.register("before-send.dynamodb", self._answer)

    def keep(self, is_kept: bool) -> None:
        """From now on, whether answers come from memory once they were given."""
        self._is_kept = is_kept
        self._kept.clear()

    async def _answer(self, request: Any, **_: Any) -> Any:
        asked = (str(request.headers["X-Amz-Target"]), bytes(request.body))
        if asked in self._kept:
            return self._kept[asked]
        response = await self._send(request)
        if self._is_kept:
            self._kept[asked] = Kept(response.status_code, response.headers, await response.content)
        return response

    async def _counted(self, operation: str, params: Any) -> dict[str, Any]:
        self.requests += 1
        answer: dict[str, Any] = await self._aws.call("dynamodb", operation, params)
        return answer

    async def seed(self) -> None:
        await self._write(item for n in range(self.records) for item in skill_items(n))
        items, self.a_submission = await submission_items(self.records)
        await self._write(items)

    async def _write(self, items: Iterable[dict[str, Any]]) -> None:
        todo = iter(items)

        async def write_some() -> None:
            while some := list(islice(todo, PER_BATCH)):
                puts = [{"PutRequest": {"Item": item}} for item in some]
                answer = await asyncio.to_thread(self._patient.batch_write_item, RequestItems={self._table: puts})
                assert not answer.get("UnprocessedItems")

        await asyncio.gather(*(write_some() for _ in range(WRITES_IN_FLIGHT)))

    async def close(self) -> None:
        await self._aws.close()


# --- what is asked --------------------------------------------------------------------------------------------------

Ask = Callable[[Store], Awaitable[int]]


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
    submission, history = await asyncio.gather(get_submission(store.a_submission), get_history(store.a_submission))
    return len(history) if submission else 0


async def _stats(store: Store) -> int:
    submissions, market = await get_totals()
    return 1 if submissions.total == market.skills == store.records else 0


async def _skills(store: Store, query: SkillQuery) -> int:
    return len((await list_skills(query)).skills)


async def _skill(store: Store) -> int:
    skill, _ = await get_skill_with_counts("owner00003/repo00033/skill-00033")
    return 1 + len(await get_versions(skill.name))


ASKED: dict[str, Ask] = {
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
    "search skills, a word that all have": partial(_skills, query=SkillQuery(q="skill")),
    "skill and its versions": _skill,
}


async def _sample(store: Store, ask: Ask) -> Sample:
    requests = store.requests
    gc.collect()  # what was asked before is not this one's work
    wall, cpu = time.perf_counter(), time.process_time()
    rows = await run_with_worker_env(store.env, partial(ask, store))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert rows, "nothing was found, so nothing was measured"
    return Sample(wall * 1000, cpu * 1000, store.requests - requests, rows)


class Taken(NamedTuple):
    """Of one question to one store: over the wire, and with the answers from memory."""

    live: list[Sample]
    again: list[Sample]


async def _measure(records: int, repeat: int) -> dict[tuple[str, int], Taken]:
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as directory:
        for folder in ("content", "tmp"):
            (Path(directory) / folder).mkdir()
        emulator = Emulator(Path(directory), interval=3600)
        await emulator.start()
        try:
            return await _measure_at(emulator.endpoint, records, repeat)
        finally:
            await emulator.stop()


async def _measure_at(endpoint: str, records: int, repeat: int) -> dict[tuple[str, int], Taken]:
    stores = [Store(endpoint, FEW), Store(endpoint, records)]
    started = time.perf_counter()
    for store in stores:
        await store.connect()
        await store.seed()
    print(f"Seeded {FEW} and {records} submissions and skills in {time.perf_counter() - started:.0f} s.\n", flush=True)
    gc.collect()
    gc.freeze()  # what the seeding left is nobody's work
    taken = {}
    for name, ask in ASKED.items():
        for store in stores:
            store.keep(False)
            await _sample(store, ask)  # the first call connects and loads what it needs
            taken[name, store.records] = Taken([await _sample(store, ask) for _ in range(LIVE)], [])
            store.keep(True)
            for _ in range(WARM_UP):
                await _sample(store, ask)
        for _ in range(repeat):
            for store in stores:
                taken[name, store.records].again.append(await _sample(store, ask))
            stores.reverse()  # whoever comes first meets colder caches
    for store in stores:
        await store.close()
    return taken


# --- the report -----------------------------------------------------------------------------------------------------


class Line(msgspec.Struct, rename="camel"):
    asked: str
    requests_few: int
    requests_many: int
    cpu_few_ms: float
    cpu_many_ms: float
    cpu_ratio: float
    wall_few_ms: float
    wall_many_ms: float

    @property
    def is_met(self) -> bool:
        return self.requests_few == self.requests_many and self.cpu_ratio <= MOST_CPU


def _line(name: str, few: Taken, many: Taken) -> Line:
    per_row = name.endswith("per row")
    cpus = [[s.cpu_ms / (s.rows if per_row else 1) for s in taken.again] for taken in (few, many)]
    ratio = statistics.median(of_many / of_few for of_few, of_many in zip(*cpus, strict=True))
    cpu = map(_lower_quartile, cpus)
    wall = [statistics.median(s.wall_ms for s in taken.live) for taken in (few, many)]
    requests = [statistics.mode(s.requests for s in taken.live) for taken in (few, many)]
    return Line(name, *requests, *(round(c, 3) for c in cpu), round(ratio, 2), *(round(w, 1) for w in wall))


def _lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def main() -> int:
    options = _options()
    _be_patient()
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    taken = asyncio.run(_measure(options.records, options.repeat))
    lines = [_line(name, taken[name, FEW], taken[name, options.records]) for name in ASKED]
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    _print(lines, options.records, machine)
    RESULT.parent.mkdir(exist_ok=True)
    report = {"few": FEW, "many": options.records, "machine": machine, "rows": msgspec.to_builtins(lines)}
    RESULT.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(line.is_met for line in lines) else 1


def _be_patient() -> None:
    """The emulator may take seconds for a query of a large table, and nothing is to be asked twice for that."""
    aws._CONFIGS["dynamodb"] = aws._ONCE.merge(Config(connect_timeout=60, read_timeout=120))
    dynamo_kv.STORE_BUDGET = timedelta(minutes=10)


def _print(lines: list[Line], records: int, machine: dict[str, Any]) -> None:
    print(f"Load {machine['load']} on {machine['cores']} cores. Few: {FEW} records, many: {records}.\n")
    columns = ("requests", "of many", "CPU ms", "of many", "ratio", "wall ms", "of many")
    print(f"{'':7}{'asked':40}" + "".join(f"{column:>10}" for column in columns))
    for line in lines:
        numbers = [line.requests_few, line.requests_many, line.cpu_few_ms, line.cpu_many_ms, line.cpu_ratio]
        numbers += [line.wall_few_ms, line.wall_many_ms]
        verdict = "ok" if line.is_met else "MISSED"
        print(f"{verdict:7}{line.asked:40}" + "".join(f"{number:>10}" for number in numbers))
    missed = sum(not line.is_met for line in lines)
    print(f"\nHeld to: the same requests, at most {MOST_CPU} times the CPU. MISSED: {missed} of {len(lines)}.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare lists of many records with lists of few.")
    parser.add_argument("--records", type=int, default=10_000, help="submissions, and as many skills")
    parser.add_argument("--repeat", type=int, default=100, help="repetitions")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
