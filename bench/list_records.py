"""The records of the list benchmark: any number of published skills and submissions."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from shared.records.submissions import State, Submission, new_id
from shared.settings import Settings
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Put
from shared.submissions.counters import COUNTER_SHARDS
from shared.submissions.submission_store import create
from shared.worker_context import Env, run_with_worker_env
from tests.support.stored_skills import a_skill, puts_of

LONG_AGO = datetime.now(UTC) - timedelta(days=30)  # older than anything the feed shows


def env_of(kv: DynamoKV, clock: Callable[[], datetime]) -> Env:
    """Only the store is used, and settings that decide what is written."""
    names = dict.fromkeys(("table_name", "bucket_name", "queue_url", "secret_id", "region"), "-")
    unused = dict.fromkeys(("endpoint_url", "secrets_file"))
    settings = Settings(stage="local", allow_uploads=False, max_active=1, **names, **unused)
    others = dict.fromkeys(("content", "queue", "secrets", "github", "bedrock", "scans"))
    return Env(kv=kv, settings=settings, clock=clock, **others)


def skill_items(number: int) -> list[dict[str, Any]]:
    """At any size, ten skills share a rare word and each owner has ten skills."""
    ten = f"{number // 10:05}"
    name = f"owner{ten}/repo{number:05}/skill-{number:05}"
    rare = f"rare{ten}"
    skill = a_skill(
        name, number, description=f"Helps with {rare} files.", category="documents" if number % 2 else "other"
    )
    unique = {put.key: put for put in puts_of(skill, installs=number % 500)}
    return [_item(put) for put in unique.values()]


async def submission_items(records: int) -> tuple[list[dict[str, Any]], str]:
    """Items as the product writes them, captured at the wire: submissions published long ago, and the last id."""
    items: dict[tuple[str, str], dict[str, Any]] = {}

    async def capture(_: str, params: Any) -> dict[str, Any]:
        for action in params["TransactItems"]:
            if put := action.get("Put"):
                items[put["Item"]["pk"]["S"], put["Item"]["sk"]["S"]] = put["Item"]
        return {}

    at = LONG_AGO
    last = ""
    env = env_of(DynamoKV(capture, "-"), lambda: at)

    for number in range(records):
        at += timedelta(seconds=1)
        draft = _draft(number, at)
        last = draft.id
        await run_with_worker_env(env, partial(create, draft))
    kept = [item for (pk, _), item in items.items() if not pk.startswith("feed:")]
    return [*kept, *_counters(records)], last


def _counters(records: int) -> list[dict[str, Any]]:
    share = dict.fromkeys(range(COUNTER_SHARDS), records // COUNTER_SHARDS)
    skills = [({"S": "stats:skills"}, {"S": str(shard)}, "skills", n) for shard, n in share.items()]
    states = [({"S": f"stats:{shard}"}, {"S": "."}, "PUBLISHED", n) for shard, n in share.items()]
    return [{"pk": pk, "sk": sk, name: {"N": str(n)}} for pk, sk, name, n in (*states, *skills)]


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
