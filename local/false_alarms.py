"""Prints the findings that reviewers overturned, as lines of JSON for rule authors. `make false-alarms` calls it:
for the platform of this folder, or with URL and a reviewer's token in ADMIN_TOKEN for any other, such as one on AWS."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from local.config import StartError


def false_alarms(directory: Path, url: str | None = None, token: str | None = None) -> Iterator[dict[str, Any]]:
    if url is None:
        url, token = _of_directory(directory)
    if not token:
        raise StartError("Set ADMIN_TOKEN to the token of a reviewer of that platform.")
    if not (url.startswith("https://") or _is_local(url)):
        raise StartError("The URL must begin with https://: the token is sent there.")
    cursor: str | None = ""
    while cursor is not None:
        page = _page(url, token, cursor)
        yield from page["falseAlarms"]
        cursor = page["cursor"]


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost")


def _of_directory(directory: Path) -> tuple[str, str]:
    try:
        url = json.loads((directory / "platform.json").read_text())["url"]
        return url, (directory / "admin-token").read_text().strip()
    except (OSError, ValueError, KeyError) as error:
        raise StartError("No platform runs with this LOCAL_DIR: start it with `make run`.") from error


def _page(url: str, token: str, cursor: str) -> dict[str, Any]:
    query = urlencode({"limit": 100} | ({"cursor": cursor} if cursor else {}))
    headers = {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url.rstrip('/')}/api/v1/admin/false-alarms?{query}", headers=headers)  # noqa: S310 - our own
    proxies = urllib.request.ProxyHandler({} if _is_local(url) else None)
    try:
        with urllib.request.build_opener(proxies).open(request, timeout=30) as response:
            page: dict[str, Any] = json.load(response)
    except (urllib.error.URLError, TimeoutError) as error:
        raise StartError(f"The platform at {url} did not answer: {error}.") from error
    return page
