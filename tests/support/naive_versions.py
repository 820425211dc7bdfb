"""The defects the platform began with: sequential reads, and one env for the whole module. Every probe must
reject these; a probe that accepts them proves nothing."""

import msgspec

from shared.db import get_kv, now
from shared.records.submissions import Rescue, Submission, rescue_of
from shared.storage.dynamo_kv import KEYS_PER_BATCH
from shared.storage.kv import Read
from shared.submissions.submission_store import submission_key


async def get_submissions_one_by_one(ids):
    docs = [await get_kv().get(submission_key(submission_id)) for submission_id in ids]
    return [msgspec.json.decode(doc, type=Submission) for doc in docs if doc]


async def get_stuck_submissions_one_by_one():
    submissions = await get_submissions_one_by_one(await get_kv().ids("sub:"))
    return [submission for submission in submissions if rescue_of(submission, now()) is not Rescue.LEAVE]


async def enumerate_published_skills_one_by_one():
    from shared.marketplace.skill_store import skill_key

    return [await get_kv().get(skill_key(name)) for name in await get_kv().ids("skill:")]


class ModuleLevelContext:
    """worker-context with one variable for all batches, set at the start of a batch and cleared at its end."""

    def __init__(self) -> None:
        self._env = None

    def get_worker_env(self):
        return self._env

    async def run_with_worker_env(self, env, fn):
        self._env = env
        try:
            return await fn()
        finally:
            self._env = None


async def get_many_one_by_one(kv, keys):
    return await _one_after_another(kv, [[key] for key in keys])


async def get_many_batch_by_batch(kv, keys):
    """Batches, so few requests; but each waits for the one before."""
    return await _one_after_another(kv, [keys[i : i + KEYS_PER_BATCH] for i in range(0, len(keys), KEYS_PER_BATCH)])


async def _one_after_another(kv, chunks):
    reads = [await kv.get_many(chunk) for chunk in chunks]
    found = {key: doc for read in reads for key, doc in read.found.items()}
    return Read(found, [key for read in reads for key in read.missing], [key for read in reads for key in read.failed])
