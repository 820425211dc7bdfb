"""Thirty hostile skills beside thirty harmless ones, on the running platform.

python -m bench.hostile            prints a table and writes bench/results/hostile.json
python -m bench.hostile --quick    three of each, to see that it runs; writes nothing

A round of both kinds starts all workers. Then the same number of harmless skills is submitted alone: their times, from
the request to the end, are the baseline. They are sent the same way, four clients at a time, without and with hostile
ones of every kind between them; each has a text of its own, so that no scan is spared by an earlier one. Then they come
behind what single addresses can send: a batch of 50 skills of one repository, and another sender's batches until its
share of the queue, or its limit of skills, is used up. Limits are on, and every other submission has an address of its
own. The memory is the sum of PSS of a worker and its scan processes, several times a second.
"""

import argparse
import json
import os
import platform as machine
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.hostile_submissions import QUICK, Files, harmless, hostile_repositories, hostile_texts
from tests.support.platform import Platform
from tests.support.stub_github import StubGitHub

RESULTS = Path(__file__).parent / "results" / "hostile.json"
COUNT, BATCH = 30, 50
BATCHES = 3  # more skills than one address may submit in an hour
LIMITED = {"RATE_LIMITS": "submit=10/3600 skills=100/3600", "MAX_ACTIVE": "600", "TRUSTED_PROXY": "127.0.0.1"}
MOST_ASKED = 10  # of GitHub, for one batch
LONGEST = 120.0  # seconds to wait; a hostile skill may still be tried again then
MOST_PER_SCAN, MOST_PER_WORKER = 300, 700  # MB
SPREAD = 60.0  # seconds that the last one may take beyond twice the median alone


class Flood(NamedTuple):
    """What one address has sent."""

    ids: list[str]
    refused: Counter[str]  # skills, by the code of the refusal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three of each, to see that it runs; writes nothing")
    is_quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as directory, StubGitHub() as github:
        platform = Platform.start(Path(directory), template=None, **{"GITHUB_API_URL": github.url} | LIMITED)
        try:
            record = measure(platform, github, list(QUICK) if is_quick else all_kinds())
        finally:
            platform.kill()
    if not is_quick:
        RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    return report(record)


def all_kinds() -> list[str]:
    kinds = [*hostile_texts(), *hostile_repositories()]
    assert len(kinds) == COUNT
    return kinds


def measure(platform: Platform, github: StubGitHub, kinds: list[str]) -> dict[str, Any]:
    count = len(kinds)
    finish(platform, submit_all(platform, mixed(github, kinds, "warm")))  # starts the workers and their scan processes
    alone = finish(platform, submit_all(platform, innocent("alone", count)))
    with Memory(platform) as memory:
        started = time.monotonic()
        ids = submit_all(platform, mixed(github, kinds, "beside"))
        beside, attacks = finish(platform, ids[1::2]), finish(platform, ids[0::2])
        batch = flood(platform, github, "batch", 1)
        share = flood(platform, github, "share", BATCHES)
        behind = finish(platform, submit_all(platform, innocent("behind", count)))
        flooded = {"batch": finish(platform, batch.ids), "share": finish(platform, share.ids)}
    asked = [one for one in github.asked if "/acme/batch" in one.path]
    return {
        "count": count,
        "alone": summary(alone),
        "beside": summary(beside),
        "behind": summary(behind),
        "hostile": {f"{n:02} {kind}": outcome(each) for n, (kind, each) in enumerate(zip(kinds, attacks, strict=True))},
        "batch": states_of(flooded["batch"]) | {"askedOfGitHub": len(asked), "refused": dict(batch.refused)},
        "share": states_of(flooded["share"]) | {"refused": dict(share.refused)},
        "secondsInAll": round(time.monotonic() - started, 1),
        "timedOut": platform.output.count("timed out"),
        "scanProcessMb": round(memory.scan),
        "workerMb": round(memory.worker),
        "machine": {"python": machine.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }


def innocent(name: str, count: int) -> list[dict[str, Any]]:
    return [upload(f"{name}-{n}", harmless(hash((name, n)) % 10**6)) for n in range(count)]


def mixed(github: StubGitHub, kinds: list[str], name: str) -> list[dict[str, Any]]:
    """A hostile one before each harmless one."""
    pairs = zip(hostile_bodies(github, kinds, name), innocent(name, len(kinds)), strict=True)
    return [body for pair in pairs for body in pair]


def hostile_bodies(github: StubGitHub, kinds: list[str], name: str) -> list[dict[str, Any]]:
    texts, repositories = hostile_texts(), hostile_repositories()
    own = {"round.md": name.encode()}

    def body_of(n: int, kind: str) -> dict[str, Any]:
        if kind in texts:
            return upload(f"hostile-{name}-{n}", texts[kind] | own)
        files = repositories[kind] | own
        github.repo(f"acme/{name}{n}", {f"skills/a/{path}": body for path, body in files.items()})
        return {"repoUrl": f"https://github.com/acme/{name}{n}", "skillPath": "skills/a"}

    return [body_of(n, kind) for n, kind in enumerate(kinds)]


def flood(platform: Platform, github: StubGitHub, name: str, batches: int) -> Flood:
    """Batches of skills of one repository, from one address."""
    skills = [f"{name}-{n}" for n in range(batches * BATCH)]
    github.repo(f"acme/{name}", {f"skills/{skill}/SKILL.md": harmless(n)["SKILL.md"] for n, skill in enumerate(skills)})
    sent = Flood([], Counter())
    for first in range(0, len(skills), BATCH):
        named = [{"name": skill, "path": f"skills/{skill}"} for skill in skills[first : first + BATCH]]
        body = {"repoUrl": f"https://github.com/acme/{name}", "skills": named}
        status, answer = platform.json("POST", "/api/v1/submissions", body, {"x-forwarded-for": f"192.0.2.{batches}"})
        if status >= 400:
            sent.refused[answer["error"]["code"]] += BATCH
            continue
        sent.ids.extend(each["id"] for each in answer["submissions"])
        sent.refused.update(each["code"] for each in answer["skipped"])
    return sent


def states_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"accepted": len(records), "states": dict(Counter(record["state"] for record in records))}


