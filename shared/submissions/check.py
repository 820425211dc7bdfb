"""What can be said of files before they are submitted. Nothing is stored."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from shared.db import get_scans
from shared.errors import Unprocessable
from shared.scanner.report import ScanReport
from shared.storage.content import Files
from shared.submissions.skill_source import read_bundle, refuse_uploads_where_off
from shared.timing import CHECK_BUDGET


class CheckedFiles(NamedTuple):
    files: Files
    report: ScanReport


async def check_bundle(files: Sequence[tuple[str, str | bytes]]) -> CheckedFiles:
    """The scan that a worker would do, in a process with the same limits, but for the time a request has."""
    refuse_uploads_where_off()
    bundle = read_bundle(files)
    try:
        async with asyncio.timeout(CHECK_BUDGET.total_seconds()):
            return CheckedFiles(bundle, await get_scans().scan(bundle))
    except TimeoutError as error:
        raise Unprocessable(
            "The check took too long for a page that waits. Submit the skill: a worker has more time.",
            code="check_too_slow",
        ) from error
