"""The page of one run of a submission: a permanent link to its evidence."""

import asyncio
from typing import Any

from functions.api.runs import read_run
from functions.html.evidence import get_public_files
from functions.html.responses import page
from functions.http.answer import Answer
from functions.http.request import Request
from shared.db import now
from shared.marketplace.runs import find_run_receipt, get_appeals_of_run
from shared.web import views


async def show(request: Request) -> Answer:
    request.allow_query()
    run = await read_run(request)
    receipt, files, appeals = await asyncio.gather(
        find_run_receipt(run), get_public_files(run.submission), get_appeals_of_run(run)
    )
    at = now()
    shown = views.submission_view(run.submission, run.history.entries, at, None, receipt, files)
    about: dict[str, Any] = {"submission": run.submission, "run": run, "appeals": appeals}
    scanned_files = receipt.report.receipt.files if receipt else ()
    return page(request, "run.html", at, scanned_files=scanned_files, **about, **shown)
