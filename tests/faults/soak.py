"""The platform under a steady load, with every fault we know; then the faults stop and everything is checked.

python -m tests.faults.soak --minutes 10 --seed 1        (make soak MINUTES=10 SEED=1 TIME_SCALE=0.03)

Workers are killed in the middle of what they do, the store throttles, conflicts, loses requests and replies, messages
come twice and late, some name nothing; GitHub and the judge are down for two hours (scaled) each. Exit code 1 when
anything accepted is lost, published twice, miscounted or still moving.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from shared.records.submissions import CATEGORY_OF
from shared.submissions.submission_store import history_in
from tests.support.builders import REVERSE_SHELL
from tests.support.fault_proxy import pid_of
from tests.support.faulty_platform import FaultyPlatform, bundle, faulty_platform, skill_md
from tests.support.platform import kill
from tests.support.quiescence import letters_of, records_of, wrong_at_rest

CLIENTS = 8
REPORT_EVERY = 15.0
TWO_HOURS = 7200.0
PATIENCE = 120.0  # without any progress, after the faults are over
FAULTS = (
    {"kind": "throttle", "chance": 0.010},
    {"kind": "conflict", "action": "TransactWriteItems", "chance": 0.020},
    {"kind": "unprocessed", "action": "BatchGetItem", "chance": 0.030, "share": 0.5},
    {"kind": "broken", "chance": 0.003},
    {"kind": "drop before", "chance": 0.006},
    {"kind": "drop after", "chance": 0.006},
    {"kind": "drop after", "action": "TransactWriteItems", "chance": 0.020},
    {"kind": "drop after", "action": "SendMessage", "chance": 0.050},
    {"kind": "truncate", "chance": 0.003},
    {"kind": "delay", "chance": 0.010, "seconds": 0.3},
)


class Soak:
    def __init__(self, faulty: FaultyPlatform, options: argparse.Namespace) -> None:
        self.faulty, self.options = faulty, options
        self.dice = random.Random(options.seed)
        self.started = time.monotonic()
        self.ends = self.started + options.minutes * 60
        self.stopping = threading.Event()
        self.accepted: dict[str, str | None] = {}  # id -> upload token
        self.names: dict[str, str] = {}
        self.answered = 0
        self.unanswered: list[str] = []
        self.poison: list[str] = []
        self.kills: Counter[str] = Counter()
        self.sent_twice = 0
        self.scans = 0

    # --- faults ---

    def spoil(self) -> list[threading.Thread]:
        for fault in FAULTS:
            self.faulty.proxy.add(**fault)
        jobs = {
            self.kill_workers: 60 / self.options.kills,
            self.repeat_messages: 1.5,
            self.send_poison: 15.0,
            self.scan_on_demand: 10.0,
        }
        threads = [threading.Thread(target=self._now_and_then, args=job, daemon=True) for job in jobs.items()]
        threads.append(threading.Thread(target=self.outages, daemon=True))
        for thread in threads:
            thread.start()
        return threads

    def _now_and_then(self, job, mean_seconds: float) -> None:
        dice = random.Random(f"{self.options.seed} {job.__name__}")
        while not self.stopping.wait(min(dice.expovariate(1 / mean_seconds), 5 * mean_seconds)):
            try:
                job(dice)
            except (AssertionError, OSError, KeyError, ValueError) as error:  # the platform is being broken on purpose
                print(f"  {job.__name__}: {error!r}"[:200], flush=True)

    def kill_workers(self, dice: random.Random) -> None:
        """Most of them in the middle of a request to the store, some while they wait; now and then another function."""
        consumers = self.faulty.workers()
        deadline = time.monotonic() + 2
        while dice.random() < 0.9 and time.monotonic() < deadline:
            for asked in list(self.faulty.proxy.under_way.values()):
                pid = asked.action != "ReceiveMessage" and pid_of(asked.port, consumers)
                if pid:
                    kill(pid)
                    self.kills["a consumer at work"] += 1
                    return
            time.sleep(0.005)
        other = dice.choice(["Consumer", "Consumer", "Consumer", "SubmissionsApi", "StuckScan", "DeadLettersFunction"])
        if pids := self.faulty.workers(other):
            kill(dice.choice(pids))
            self.kills["a consumer" if other == "Consumer" else other] += 1

    def repeat_messages(self, dice: random.Random) -> None:
        if self.accepted:
            recent = list(self.accepted)[-50:]
            known = recent if dice.random() < 0.7 else list(self.accepted)
            copies = dice.randint(1, 3)
            self.faulty.send(dice.choice(known), copies)
            self.sent_twice += copies

    def send_poison(self, dice: random.Random) -> None:
        body = dice.choice(["not json", "{}", '{"schema": 1, "id": "sub_none"}', "null"])
        sent = self.faulty.sqs.send_message(QueueUrl=self.faulty.queue_url, MessageBody=body)
        self.poison.append(sent["MessageId"])

    def scan_on_demand(self, dice: random.Random) -> None:
        self.faulty.scan()
        self.scans += 1

    def outages(self) -> None:
        """GitHub for two hours, then the judge, scaled; in a short soak for a good third of it each."""
        length = min(TWO_HOURS * self.options.scale, self.options.minutes * 60 * 0.36)
        gap = max(0.0, (self.options.minutes * 60 - 2 * length) / 4)
        for break_, mend in (
            (lambda: self.faulty.github.fail("any", "500"), lambda: self.faulty.github.fail("any", None)),
            (lambda: setattr(self.faulty.judge, "mode", "500"), lambda: setattr(self.faulty.judge, "mode", "pass")),
        ):
            if not self.stopping.wait(gap):
                break_()
                self.stopping.wait(length)
                mend()

    # --- load ---

    def load(self) -> None:
        """A submission every so often, whatever became of those before."""
        reported = self.started
        number = 0
        with ThreadPoolExecutor(CLIENTS) as pool:
            running: list[Future[None]] = []
            while (now := time.monotonic()) < self.ends:
                if self.started + number / self.options.load <= now:
                    number += 1
                    running.append(pool.submit(self.submit, number, random.Random(f"{self.options.seed} {number}")))
                    running = [one for one in running if not one.done() or one.result()]
                if now - reported >= REPORT_EVERY:
                    reported = now
                    self.print_progress()
                time.sleep(0.01)
            self.stop()
            for one in running:
                one.result()

    def submit(self, number: int, dice: random.Random) -> None:
        kind = dice.choices(["new", "repository", "harmful", "changed", "again"], [60, 20, 5, 10, 5])[0]
        name = f"soak-{number}"
        known = dice.choice(list(self.names)) if self.names else None
        if kind in ("changed", "again") and known:
            text = f"Version {number}." if kind == "changed" else "Say hello."
            body = {**bundle(known, text), "uploadToken": self.names[known]}
        elif kind == "repository":
            self.faulty.github.repo(f"acme/{name}", {"SKILL.md": skill_md(name)})
            body = {"repoUrl": f"https://github.com/acme/{name}", "skillPath": "."}
        else:
            body = bundle(name)
            if kind == "harmful":
                body["bundle"]["files"].append({"path": "run.sh", "content": REVERSE_SHELL})
        self.remember(name, body, dice)

    def remember(self, name: str, body: dict, dice: random.Random) -> None:
        key = {"idempotency-key": f"{dice.getrandbits(128):032x}"}
        status, answer = self.faulty.insist("POST", "/api/v1/submissions", body, key)
        if status not in (200, 201):
            self.unanswered.append(f"{name}: {status} {answer}"[:200])
            return
        self.answered += 1
        self.accepted.setdefault(answer["id"], answer.get("uploadToken"))
        if answer.get("uploadToken"):
            self.names[name] = answer["uploadToken"]

    # --- the end ---

    def stop(self) -> None:
        self.stopping.set()
        self.faulty.proxy.clear()
        self.faulty.github.fail("any", None)
        self.faulty.judge.mode = "pass"
        print(f"{self.passed():5.0f} s  the faults are over; waiting until everything is at rest", flush=True)

    def wait_for_rest(self) -> bool:
        """As long as there is progress: how fast it is says more about the machine than about the platform."""
        least, progressed, reported, quiet = None, time.monotonic(), time.monotonic(), 0
        while quiet < 3 and time.monotonic() - progressed < PATIENCE:
            _, stats = self.faulty.insist("GET", "/api/v1/submissions/stats")
            messages = self.faulty.messages() + self.faulty.messages("deadLetterQueueUrl")
            left = (stats.get("active") or 0) + messages + self.faulty.unindexed()
            quiet = quiet + 1 if left == 0 and stats.get("active") == 0 else 0
            if least is None or left < least:
                least, progressed = left, time.monotonic()
            if time.monotonic() - reported >= REPORT_EVERY:
                reported = time.monotonic()
                print(f"{self.passed():5.0f} s  {stats.get('active')} active, {messages} messages", flush=True)
            time.sleep(0.3)
        return quiet >= 3

    def passed(self) -> float:
        return time.monotonic() - self.started

    def print_progress(self) -> None:
        status, stats = self.faulty.insist("GET", "/api/v1/submissions/stats", seconds=5)
        cards = (
            {name: stats.get(name) for name in ("active", "published", "rejected", "onHold")} if status == 200 else "?"
        )
        print(
            f"{self.passed():5.0f} s  {len(self.accepted)} accepted, {cards}, {sum(self.kills.values())} killed,"
            f" {sum(self.faulty.proxy.injected.values())} faults on the wire",
            flush=True,
        )

    def report(self, rested: bool) -> bool:
        problems = [] if rested else [f"I12: not at rest, and no progress for {PATIENCE:.0f} s"]
        problems += wrong_at_rest(self.faulty, self.accepted, self.poison)
        stored = self.faulty.stored()
        records = records_of(stored)
        ends = Counter(CATEGORY_OF[record["state"]] for record in records.values())
        attempts = Counter(record.get("attempts", 0) for record in records.values())
        recovered = sum(
            entry.actor == "recovery"
            for key, item in stored.items.items()
            if key.pk[:5] == "hist:"
            for entry in history_in(item.doc)
        )
        parked = Counter(record["reason"] for record in records.values() if CATEGORY_OF[record["state"]] == "onHold")
        injected = self.faulty.proxy.injected
        rate = self.answered / self.options.minutes / 60
        at_work = self.faulty.platform.output.count("signal 9")
        lines = {
            "load held": f"{self.answered} requests, {rate:.2f} a second (wanted: {self.options.load:g})",
            "submissions": f"{len(self.accepted)} accepted; {len(self.unanswered)} requests without an answer",
            "workers killed": f"{sum(self.kills.values())} {dict(self.kills)}; {at_work} during an invocation",
            "faults on the wire": f"{sum(injected.values())} {dict(injected)}",
            "messages": f"{self.sent_twice} sent twice, {len(self.poison)} poison; {self.scans} scans on demand",
            "ended as": f"{dict(ends)}; attempts {dict(sorted(attempts.items()))}; {recovered} recoveries",
            "on hold": str(dict(parked)),
            "dead letters": f"{len(letters_of(stored))}, of them {len(self.poison)} poison",
            "submissions lost": str(sum(problem.startswith("I1:") for problem in problems)),
            "published twice": str(sum(problem.startswith("I4:") for problem in problems)),
        }
        print(f"\nseed {self.options.seed}, TIME_SCALE {self.options.scale}, {self.options.minutes:g} minutes")
        print("\n".join(f"{name:20}{value}" for name, value in lines.items()))
        for problem in [*problems, *self.unanswered][:40]:
            print(f"WRONG  {problem}")
        return not problems and not self.unanswered


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        directory = options.keep or Path(folder)
        directory.mkdir(parents=True, exist_ok=True)
        settings = {"TIME_SCALE": str(options.scale), "LOG_LEVEL": "INFO", "EXTERNAL_SCANNERS": ""}
        with faulty_platform(directory, options.seed, **settings) as faulty:
            soak = Soak(faulty, options)
            print(f"{faulty.platform.url} for {options.minutes:g} minutes, seed {options.seed}", flush=True)
            threads = soak.spoil()
            soak.load()
            for thread in threads:
                thread.join(30)
            is_good = soak.report(soak.wait_for_rest())
    print("\nNothing was lost." if is_good else "\nFAILED")
    return 0 if is_good else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=2.0, help="submissions a second")
    parser.add_argument("--kills", type=float, default=15.0, help="workers killed a minute")
    parser.add_argument("--scale", type=float, default=float(os.environ.get("TIME_SCALE") or 0.03))
    parser.add_argument("--keep", type=Path, help="a folder for the platform's data and log, kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
