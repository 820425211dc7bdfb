"""Which partition is hottest: real submissions through the real code, each write counted in units by partition, of the
table and of its indexes, and what that makes at 1,000 submissions a second. Writes bench/results/heat.json.

Assumed: a partition takes 1,000 write units a second; all submissions fall into one minute and are new skills of
different names. Conflicts of transactions are not in it: they come before throttling where a partition is one item."""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.cost import metered_env
from shared.storage.kv import Key
from shared.worker_context import Env
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import Stored
from tests.support.metered_dynamo import INDEXES, MeteredDynamo, family_of, index_units, write_units

RESULTS = Path(__file__).parent / "results" / "heat.json"
SUBMISSIONS = 200
PER_SECOND = 1000
LIMIT = 1000  # write units a second that one partition takes


Partition = tuple[str, str]  # of the table or of an index


async def units_by_partition(submissions: int) -> dict[Partition, float]:
    bundles = [a_bundle(f"skill-{n}", f"Greets the people of town {n}.") for n in range(submissions)]
    units: dict[Partition, float] = defaultdict(float)
    async for written in units_of_each(metered_env(), bundles):
        for partition, amount in written.items():
            units[partition] += amount
    return units


async def units_of_each(
    metered: tuple[Env, MeteredDynamo], bundles: Iterable[dict[str, Any]]
) -> AsyncIterator[dict[Partition, float]]:
    """What each of these writes, from its acceptance to PUBLISHED."""
    env, dynamo = metered
    for bundle in bundles:
        units: dict[Partition, float] = defaultdict(float)
        dynamo.on_write = partial(_note, dynamo, units)
        await processed(env, await submitted(env, bundle))
        yield units


def _note(
    dynamo: MeteredDynamo,
    units: dict[Partition, float],
    by: object,
    key: Key,
    before: Stored | None,
    after: Stored | None,
) -> None:
    units["table", key.pk] += write_units(dynamo.factor, key, before, after)
    for index in INDEXES:
        for stored in (before, after):
            if stored is not None and (partition := stored.attrs.get(f"{index}Pk")):
                units[index, str(partition)] += index_units(index, before, after) / 2


def hottest(units: Mapping[Partition, float], submissions: int) -> list[dict[str, object]]:
    """Of each family the hottest partition: units a submission, and the submissions a second at which it is full."""
    families: dict[tuple[str, str], tuple[float, str]] = {}
    for (index, partition), amount in units.items():
        family = (index, family_of(partition))
        families[family] = max(families.get(family, (0.0, "")), (amount, partition))
    rows = [
        {
            "family": family if index == "table" else f"{index} index: {family}",
            "partition": partition,
            "units a submission": round(amount / submissions, 3),
            f"units a second at {PER_SECOND:,}": round(PER_SECOND * amount / submissions),
            "full at submissions a second": round(LIMIT * submissions / amount) if amount else None,
        }
        for (index, family), (amount, partition) in families.items()
    ]
    return sorted(rows, key=lambda row: -float(str(row["units a submission"])))


def main() -> None:
    submissions = int(sys.argv[1]) if len(sys.argv) > 1 else SUBMISSIONS
    rows = hottest(asyncio.run(units_by_partition(submissions)), submissions)
    RESULTS.write_text(json.dumps({"submissions": submissions, "hottest": rows}, indent=2) + "\n")
    for row in rows[:16]:
        print(row)


if __name__ == "__main__":
    main()
