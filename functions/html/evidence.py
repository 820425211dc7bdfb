"""The evidence for a decision: the scan receipt, and the files for the source lines of a finding."""

import asyncio

from shared.db import get_content
from shared.errors import NotFound, Unavailable
from shared.evidence.receipt_store import Receipt, find_receipt
from shared.records.submissions import Submission


async def get_evidence(submission: Submission) -> tuple[Receipt | None, dict[str, bytes]]:
    return await asyncio.gather(find_receipt(submission), get_files(submission))


async def get_files(submission: Submission) -> dict[str, bytes]:
    """Without the bucket, the excerpts in the findings are shown instead."""
    if submission.content_hash is None or submission.rule_set is None:
        return {}
    try:
        return await get_content().get_files(submission.content_hash)
    except (NotFound, Unavailable):
        return {}
