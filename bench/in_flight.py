"""Thirty submissions in flight on the running platform, with a GitHub that takes a second per response.

python -m bench.in_flight    prints a table and writes bench/results/in_flight.json

Ten warm workers take three messages each. The first request of each is held until all thirty have arrived, so
sequential processing never finishes. The baseline is the chain of latencies of a single submission, measured in the
same run: the time that GitHub takes, however fast the platform is.
"""

import json
import os
import platform as machine
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.in_flight import (
    IN_FLIGHT,
    WORKERS,
    asked_for,
    queue_up_behind_busy_workers,
    submit,
    with_skills,
)
from tests.support.platform import Platform, eventually
from tests.support.stub_github import StubGitHub

RESULTS = Path(__file__).parent / "results" / "in_flight.json"
LATENCY = 1.0  # seconds per response of GitHub
TARGET = 1.5  # times the chain of latencies
ROUNDS = 2  # the first one warms up the workers with a whole batch each
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, StubGitHub() as github:
        platform = Platform.start(Path(directory), GITHUB_API_URL=github.url)
        try:
            together = [measure_together(platform, github, n, 0.0 if n == 0 else LATENCY) for n in range(ROUNDS)][-1]
            alone = measure_alone(platform, github)
        finally:
            platform.kill()
    ratio = together["seconds"] / alone["chainSeconds"]
    print(f"one alone          {alone['seconds']:6.2f} s, of which GitHub {alone['chainSeconds']:.2f} s")
    print(f"{IN_FLIGHT} in flight       {together['seconds']:6.2f} s = {ratio:.2f} x GitHub (at most {TARGET})")
    print(f"archives           {together['archives']:6} for {IN_FLIGHT} submissions")
    print(f"CPU of the workers {together['cpuSeconds']:6.2f} s; the machine's load before was {together['loadBefore']}")
    record = {"alone": alone, "together": together, "ratio": round(ratio, 2), "target": TARGET, "machine": _machine()}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    return int(ratio > TARGET or together["archives"] != IN_FLIGHT)


def measure_together(platform: Platform, github: StubGitHub, n: int, latency: float) -> dict[str, Any]:
    load = os.getloadavg()[0]
    name = f"acme/many{n}"
    github.latency = 0.0
    ids = queue_up_behind_busy_workers(platform, github, name, lambda: setattr(github, "latency", latency))
    started, cpu = time.time(), _cpu_of_workers(platform)
    done = [_published(platform, submission_id) for submission_id in ids]
    return {
        "seconds": round(max(done) - started, 2),
        "archives": asked_for(github, name, "codeload"),
        "cpuSeconds": round(_cpu_of_workers(platform) - cpu, 2),
        "loadBefore": round(load, 1),
    }


def measure_alone(platform: Platform, github: StubGitHub) -> dict[str, Any]:
    [body] = with_skills(github, "acme/alone", 1)
    github.asked.clear()
    started = time.time()
    ended = _published(platform, submit(platform, github, body))
    return {"seconds": round(ended - started, 2), "chainSeconds": round(_waiting_time([a.at for a in github.asked]), 2)}


def _waiting_time(asked_at: list[float]) -> float:
    """The time during which at least one response was outstanding, each for the latency of GitHub."""
    total, until = 0.0, 0.0
    for at in sorted(asked_at):
        total += max(0.0, at + LATENCY - max(at, until))
        until = max(until, at + LATENCY)
    return total


def _published(platform: Platform, submission_id: str) -> float:
    """The time of publication, from the history."""
    path = f"/api/v1/submissions/{submission_id}"

    def settled() -> Any:
        time.sleep(0.2)  # polling must not load the machine that is measured
        record = platform.json("GET", path)[1]
        return record if record["category"] != "active" else None

    record = eventually(settled, 120)
    moves = [entry["to"] for entry in record["stateHistory"]]
    if moves != ["RECEIVED", "TIER1_SCANNING", "AUTO_APPROVED", "PUBLISHED"]:
        raise SystemExit(f"{submission_id} was not published directly: {moves}, {record['reason']}")
    return datetime.fromisoformat(record["stateHistory"][-1]["timestamp"]).timestamp()


def _cpu_of_workers(platform: Platform) -> float:
    pids = platform.info["workers"]["Consumer"]
    assert len(pids) == WORKERS
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(parts[11]) + int(parts[12]) for parts in fields) / TICKS


def _machine() -> dict[str, Any]:
    return {"python": machine.python_version(), "processor": machine.machine(), "cores": os.cpu_count()}


if __name__ == "__main__":
    sys.exit(main())
