"""`make migrate`: runs the jobs over stored data that a release needs, on a running platform, by its admin routes."""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from local.config import StartError
from shared.submissions.data_version import JOBS

PATIENCE = 60  # seconds for one page of a job
REASON = "make migrate"
MORE: dict[str, dict[str, bool]] = {"recount": {"repair": True}}


def migrate(url: str, token: str) -> Iterator[str]:
    """One line per page, in the order of the jobs. Repeating one is harmless. Raises StartError if any failed."""
    failed: list[str] = []
    for job in JOBS:
        cursor, pages = None, 0
        while cursor is not None or pages == 0:
            page = _ask(
                f"{url.rstrip('/')}/api/v1/admin/{job}",
                token,
                {"reason": REASON, "cursor": cursor, **MORE.get(job, {})},
            )
            left = (
                page["failed"] if "failed" in page else [f"{job} ({what})" for what in ("busy", "unread") if page[what]]
            )
            failed += left
            cursor, pages = page["cursor"], pages + 1
            yield f"{job}: {page['checked']} checked, {len(left)} failed"
    if failed:
        raise StartError(f"Could not be migrated, so run it again: {', '.join(failed)}")


def _ask(url: str, token: str, body: dict[str, Any]) -> Any:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 the operator's
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise StartError(f"{url} answered {error.code}: {error.read()[:300].decode(errors='replace')}") from error
    except OSError as error:
        raise StartError(f"{url} does not answer: {error}") from error


def main(arguments: list[str], token: str) -> None:
    if len(arguments) != 1 or not arguments[0] or not token:
        raise StartError("Name the platform and an admin's token: ADMIN_TOKEN=... make migrate URL=https://...")
    for line in migrate(arguments[0], token):
        print(line)


if __name__ == "__main__":
    try:
        main(sys.argv[1:], os.environ.get("ADMIN_TOKEN", ""))
    except StartError as error:
        sys.exit(str(error))
