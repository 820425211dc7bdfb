"""SIGKILL of everything at random moments, under load: what was acknowledged is there at the next start.

    PYTHONPATH=. .venv/bin/python -m tests.faults.kills --times 50 --seed 1

Clients submit skills, and operators take some out of the queue, block some, and reject some of the blocked. At a random
moment the runner, the store and every worker are killed. After each start, every acknowledged submission must be
answered and every acknowledged decision must hold; at the end everything comes to rest, and the counters must equal a
recount.
"""

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from shared.records.submissions import State
from tests.support.faulty_platform import FaultyPlatform, bundle
from tests.support.platform import Platform, eventually
from tests.support.quiescence import wrong_at_rest

RESULT = Path(__file__).parents[2] / "bench" / "results" / "kills.json"
CLIENTS = 6
OPERATORS = 2
DECISIONS = {"block": "BLOCKED", "reject": "REJECTED", "dequeue": "DEQUEUED"}
FIRST, LAST = 0.05, 2.0  # seconds of load before a kill
PATIENCE = 180.0
STATES = frozenset(State)


class Kills:
    def __init__(self, directory: Path, seed: int) -> None:
        self._directory, self._dice = directory, random.Random(seed)
        self._stopping = threading.Event()
        self._number = 0
        self.submitted: list[str] = []  # ids, acknowledged
        self.decided: dict[str, set[str]] = {}  # the states that the last decision, or one without an answer, allows
        self.decisions: Counter[str] = Counter()  # acknowledged
        self._deciding: set[str] = set()
        self.cuts = 0
        self.problems: list[str] = []

    def run(self, times: int) -> None:
        for _ in range(times):
            platform = self._start()
            try:
                self.problems += self._missing(platform)
                self._load_until(platform, self._dice.uniform(FIRST, LAST))
            finally:
                platform.kill()
        platform = self._start()
        try:
            self.problems += self._missing(platform)
            self.problems += self._wrong_at_rest(platform)
        finally:
            platform.kill()

    def _start(self) -> Platform:
        platform = Platform.start(self._directory, TIME_SCALE="0.05", EXTERNAL_SCANNERS="", LOG_LEVEL="WARNING")
        self.cuts += platform.output.count("The store cut ")
        return platform

    def _load_until(self, platform: Platform, seconds: float) -> None:
        """The platform dies while every client is in the middle of a request."""
        self._stopping = threading.Event()
        work = [self._submit_many] * CLIENTS + [self._decide_some] * OPERATORS
        threads = [threading.Thread(target=one, args=(platform,)) for one in work]
        for thread in threads:
            thread.start()
        eventually(lambda: self.decisions, PATIENCE)  # true from the first on
        time.sleep(seconds)
        platform.kill()
        self._stopping.set()
        for thread in threads:
            thread.join()

    def _submit_many(self, platform: Platform) -> None:
        while not self._stopping.is_set():
            self._number += 1
            with suppress(OSError, http.client.HTTPException, ValueError):
                status, answer = platform.json("POST", "/api/v1/submissions", bundle(f"kill-{self._number}-{id(self)}"))
                if status in (200, 201):
                    self.submitted.append(answer["id"])

    def _decide_some(self, platform: Platform) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(0.02)
            recent = sorted({*self.submitted[-30:]} - self._deciding)
            if recent:
                one = self._dice.choice(recent)
                self._deciding.add(one)  # one operator at a time
                self._decide(platform, one)
                self._deciding.discard(one)

    def _decide(self, platform: Platform, one: str) -> None:
        """A request without an answer may have been carried out, or not."""
        before = self.decided.get(one)
        verb = "reject" if before == {"BLOCKED"} else self._dice.choice(["block", "dequeue"]) if not before else None
        if verb is None:
            return
        status, headers = None, {"authorization": f"Bearer {platform.admin_token}"}
        with suppress(OSError, http.client.HTTPException, ValueError):
            path = f"/api/v1/admin/submissions/{one}/{verb}"
            status, _ = platform.json("POST", path, {"reason": "A decision."}, headers)
        if status == 200:
            self.decisions[verb] += 1
            self.decided[one] = {DECISIONS[verb]}
        elif status is None or status >= 500:
            self.decided[one] = {DECISIONS[verb], *(before or {*STATES})}

    def _missing(self, platform: Platform) -> list[str]:
        def read(submission_id: str) -> tuple[str, int, str]:
            status, answer = platform.json("GET", f"/api/v1/submissions/{submission_id}")
            return submission_id, status, answer.get("state", "")

        recent = self.submitted[-200:]
        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(read, recent))
        lost = [f"{one} was acknowledged and is answered {status}" for one, status, _ in answers if status != 200]
        return lost + self._undone({one: state for one, _, state in answers})

    def _undone(self, states: dict[str, str]) -> list[str]:
        wrong = {one: state for one, state in states.items() if state not in self.decided.get(one, {*STATES, state})}
        return [f"{one} is {state}, after a decision for {sorted(self.decided[one])}" for one, state in wrong.items()]

    def _wrong_at_rest(self, platform: Platform) -> list[str]:
        nothing = cast(Any, None)  # no proxy and no stubs: nothing but SIGKILL goes wrong here
        watched = FaultyPlatform(platform, nothing, nothing, nothing, platform.info["endpoint"])

        def is_at_rest() -> bool:
            _, stats = watched.insist("GET", "/api/v1/submissions/stats")
            return stats["active"] == 0 and watched.messages() == 0 and watched.unindexed() == 0

        eventually(is_at_rest, PATIENCE)
        problems = self._undone({one: watched.record(one)["state"] for one in self.decided})
        return problems + wrong_at_rest(watched, self.submitted, [])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    started, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        kills = Kills(Path(folder), options.seed)
        kills.run(options.times)
    report = {
        "kills": options.times,
        "seed": options.seed,
        "seconds": round(time.monotonic() - started),
        "machine": {"cores": os.cpu_count(), "loadBefore": round(load, 1)},
        "acknowledgedSubmissions": len(set(kills.submitted)),
        "acknowledgedDecisions": dict(kills.decisions),
        "startsThatCutATornTail": kills.cuts,
        "problems": kills.problems,
    }
    print(json.dumps(report, indent=1))
    if options.times >= 50:
        RESULT.write_text(json.dumps(report, indent=1) + "\n")
    return int(bool(kills.problems) or not kills.submitted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
