"""Prints the findings that reviewers overturned, as lines of JSON for rule authors. `make false-alarms` calls it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from local.config import StartError


def false_alarms(directory: Path) -> Iterator[dict[str, Any]]:
    """From the platform that runs with this folder."""
    try:
        url = json.loads((directory / "platform.json").read_text())["url"]
        token = (directory / "admin-token").read_text().strip()
    except (OSError, ValueError, KeyError) as error:
        raise StartError("No platform runs with this LOCAL_DIR: start it with `make run`.") from error
    cursor: str | None = ""
    while cursor is not None:
        page = _page(url, token, cursor)
        yield from page["falseAlarms"]
        cursor = page["cursor"]


def _page(url: str, token: str, cursor: str) -> dict[str, Any]:
    query = urlencode({"limit": 100} | ({"cursor": cursor} if cursor else {}))
    headers = {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/api/v1/admin/false-alarms?{query}", headers=headers)  # noqa: S310 - our own
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
            page: dict[str, Any] = json.load(response)
    except (urllib.error.URLError, TimeoutError) as error:
        raise StartError(f"The platform at {url} did not answer: {error}.") from error
    return page
