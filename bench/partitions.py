"""Which partition is hottest among 1,000,000 skills and 10,000,000 submissions, at 1,000 submissions a second, and how
often transactions conflict. Writes bench/results/partitions.json and the tables of docs/aws.md; takes some minutes.

    python -m bench.partitions [--skills 1000000] [--submissions 10000000] [--sample 1000]

Keys are counted, nothing is stored. What depends on the skill (search words, facets, look-alikes, identity) is made for
every skill by the functions that publish; what depends on the id or the time (counters, feed, lists, states) is taken
from submissions that really went through the code, drawn at random. The units of a write are those of the real ones.

Assumed: names and descriptions use the words of docs/ as often as these do; skills of owners are distributed by Zipf's
law (exponent 0.8), submissions of skills more evenly (0.5), so the most popular skill comes every other second; every
submission writes all its keys; a partition takes 1,000 write units a second; a transaction holds its items 10 or
30 ms.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import statistics
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from botocore.exceptions import ClientError

from bench.cost import metered_env
from bench.heat import LIMIT, PER_SECOND, Partition, units_of_each
from shared.errors import Unavailable
from shared.marketplace.skill_index import index_puts, look_alike_puts, owner_puts
from shared.marketplace.skill_store import get_skill
from shared.records.facets import COUNTED
from shared.records.search_words import STOP_WORDS
from shared.records.skills import Skill
from shared.records.submissions import Submission, created, new_id
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Put
from shared.submissions.counters import count_change
from shared.submissions.submission_store import get_page_of_ids, get_submission, identity_put, words_of
from tests.faults.virtual_loop import VirtualLoop
from tests.support.builders import WHEN, a_bundle
from tests.support.memory import memory_env, within
from tests.support.memory_dynamo import MemoryDynamo
from tests.support.metered_dynamo import family_of

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "partitions.json"
PAGE = ROOT / "docs" / "aws.md"
TABLES = "bench.partitions"
SHOWN = 14  # families
IN_TRANSACTION = 2  # units of a key that uploads, which the sample has, do not write
OWNERS = 100_000
HELD = (0.01, 0.03)  # seconds for which a transaction holds its items
MOVES_A_SECOND = (100, 200, 500, 1000)
CONFLICT_SECONDS = 20


class Named(NamedTuple):
    name: str
    description: str
    category: str
    tool: str


class Words:
    """Skills as people might name them: the words of our own documentation, as often as they are there."""

    def __init__(self, seed: int = 18) -> None:
        text = " ".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
        counts = Counter(re.findall(r"[a-z]{3,14}", text.lower()))
        self._random = random.Random(seed)
        self._owners = zipf(OWNERS, 0.8)
        self._words = list(counts)
        self._weights = list(accumulate(counts.values()))
        self._named = [word for word in self._words if word not in STOP_WORDS]
        self._name_weights = list(accumulate(counts[word] for word in self._named))

    def skill(self, number: int) -> Named:
        draw = self._random.choices
        [owner] = draw(range(OWNERS), cum_weights=self._owners)
        word, repo, *slug = draw(self._named, cum_weights=self._name_weights, k=4)
        description = " ".join(draw(self._words, cum_weights=self._weights, k=14))
        name = f"{self._named[owner % len(self._named)]}-{owner}/{word}-{repo}/{'-'.join(slug)}-{number}"
        category, tool = (self._random.choice(COUNTED[kind]) for kind in ("category", "tool"))
        return Named(name, description, category, tool)


def zipf(most: int, exponent: float) -> "array[float]":
    """Cumulative weights: 0 is the most frequent of so many."""
    return array("d", accumulate((rank + 1) ** -exponent for rank in range(most)))


class Sample(NamedTuple):
    """Real submissions: what each wrote, and the records of one of them, to make others from."""

    units: list[Mapping[Partition, float]]
    submission: Submission
    skill: Skill


async def real_sample(size: int) -> Sample:
    words = Words(seed=1)
    named = [words.skill(number) for number in range(size)]
    bundles = [a_bundle(one.name.rpartition("/")[2], one.description) for one in named]
    env, dynamo = metered_env()
    units = [written async for written in units_of_each((env, dynamo), bundles)]
    [submission_id], _ = await within(env, lambda: get_page_of_ids(None, 1))
    submission = await within(env, lambda: get_submission(submission_id))
    skill = await within(env, lambda: get_skill(submission.skill_name))
    return Sample(units, submission, skill)


# --- what depends on the skill ---------------------------------------------------------------------------------------


def partitions_of_skill(submission: Submission, skill: Skill) -> list[str]:
    """Of the table, by the functions that write them."""
    identity = identity_put(submission.source, submission.skill_path, submission.id)
    found_by: list[Put] = [*words_of(submission), *index_puts(skill), identity]
    return [put.key.pk for put in (*found_by, *look_alike_puts(skill.name), *owner_puts(skill.name))]


def as_named(sample: Sample, named: Named) -> tuple[Submission, Skill]:
    source = f"https://github.com/{named.name.rpartition('/')[0]}"
    submission = msgspec.structs.replace(sample.submission, skill_name=named.name, source=source, skill_path="")
    facts = {"description": named.description, "category": named.category, "allowed_tools": (named.tool,)}
    return submission, msgspec.structs.replace(sample.skill, name=named.name, repo_url=source, **facts)


class SkillKeys:
    """The partitions of every skill, as numbers: a hundred bytes a skill."""

    def __init__(self, sample: Sample, skills: int) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._flat, self._ends = array("I"), array("Q", [0])
        words = Words()
        for number in range(skills):
            partitions = partitions_of_skill(*as_named(sample, words.skill(number)))
            self._flat.extend(map(self._number_of, partitions))
            self._ends.append(len(self._flat))

    def of(self, skill: int) -> "array[int]":
        return self._flat[self._ends[skill] : self._ends[skill + 1]]

    def _number_of(self, partition: str) -> int:
        number = self._numbers.setdefault(partition, len(self.names))
        if number == len(self.names):
            self.names.append(partition)
        return number


# --- the simulation --------------------------------------------------------------------------------------------------


class Peak(NamedTuple):
    units: float  # in the worst second
    partition: str
    total: float  # in all seconds


def simulate(sample: Sample, skills: int, submissions: int) -> dict[str, Peak]:
    """Of each family the partition that had most to write in one second."""
    keys = SkillKeys(sample, skills)
    per_put = units_per_put(sample)
    shared = shared_partitions(sample, set(per_put))
    source, popular = random.Random(2), zipf(skills, 0.5)
    worst: dict[str, Peak] = {}
    for _ in range(submissions // PER_SECOND):
        drawn = array("I")
        for skill in source.choices(range(skills), cum_weights=popular, k=PER_SECOND):
            drawn += keys.of(skill)
        units = {name: n * per_put.get(family_of(name), IN_TRANSACTION) for name, n in _named(keys, Counter(drawn))}
        members = Counter(source.choices(range(len(shared)), k=PER_SECOND))
        for member, n in members.items():
            for name, amount in shared[member]:
                units[name] = units.get(name, 0) + n * amount
        _raise_peaks(worst, units)
    return worst


def _named(keys: SkillKeys, counts: Counter[int]) -> Sequence[tuple[str, int]]:
    return [(keys.names[number], n) for number, n in counts.items()]


def _raise_peaks(worst: dict[str, Peak], units: Mapping[str, float]) -> None:
    hottest: dict[str, tuple[float, str]] = {}
    for name, amount in units.items():
        family = family_in(name)
        hottest[family] = max(hottest.get(family, (0.0, "")), (amount, name))
    for family, (amount, name) in hottest.items():
        peak = worst.get(family, Peak(0, "", 0))
        high = (amount, name) if amount > peak.units else peak[:2]
        worst[family] = Peak(*high, peak.total + amount)


def name_of(partition: Partition) -> str:
    index, key = partition
    return key if index == "table" else f"index {index}: {key}"


def family_in(name: str) -> str:
    return re.split("[#=]", name)[0] if name.startswith("index ") else family_of(name)


def units_per_put(sample: Sample) -> dict[str, float]:
    """Of the families whose keys are made for each skill: units of one key, as the real writes of them had."""
    keys = Counter(map(family_of, partitions_of_skill(sample.submission, sample.skill)))
    first = min(sample.units, key=lambda written: ("table", f"sub:{sample.submission.id}") not in written)
    units: dict[str, float] = defaultdict(float)
    for (index, partition), amount in first.items():
        if index == "table":
            units[family_of(partition)] += amount
    return {family: units[family] / n for family, n in keys.items() if units[family]}


def shared_partitions(sample: Sample, made: set[str]) -> list[list[tuple[str, float]]]:
    """What each real submission wrote into partitions that others wrote into too, and that no skill determines."""
    writers = Counter(partition for written in sample.units for partition in written)
    return [
        [
            (name_of(partition), amount)
            for partition, amount in written.items()
            if amount and writers[partition] > 1 and family_in(name_of(partition)) not in made
        ]
        for written in sample.units
    ]


def own_units(sample: Sample) -> float:
    """The most that one submission writes into a partition that is its alone."""
    writers = Counter(partition for written in sample.units for partition in written)
    return max(amount for written in sample.units for one, amount in written.items() if writers[one] == 1)


# --- conflicts -------------------------------------------------------------------------------------------------------


CONFLICT = {
    "Error": {"Code": "TransactionCanceledException"},
    "CancellationReasons": [{"Code": "TransactionConflict"}],
    "ResponseMetadata": {"HTTPStatusCode": 400},
}


class ConflictingDynamo(MemoryDynamo):
    """A transaction holds its items for a while; another one that needs one of them is refused, as DynamoDB does."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.conflicts = 0
        self._seconds = seconds
        self._held: set[str] = set()

    async def __call__(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        actions = [next(iter(action.values())) for action in params.get("TransactItems", ())]
        items = {json.dumps(action.get("Key") or action["Item"], sort_keys=True) for action in actions}
        if items & self._held:
            self.conflicts += 1
            raise ClientError(CONFLICT, operation)
        self._held |= items
        try:
            await asyncio.sleep(self._seconds)
            return self.apply(operation, params)
        finally:
            self._held -= items


def conflicts_at(moves_a_second: int, held: float, submission: Submission) -> dict[str, float]:
    """Moves of different submissions, which meet in the counters alone; the real store repeats what conflicts."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(within(memory_env(), partial(_conflicts_at, moves_a_second, held, submission)))


async def _conflicts_at(moves_a_second: int, held: float, submission: Submission) -> dict[str, float]:
    dynamo, loop = ConflictingDynamo(held), asyncio.get_running_loop()
    kv = DynamoKV(dynamo, "t", loop.time)  # type: ignore[arg-type]
    waited: list[float] = []
    failed = 0

    async def one(at: float) -> None:
        nonlocal failed
        await asyncio.sleep(at)
        change = created(msgspec.structs.replace(submission, id=new_id(WHEN)))
        began = loop.time()
        try:
            await kv.transact(lambda: count_change(change))
            waited.append(loop.time() - began)
        except Unavailable:
            failed += 1

    moves = moves_a_second * CONFLICT_SECONDS
    source = random.Random(3)
    await asyncio.gather(*(one(source.uniform(0, CONFLICT_SECONDS)) for _ in range(moves)))
    p50, p99 = (statistics.quantiles(waited, n=100)[n] for n in (49, 98))
    return {
        "held ms": round(1000 * held),
        "moves a second": moves_a_second,
        "conflicts a move": round(dynamo.conflicts / moves, 2),
        "p50 ms": round(1000 * p50),
        "p99 ms": round(1000 * p99),
        "failed %": round(100 * failed / moves, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("skills", 1_000_000), ("submissions", 10_000_000), ("sample", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    began = time.monotonic()
    sample = asyncio.run(real_sample(options.sample))
    peaks = simulate(sample, options.skills, options.submissions)
    seconds = options.submissions // PER_SECOND
    families = [_row(family, peak, seconds) for family, peak in peaks.items()]
    conflicts = [conflicts_at(moves, held, sample.submission) for held in HELD for moves in MOVES_A_SECOND]
    result = {
        **vars(options),
        "a second": PER_SECOND,
        "units of a partition a second": LIMIT,
        "seconds it took": round(time.monotonic() - began),
        "most units of one record": own_units(sample),
        "families": sorted(families, key=lambda row: -float(row["units a second"])),
        "conflicts": conflicts,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    PAGE.write_text(with_tables(PAGE.read_text(), result))
    print(tables_of(result))


def with_tables(page: str, result: Mapping[str, Any]) -> str:
    return between(page, TABLES, tables_of(result))


def between(page: str, writer: str, text: str) -> str:
    """The page with this text where this program writes."""
    begin, end = f"<!-- written by {writer} -->\n", f"<!-- end of {writer} -->\n"
    before, rest = page.split(begin)
    return "".join([before, begin, text, end, rest.split(end)[1]])


def tables_of(result: Mapping[str, Any]) -> str:
    families = [{**row, "hottest": f"`{row['hottest']}`"} for row in result["families"][:SHOWN]]
    counted = f"{result['skills']:,} skills, {result['submissions']:,} submissions, {result['a second']:,} a second:"
    return f"{counted}\n\n{_table(families)}\nConflicts of counters:\n\n{_table(result['conflicts'])}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _row(family: str, peak: Peak, seconds: int) -> dict[str, Any]:
    usual = peak.total / seconds
    return {
        "family": family,
        "hottest": peak.partition,
        "units a second": round(usual),
        "in the worst second": round(peak.units),
        "full at submissions a second": round(LIMIT * PER_SECOND / usual),
    }


if __name__ == "__main__":
    main()
