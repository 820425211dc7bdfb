"""Which jobs over stored data a release needs, and which have run: at its version, per job, in one record.

A job is an admin route that is continued with its cursor (docs/api.md). `make migrate` runs those that are needed.
"""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed
from shared.storage.documents import encode, stamp
from shared.storage.kv import ABSENT, LISTS, Key, Put, Query, query_shards
from shared.telemetry import logger

KEY = Key("data:version")
# By the version of the data that it makes. A release that needs a job raises its number; jobs run in this order.
JOBS: Mapping[str, int] = {"build-artifacts": 1, "rebuild-index": 1, "recount": 1}
JUST_BEGUN = timedelta(hours=1)


class DataVersion(msgspec.Struct, frozen=True):
    jobs: dict[str, int]  # at which version each was last finished


def warnings_of(doc: str | None) -> list[str]:
    """What operators should run. Nothing while nothing is known: the schedule finds out."""
    jobs = pending_jobs(doc)
    return [f"This release needs a job over stored data: {', '.join(jobs)}. Run make migrate."] if jobs else []


async def get_warnings() -> list[str]:
    return warnings_of(await get_kv().get(KEY))


def pending_jobs(doc: str | None) -> list[str]:
    if doc is None:
        return []
    done = msgspec.json.decode(doc, type=DataVersion).jobs
    return [job for job, version in JOBS.items() if done.get(job, 0) < version]


async def note_first_version() -> None:
    """Once per platform: one that has published nothing before this release has nothing to migrate."""
    if await get_kv().get(KEY) is not None:
        return
    before = stamp(now() - JUST_BEGUN)
    old = await query_shards(get_kv(), Query(LISTS["skill:"], "list", before=before, descending=True, limit=1))
    version = DataVersion({} if old.rows else dict(JOBS))
    try:
        await get_kv().put(Put(KEY, encode(version), {}, ABSENT))
    except ConditionFailed:
        logger.info("data version noted by another run")


async def note_finished(job: str) -> None:
    doc = await get_kv().get(KEY)
    done = {} if doc is None else msgspec.json.decode(doc, type=DataVersion).jobs
    await get_kv().put(Put(KEY, encode(DataVersion({**done, job: JOBS[job]}))))
