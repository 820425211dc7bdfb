"""SIGKILL of everything at random moments, under load: what was acknowledged is there at the next start.

    PYTHONPATH=. .venv/bin/python -m tests.faults.kills --times 50 --seed 1

Clients submit skills, and an operator blocks some of them. At a random moment the runner, the store and every worker
are killed. After each start, every acknowledged submission must be answered and every acknowledged decision must hold;
at the end everything comes to rest, and the counters must equal a recount.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tests.support.faulty_platform import FaultyPlatform, bundle
from tests.support.platform import Platform, eventually
from tests.support.quiescence import wrong_at_rest

RESULT = Path(__file__).parents[2] / "bench" / "results" / "kills.json"
CLIENTS = 6
FIRST, LAST = 0.05, 2.0  # seconds of load before a kill
PATIENCE = 180.0


class Kills:
    def __init__(self, directory: Path, seed: int) -> None:
        self._directory, self._dice = directory, random.Random(seed)
        self._stopping = threading.Event()
        self._number = 0
        self.submitted: list[str] = []  # ids, acknowledged
        self.blocked: list[str] = []
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
        clients = [threading.Thread(target=self._submit_many, args=(platform,)) for _ in range(CLIENTS)]
        for client in (*clients, operator := threading.Thread(target=self._block_some, args=(platform,))):
            client.start()
        time.sleep(seconds)
        platform.kill()
        self._stopping.set()
        for client in (*clients, operator):
            client.join()

    def _submit_many(self, platform: Platform) -> None:
        while not self._stopping.is_set():
            self._number += 1
            with suppress(OSError, http.client.HTTPException, ValueError):
                status, answer = platform.json("POST", "/api/v1/submissions", bundle(f"kill-{self._number}-{id(self)}"))
                if status in (200, 201):
                    self.submitted.append(answer["id"])

    def _block_some(self, platform: Platform) -> None:
        headers = {"authorization": f"Bearer {platform.admin_token}"}
        while not self._stopping.is_set():
            self._stopping.wait(0.05)
            left = list(set(self.submitted[-30:]) - set(self.blocked))
            if left:
                one = self._dice.choice(left)
                with suppress(OSError, http.client.HTTPException, ValueError):
                    path = f"/api/v1/admin/submissions/{one}/block"
                    if platform.json("POST", path, {"reason": "A decision."}, headers)[0] == 200:
                        self.blocked.append(one)

    def _missing(self, platform: Platform) -> list[str]:
        def read(submission_id: str) -> tuple[str, int, str]:
            status, answer = platform.json("GET", f"/api/v1/submissions/{submission_id}")
            return submission_id, status, answer.get("state", "")

        recent, decided = self.submitted[-200:], set(self.blocked)
        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(read, recent))
        lost = [f"{one} was acknowledged and is answered {status}" for one, status, _ in answers if status != 200]
        undone = [f"{one} was blocked and is {state}" for one, _, state in answers if one in decided]
        return lost + [problem for problem in undone if not problem.endswith(" BLOCKED")]

    def _wrong_at_rest(self, platform: Platform) -> list[str]:
        nothing = cast(Any, None)  # no proxy and no stubs: nothing but SIGKILL goes wrong here
        watched = FaultyPlatform(platform, nothing, nothing, nothing, platform.info["endpoint"])

        def is_at_rest() -> bool:
            _, stats = watched.insist("GET", "/api/v1/submissions/stats")
            return stats["active"] == 0 and watched.messages() == 0 and watched.unindexed() == 0

        eventually(is_at_rest, PATIENCE)
        undone = [one for one in self.blocked if watched.record(one)["state"] != "BLOCKED"]
        problems = [f"{one} was blocked and is not any more" for one in undone]
        return problems + wrong_at_rest(watched, self.submitted, [])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        kills = Kills(Path(folder), options.seed)
        kills.run(options.times)
    report = {
        "kills": options.times,
        "seed": options.seed,
        "seconds": round(time.monotonic() - started),
        "machine": {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
        "acknowledgedSubmissions": len(set(kills.submitted)),
        "acknowledgedDecisions": len(kills.blocked),
        "startsThatCutATornTail": kills.cuts,
        "problems": kills.problems,
    }
    print(json.dumps(report, indent=1))
    if options.times >= 50:
        RESULT.write_text(json.dumps(report, indent=1) + "\n")
    return int(bool(kills.problems) or not kills.submitted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
