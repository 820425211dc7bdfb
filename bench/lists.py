"""Lists, searches, details and counts among 100 records and among 10,000: the same requests, about the same CPU.

    make bench                                                    # or, to choose:
    PYTHONPATH=. .venv/bin/python -m bench.lists --records 2000 --repeat 9

Both stores are ministack, a process of its own, so the CPU time is the caller's alone. Its index queries take longer
the more it holds, as those of DynamoDB do not: wall time is shown, nothing is held to it. Requests are counted at the
wire. Repetitions alternate between the stores, so whatever else the machine does hits both alike; CPU times are those
of the best run, the one that a busy machine disturbed least, wall times are medians.
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
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from botocore.config import Config

from local.emulator import Emulator
from shared import aws, dynamo_kv
from shared.aws import Aws
from shared.dynamo_kv import DynamoKV
from shared.kv import Put
from shared.settings import load_settings
from shared.skill_search import SkillQuery, list_skills
from shared.skill_store import get_skill_with_counts, get_versions
from shared.stats import COUNTER_SHARDS, get_stats
from shared.submission_list import ListQuery, list_submissions
from shared.submission_search import search_submissions
from shared.submission_store import create, get_history, get_submission
from shared.submissions import State, Submission, new_id
from shared.worker_context import Env, run_with_worker_env
from tests.support.catalogue import a_skill, puts_of
from tests.support.resources import client, create_resources

FEW = 100
MOST_CPU = 1.3
RESULT = Path(__file__).parent / "results" / "lists.json"
LONG_AGO = datetime.now(UTC) - timedelta(days=30)  # before whatever the feed shows
WRITES_IN_FLIGHT = 2
PER_BATCH = 25  # DynamoDB takes no more


class Sample(NamedTuple):
    wall_ms: float
    cpu_ms: float
    requests: int
    rows: int


class Store:
    """One table in the emulator, and the wire to it that counts."""

    def __init__(self, endpoint: str, records: int) -> None:
        self.records = records
        settings = load_settings({**create_resources(endpoint)})
        self._aws = Aws(settings)
        self._patient = client("dynamodb", endpoint)
        self._table = settings.table_name
        self.requests = 0
        self.env = Env(
            kv=DynamoKV(self._counted, self._table),
            content=None,
            queue=None,
            secrets=None,
            github=None,
            bedrock=None,
            settings=None,
            clock=lambda: datetime.now(UTC),
        )
        self.a_submission = ""

    async def _counted(self, operation: str, params: Any) -> dict[str, Any]:
        self.requests += 1
        answer: dict[str, Any] = await self._aws.call("dynamodb", operation, params)
        return answer

    async def seed(self) -> None:
        await self._write(item for n in range(self.records) for item in _skill_items(n))
        items, self.a_submission = await _submission_items(self.records)
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


# --- the records ----------------------------------------------------------------------------------------------------


def _skill_items(number: int) -> list[dict[str, Any]]:
    """Whatever the size of the market, ten skills share a rare word and each owner has ten of them."""
    ten = f"{number // 10:05}"
    name = f"owner{ten}/repo{number:05}/skill-{number:05}"
    rare = f"rare{ten}"
    skill = a_skill(
        name, number, description=f"Helps with {rare} files.", category="documents" if number % 2 else "other"
    )
    unique = {put.key: put for put in puts_of(skill, installs=number % 500)}
    return [_item(put) for put in unique.values()]


async def _submission_items(records: int) -> tuple[list[dict[str, Any]], str]:
    """As our own code writes them, kept at the wire: published, long ago."""
    items: dict[tuple[str, str], dict[str, Any]] = {}

    async def keep(_: str, params: Any) -> dict[str, Any]:
        for action in params["TransactItems"]:
            if put := action.get("Put"):
                items[put["Item"]["pk"]["S"], put["Item"]["sk"]["S"]] = put["Item"]
        return {}

    at = LONG_AGO
    last = ""
    env = Env(
        kv=DynamoKV(keep, "-"),
        content=None,
        queue=None,
        secrets=None,
        github=None,
        bedrock=None,
        settings=None,
        clock=lambda: at,
    )

    for number in range(records):
        at += timedelta(seconds=1)
        draft = _draft(number, at)
        last = draft.id
        await run_with_worker_env(env, partial(create, draft))
    kept = [item for (pk, _), item in items.items() if not pk.startswith("feed:")]
    return [*kept, *_counters(records)], last


def _counters(records: int) -> list[dict[str, Any]]:
    share = dict.fromkeys(range(COUNTER_SHARDS), records // COUNTER_SHARDS)
    return [{"pk": {"S": f"stats:{shard}"}, "sk": {"S": "."}, "PUBLISHED": {"N": str(n)}} for shard, n in share.items()]


def _draft(number: int, at: datetime) -> Submission:
    owner, repo, slug = f"owner{number // 10:05}", f"repo{number:05}", f"skill-{number:05}"
    return Submission(
        id=new_id(at),
        source=f"https://github.com/{owner}/{repo}",
        skill_path=slug,
        skill_name=f"{owner}/{repo}/{slug}",
        repo_url=f"https://github.com/{owner}/{repo}",
        state=State.PUBLISHED,
        created_at=at,
        updated_at=at,
        content_hash=f"{number:064x}",
        score=100,
    )


def _item(put: Put) -> dict[str, Any]:
    native = {name: {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in put.attrs.items()}
    return {"pk": {"S": put.key.pk}, "sk": {"S": put.key.sk}, "doc": {"S": put.doc}, **native}


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
    return 1 if (await get_stats()).total == store.records else 0


async def _skills(store: Store, query: SkillQuery) -> int:
    return len((await list_skills(query)).skills)


async def _skill(store: Store) -> int:
    skill, _ = await get_skill_with_counts("owner00003/repo00033/skill-00033")
    return 1 + len(await get_versions(skill.name))


# Held to the same requests and, where both stores show as much, to the same CPU. A word or facet that ever more skills
# have fills its one page of 1,000 entries, then grows no more: bounded, but not the same.
ASKED: dict[str, tuple[Ask, bool]] = {
    "list of 500 submissions, per row": (_list_of_500, True),
    "list of 50 submissions": (_list_of_50, True),
    "list of 50 by state": (_published, True),
    "search submissions": (_search_submissions, True),
    "submission and its history": (_submission, True),
    "stats": (_stats, True),
    "list of 50 skills": (partial(_skills, query=SkillQuery()), True),
    "list of 50 skills by installs": (partial(_skills, query=SkillQuery(sort="installs")), True),
    "list of 50 skills of a category": (partial(_skills, query=SkillQuery(category="other")), True),
    "search skills": (partial(_skills, query=SkillQuery(q="rare00003 owner00003")), True),
    "skill and its versions": (_skill, True),
    "search skills, a word that all have": (partial(_skills, query=SkillQuery(q="skill")), False),
    "skills of a category by installs": (partial(_skills, query=SkillQuery(category="other", sort="installs")), False),
}


async def _sample(store: Store, ask: Ask) -> Sample:
    requests = store.requests
    gc.collect()  # what was asked before is not this one's work
    wall, cpu = time.perf_counter(), time.process_time()
    rows = await run_with_worker_env(store.env, partial(ask, store))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert rows, "nothing was found, so nothing was measured"
    return Sample(wall * 1000, cpu * 1000, store.requests - requests, rows)


async def _measure(records: int, repeat: int) -> dict[tuple[str, int], list[Sample]]:
    with tempfile.TemporaryDirectory(prefix="bench-lists-") as directory:
        for folder in ("content", "tmp"):
            (Path(directory) / folder).mkdir()
        emulator = Emulator(Path(directory), interval=3600)
        await emulator.start()
        try:
            return await _measure_at(emulator.endpoint, records, repeat)
        finally:
            await emulator.stop()


async def _measure_at(endpoint: str, records: int, repeat: int) -> dict[tuple[str, int], list[Sample]]:
    stores = [Store(endpoint, FEW), Store(endpoint, records)]
    started = time.perf_counter()
    for store in stores:
        await store.seed()
    print(f"Seeded {FEW} and {records} submissions and skills in {time.perf_counter() - started:.0f} s.\n", flush=True)
    samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for name, (ask, _) in ASKED.items():
        for store in stores:
            await _sample(store, ask)  # the first call connects and loads what it needs
        for _ in range(repeat):
            for store in stores:
                samples[name, store.records].append(await _sample(store, ask))
    for store in stores:
        await store.close()
    return samples


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
    is_held_to_cpu: bool

    @property
    def is_met(self) -> bool:
        return self.requests_few == self.requests_many and (not self.is_held_to_cpu or self.cpu_ratio <= MOST_CPU)


def _line(name: str, few: list[Sample], many: list[Sample], is_held: bool) -> Line:
    per_row = name.endswith("per row")
    cpu = [min(s.cpu_ms / (s.rows if per_row else 1) for s in taken) for taken in (few, many)]
    wall = [statistics.median(s.wall_ms for s in taken) for taken in (few, many)]
    requests = [statistics.mode(s.requests for s in taken) for taken in (few, many)]
    return Line(
        name, *requests, *(round(c, 3) for c in cpu), round(cpu[1] / cpu[0], 2), *(round(w, 1) for w in wall), is_held
    )


def main() -> int:
    options = _options()
    _be_patient()
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true")
    samples = asyncio.run(_measure(options.records, options.repeat))
    lines = [
        _line(name, samples[name, FEW], samples[name, options.records], is_held) for name, (_, is_held) in ASKED.items()
    ]
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
    print(f"\nHeld to: the same requests; at most {MOST_CPU} times the CPU, but for the last two.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare lists of many records with lists of few.")
    parser.add_argument("--records", type=int, default=10_000, help="submissions, and as many skills")
    parser.add_argument("--repeat", type=int, default=7, help="repetitions")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
