"""Does a platform answer? A few requests that change nothing, for `make deploy` and `make smoke URL=...`."""

import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

PATIENCE = 30  # seconds for one answer: a cold start and a slow store


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Probe(NamedTuple):
    what: str
    method: str
    path: str
    is_right: Callable[[Reply], bool]
    body: bytes | None = None


def _is_error(status: int, code: str) -> Callable[[Reply], bool]:
    return lambda reply: reply.status == status and reply.json()["error"]["code"] == code


def _is_page(reply: Reply) -> bool:
    return reply.status == 200 and reply.headers.get("content-type", "").startswith("text/html")


PROBES = (
    Probe("the store, bucket, queue and secret are reached", "GET", "/api/v1/health", lambda r: r.status == 200),
    Probe("counters are known", "GET", "/api/v1/submissions/stats", lambda r: r.json()["total"] is not None),
    Probe("submissions are listed", "GET", "/api/v1/submissions?limit=1", lambda r: "submissions" in r.json()),
    Probe("skills are listed", "GET", "/api/v1/skills?limit=1", lambda r: "skills" in r.json()),
    Probe("the home page is shown", "GET", "/", _is_page),
    Probe("the queue is shown", "GET", "/queue", _is_page),
    Probe("an empty submission is refused", "POST", "/api/v1/submissions", _is_error(400, "invalid_body"), b"{}"),
    Probe("admin routes are closed", "GET", "/api/v1/admin/stuck", _is_error(401, "unauthorized")),
    Probe("an unknown address has our error", "GET", "/api/v1/no-such-thing", _is_error(404, "not_found")),
)


def failures_at(url: str) -> list[str]:
    """What does not answer as it should; empty for a platform that works."""
    return [failure for probe in PROBES if (failure := _failure(url.rstrip("/"), probe))]


def warnings_at(url: str) -> list[str]:
    """What works there, but not as it should, by its own account. A platform that does not answer may be repaired by
    the deployment that asks, so that is a warning too."""
    try:
        return list(_ask(url.rstrip("/"), Probe("", "GET", "/api/v1/health", bool)).json().get("warnings", []))
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        return [f"{url} does not say what it lacks: {error}"]


def _failure(url: str, probe: Probe) -> str | None:
    try:
        reply = _ask(url, probe)
        if probe.is_right(reply):
            return None
        shown = reply.body[:200].decode(errors="replace")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{probe.method} {probe.path}: {probe.what}? No: {error!r}"
    return f"{probe.method} {probe.path}: {probe.what}? No: status {reply.status}, {shown}"


def _ask(url: str, probe: Probe) -> Reply:
    if not url.startswith(("http://", "https://")):
        raise ValueError("the address begins with http:// or https://")
    headers = {"content-type": "application/json"} if probe.body else {}
    request = urllib.request.Request(f"{url}{probe.path}", probe.body, headers, method=probe.method)  # noqa: S310 above
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            return Reply(answer.status, _lower(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, _lower(error.headers), error.read())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def main(url: str) -> int:
    failures = failures_at(url)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(PROBES) - len(failures)} of {len(PROBES)} probes of {url} are right")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1]:
        sys.exit("Name the platform: make smoke URL=http://127.0.0.1:3000")
    sys.exit(main(sys.argv[1]))
