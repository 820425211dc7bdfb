"""The evidence for a decision: the scan receipt, and the files for the source lines of a finding."""

import asyncio

from shared.db import get_content
from shared.errors import NotFound, Unavailable
from shared.evidence.blocklist import find_bans
from shared.evidence.receipt_store import Receipt, find_receipt
from shared.records.submissions import State, Submission


async def get_evidence(submission: Submission) -> tuple[Receipt | None, dict[str, bytes]]:
    return await asyncio.gather(find_receipt(submission), get_files(submission))


async def get_public_evidence(submission: Submission) -> tuple[Receipt | None, dict[str, bytes]]:
    """For blocked content only the excerpts of the findings: its author must know why it was blocked, and nobody
    else needs the lines around it."""
    return await asyncio.gather(find_receipt(submission), get_public_files(submission))


async def get_public_files(submission: Submission) -> dict[str, bytes]:
    try:
        is_blocked = submission.state is State.BLOCKED or await find_bans([submission.content_hash or ""])
    except Unavailable:
        is_blocked = True
    return {} if is_blocked else await get_files(submission)


async def get_files(submission: Submission) -> dict[str, bytes]:
    """Without the bucket, the excerpts in the findings are shown instead."""
    if submission.content_hash is None or submission.rule_set is None:
        return {}
    try:
        return await get_content().get_files(submission.content_hash)
    except (NotFound, Unavailable):
        return {}
