"""Ended runs at rest: the record of the submission as each left it, written in the transaction that begins the next.
The last run is the submission itself."""

import msgspec

from shared.db import get_kv
from shared.records.submissions import Submission
from shared.storage.documents import encode
from shared.storage.kv import Key, Put, query_all


def ended_run_put(last: Submission) -> Put:
    return Put(Key(_partition(last.id), f"{last.seq:06d}"), encode(last))


async def get_ended_runs(submission_id: str) -> dict[int, Submission]:
    """By the number of their last history entry. Those that an older release overwrote are not there."""
    rows = await query_all(get_kv(), _partition(submission_id))
    records = [_RECORD.decode(row.text) for row in rows]
    return {record.seq: record for record in records}


_RECORD = msgspec.json.Decoder(Submission)


def _partition(submission_id: str) -> str:
    return f"run:{submission_id}"
