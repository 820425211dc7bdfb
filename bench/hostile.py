"""Thirty hostile skills beside thirty harmless ones, on the running platform.

python -m bench.hostile    prints a table and writes bench/results/hostile.json

The same number of harmless skills is submitted alone first: their times are the baseline. Then hostile ones of every
kind come between them. The memory is the sum of PSS of a worker and its scan processes, several times a second.
"""

import json
import os
import platform as machine
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.hostile_submissions import Files, harmless, hostile_archives, hostile_texts
from tests.support.platform import Platform
from tests.support.stub_github import StubGitHub

RESULTS = Path(__file__).parent / "results" / "hostile.json"
COUNT = 30
LONGEST = 120.0  # seconds to wait; a hostile skill may still be tried again then
MOST_PER_SCAN, MOST_PER_WORKER = 300, 700  # MB
SPREAD = 60.0  # seconds that the last one may take beyond twice the median alone


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, StubGitHub() as github:
        platform = Platform.start(Path(directory), GITHUB_API_URL=github.url, RATE_LIMITS="off")
        try:
            record = measure(platform, github)
        finally:
            platform.kill()
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    return report(record)


def measure(platform: Platform, github: StubGitHub) -> dict[str, Any]:
    finish(platform, submit_all(platform, innocent("warm")))  # starts the workers and their scan processes
    alone = finish(platform, submit_all(platform, innocent("alone")))
    kinds, hostile = hostile_bodies(github)
    mixed = [body for pair in zip(hostile, innocent("beside"), strict=True) for body in pair]
    with Memory(platform) as memory:
        started = time.monotonic()
        ids = submit_all(platform, mixed)
        beside, attacks = finish(platform, ids[1::2]), finish(platform, ids[0::2])
    return {
        "alone": summary(alone),
        "beside": summary(beside),
        "hostile": {f"{n:02} {kind}": outcome(each) for n, (kind, each) in enumerate(zip(kinds, attacks, strict=True))},
        "secondsInAll": round(time.monotonic() - started, 1),
        "timedOut": platform.output.count("timed out"),
        "scanProcessMb": round(memory.scan),
        "workerMb": round(memory.worker),
        "machine": {"python": machine.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }


def innocent(name: str) -> list[dict[str, Any]]:
    return [upload(f"{name}-{n}", harmless(hash((name, n)) % 10**6)) for n in range(COUNT)]


def hostile_bodies(github: StubGitHub) -> tuple[list[str], list[dict[str, Any]]]:
    texts, archives = hostile_texts(), hostile_archives()
    kinds = [*texts, *archives][:COUNT]
    bodies = [upload(f"hostile-{n}", texts[kind]) for n, kind in enumerate(kinds) if kind in texts]
    for n, kind in enumerate(archives):
        if kind in kinds:
            github.repo(f"acme/attack{n}", {f"skills/a/{path}": body for path, body in archives[kind].items()})
            bodies.append({"repoUrl": f"https://github.com/acme/attack{n}", "skillPath": "skills/a"})
    assert len(kinds) == len(bodies) == COUNT
    return kinds, bodies


def upload(name: str, files: Files) -> dict[str, Any]:
    return {"bundle": {"name": name, "files": [{"path": p, "content": body.decode()} for p, body in files.items()]}}


def submit_all(platform: Platform, bodies: list[dict[str, Any]]) -> list[str]:
    def submit(body: dict[str, Any]) -> str:
        status, answer = platform.json("POST", "/api/v1/submissions", body)
        assert status == 201, answer
        return str(answer["id"])

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(submit, bodies))


def finish(platform: Platform, ids: list[str]) -> list[dict[str, Any]]:
    """Their records, in the end or after the longest wait."""
    ends = time.monotonic() + LONGEST
    records = []
    for submission_id in ids:
        record = platform.json("GET", f"/api/v1/submissions/{submission_id}")[1]
        while record["category"] == "active" and time.monotonic() < ends:
            time.sleep(0.5)  # polling must not load the machine that is measured
            record = platform.json("GET", f"/api/v1/submissions/{submission_id}")[1]
        records.append(record)
    return records


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [seconds_of(record) for record in records]
    return {
        "published": sum(record["state"] == "PUBLISHED" for record in records),
        "atFirstAttempt": sum(attempts_of(record) == 1 for record in records),
        "medianSeconds": round(statistics.median(seconds), 2),
        "lastSeconds": round(max(seconds), 2),
    }


def outcome(record: dict[str, Any]) -> str:
    return f"{record['state']} after {seconds_of(record):.0f} s, attempts {attempts_of(record)}: {record['reason']}"[
        :200
    ]


def seconds_of(record: dict[str, Any]) -> float:
    first, last = (datetime.fromisoformat(record["stateHistory"][n]["timestamp"]) for n in (0, -1))
    return (last - first).total_seconds()


def attempts_of(record: dict[str, Any]) -> int:
    return [entry["to"] for entry in record["stateHistory"]].count("TIER1_SCANNING")


class Memory:
    """The most that one scan process, and one worker with all of its own, has held."""

    def __init__(self, platform: Platform) -> None:
        self.scan = self.worker = 0.0
        self._platform = platform
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for pid in self._platform.info["workers"].get("Consumer", []):
                scans = [pss_of(child) for child in children_of(pid)]
                self.scan = max([self.scan, *scans])
                self.worker = max(self.worker, pss_of(pid) + sum(scans))


def pss_of(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def report(record: dict[str, Any]) -> int:
    alone, beside = record["alone"], record["beside"]
    allowed = 2 * alone["medianSeconds"]
    held = {
        f"published at the first attempt: {beside['atFirstAttempt']} of {COUNT}": (
            beside["published"] == beside["atFirstAttempt"] == COUNT
        ),
        f"median {beside['medianSeconds']} s, alone {alone['medianSeconds']} s": beside["medianSeconds"] <= allowed,
        f"last {beside['lastSeconds']} s, at most {allowed + SPREAD:.1f} s": beside["lastSeconds"] <= allowed + SPREAD,
        f"invocations that timed out: {record['timedOut']}": record["timedOut"] == 0,
        f"a scan process {record['scanProcessMb']} MB": record["scanProcessMb"] < MOST_PER_SCAN,
        f"a worker and its scan processes {record['workerMb']} MB": record["workerMb"] < MOST_PER_WORKER,
    }
    for kind, end in record["hostile"].items():
        print(f"  {kind}: {end}")
    for what, holds in held.items():
        print(f"{'ok  ' if holds else 'NOT '} {what}")
    return int(not all(held.values()))


if __name__ == "__main__":
    sys.exit(main())