def upload(name: str, files: Files) -> dict[str, Any]:
    return {"bundle": {"name": name, "files": [{"path": p, "content": body.decode()} for p, body in files.items()]}}


def submit_all(platform: Platform, bodies: list[dict[str, Any]]) -> list[str]:
    """Each from an address of its own, where the platform believes that header. What is refused has its code as id."""

    def submit(n: int, body: dict[str, Any]) -> str:
        status, answer = platform.json("POST", "/api/v1/submissions", body, {"x-forwarded-for": f"198.51.100.{n}"})
        return str(answer["id"] if status == 201 else answer["error"]["code"])

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(submit, range(1, len(bodies) + 1), bodies))


def finish(platform: Platform, ids: list[str]) -> list[dict[str, Any]]:
    """Their records, in the end or after the longest wait."""
    ends = time.monotonic() + LONGEST
    records = []
    for submission_id in ids:
        status, record = platform.json("GET", f"/api/v1/submissions/{submission_id}")
        if status == 404:
            records.append({"state": "REFUSED", "reason": submission_id, "stateHistory": []})
            continue
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
    if not record["stateHistory"]:
        return 0.0
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
            workers = self._platform.info["workers"]
            for pid in [*workers.get("Consumer", []), *workers.get("LongScans", [])]:
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


def punctual(record: dict[str, Any], where: str) -> dict[str, bool]:
    """What harmless skills are owed beside hostile ones, or behind a flood."""
    count, these, alone = record["count"], record[where], record["alone"]["medianSeconds"]
    median, last = these["medianSeconds"], these["lastSeconds"]
    return {
        f"{where}: published at the first attempt: {these['atFirstAttempt']} of {count}": (
            these["published"] == these["atFirstAttempt"] == count
        ),
        f"{where}: median {median} s, alone {alone} s": median <= 2 * alone,
        f"{where}: last {last} s, at most {2 * alone + SPREAD:.1f} s": last <= 2 * alone + SPREAD,
    }


def report(record: dict[str, Any]) -> int:
    batch, share = record["batch"], record["share"]
    held = {
        **punctual(record, "beside"),
        **punctual(record, "behind"),
        f"a batch of {BATCH} skills: {batch['accepted']} accepted, GitHub asked {batch['askedOfGitHub']} times": (
            batch["accepted"] == BATCH and batch["askedOfGitHub"] <= MOST_ASKED
        ),
        f"one sender's {BATCHES * BATCH} skills: {share['accepted']} accepted, refused {share['refused']}": bool(
            share["refused"]
        ),
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
