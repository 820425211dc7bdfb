"""What one machine sustains: submissions from POST to PUBLISHED, GET /queue and searches, and where the time goes.

    PYTHONPATH=. .venv/bin/python -m bench.throughput [--baseline COMMIT]     # writes bench/results/throughput.json

The baseline, the last commit with an emulator as its store and the SDK as its client, is checked out into a temporary
worktree and measured in the same run, in rounds that alternate. Each round starts a platform, uploads 50 skills of 20
KB at one moment, warms it up, does that again, submits more with 8 clients, waits until all are published, then reads.
The rate is that of the whole chain; the CPU time is that of every process of the platform, by its part.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[1]
RESULT = Path(__file__).parent / "results" / "throughput.json"
CLIENTS = 8
WARM_UP = 30
BURST = 50
SKILL_BYTES = 20_000
READ_SECONDS = 6.0
READS = {"GET /queue": "/queue", "search": "/api/v1/skills?q=load", "list": "/api/v1/submissions?limit=50"}
SENTENCE = "- Use the {} with the {} when it is {}, and then read the {} for {}."
TARGET = 2.0
BASELINE = "00a966f"
TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """A platform of one source tree, and the CPU time of its parts."""

    def __init__(self, tree: Path, directory: Path) -> None:
        self._directory = directory
        self._output = (directory.parent / f"{directory.name}.output").open("wb")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        own = {"PORT": "0", "SAMPLES": "0", "LOCAL_DIR": str(directory), "MAX_ACTIVE": "10000", "LOG_LEVEL": "INFO"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "local"],
            cwd=tree,
            env={**clean, **own, "PYTHONPATH": str(tree)},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 120
        while not self._is_ready():
            assert time.monotonic() < deadline, "the platform did not start"
            time.sleep(0.1)

    @property
    def info(self) -> dict[str, Any]:
        return json.loads((self._directory / "platform.json").read_text())

    def cpu_seconds(self) -> Counter[str]:
        """By part: the runner, the store, each function with the processes that scan for it."""
        info = self.info
        parts = {pid: name for name, pids in info["workers"].items() for pid in pids}
        parts |= {info["pid"]: "runner", info["emulatorPid"]: "store"}
        parents = {pid: (parent, seconds) for pid, parent, seconds in _processes()}
        spent: Counter[str] = Counter()
        for pid, (_, seconds) in parents.items():
            ancestor = pid
            while ancestor not in parts and ancestor in parents:
                ancestor = parents[ancestor][0]
            if ancestor in parts:
                spent[parts[ancestor] + (" (scan)" if ancestor != pid else "")] += seconds
        return spent

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._output.close()

    def _is_ready(self) -> bool:
        with suppress(OSError, ValueError):
            return bool(self.info["ready"])
        return False


def _processes() -> Iterator[tuple[int, int, float]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15])) / TICKS  # with ended children


# --- one round ------------------------------------------------------------------------------------------------------


async def measure(tree: Path, submissions: int, number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-throughput-") as folder:
        machine = Machine(tree, Path(folder) / "local")
        try:
            async with aiohttp.ClientSession(machine.info["url"], timeout=aiohttp.ClientTimeout(total=60)) as http:
                bursts = {f"{BURST} at once, just started": await _measured(machine, burst(http, f"start-{number}"))}
                await publish(http, WARM_UP, f"warm-{number}")
                bursts[f"{BURST} at once"] = await _measured(machine, burst(http, f"burst-{number}"))
                cases = {"POST to PUBLISHED": publish(http, submissions, f"load-{number}")}
                cases |= {name: read(http, path) for name, path in READS.items()}
                return {name: await _measured(machine, case) for name, case in cases.items()} | bursts
        finally:
            machine.stop()


async def _measured(machine: Machine, case: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    before, started = machine.cpu_seconds(), time.perf_counter()
    found = await case
    done, seconds, after = found["done"], time.perf_counter() - started, machine.cpu_seconds()
    parts = {part: round(1000 * (after[part] - before[part]) / done, 2) for part in after}
    return {
        **found,
        "perSecond": round(done / seconds, 2),
        "cpuMs": round(sum(parts.values()), 2),
        "parts": {part: ms for part, ms in sorted(parts.items(), key=lambda item: -item[1]) if ms >= 0.05},
    }


async def publish(http: aiohttp.ClientSession, count: int, name: str, clients: int = CLIENTS) -> dict[str, Any]:
    before = await _stats(http)
    bodies = iter([_bundle(f"{name}-{n}") for n in range(count)])

    async def client() -> None:
        for body in bodies:
            async with http.post("/api/v1/submissions", json=body) as response:
                assert response.status == 201, await response.text()

    await asyncio.gather(*(client() for _ in range(clients)))
    while (after := await _stats(http))["active"]:  # noqa: ASYNC110 only the platform knows
        await asyncio.sleep(0.2)
    published = int(after["published"] - before["published"])
    assert published == count, after
    return {"done": published}


async def burst(http: aiohttp.ClientSession, name: str) -> dict[str, Any]:
    """Uploads at one moment, and how long after it each was published."""
    started = datetime.now(UTC)
    found = await publish(http, BURST, name, clients=BURST)
    async with http.get(f"/api/v1/submissions?limit={BURST}") as response:
        rows = (await response.json())["submissions"]
    assert all(row["skillName"].rpartition("/")[2].startswith(name) for row in rows), rows
    seconds = sorted((datetime.fromisoformat(row["updatedAt"]) - started).total_seconds() for row in rows)
    return {**found, "p50Seconds": round(seconds[BURST // 2], 2), "p95Seconds": round(seconds[int(0.95 * BURST)], 2)}


async def read(http: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    ends = time.perf_counter() + READ_SECONDS

    async def client() -> int:
        done = 0
        while time.perf_counter() < ends:
            async with http.get(path) as response:
                assert response.status == 200, await response.text()
                await response.read()
            done += 1
        return done

    return {"done": sum(await asyncio.gather(*(client() for _ in range(CLIENTS))))}


async def _stats(http: aiohttp.ClientSession) -> Any:
    async with http.get("/api/v1/submissions/stats") as response:
        return await response.json()


def _bundle(name: str) -> dict[str, Any]:
    """English, or it would be held as unread, with words of its own, or it would be held as nearly another one."""
    dice = random.Random(name)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 9))) for _ in range(400)]
    lines, size = [], 0
    while size < SKILL_BYTES:
        lines.append(SENTENCE.format(*dice.choices(words, k=5)))
        size += len(lines[-1]) + 1
    text = f"---\nname: {name}\ndescription: Helps with {words[0]} load.\n---\n\n# {name}\n\n" + "\n".join(lines) + "\n"
    return {"bundle": {"name": name, "files": [{"path": "SKILL.md", "content": text}]}}


# --- the report -----------------------------------------------------------------------------------------------------


def main() -> int:
    options = _options()
    subjects: dict[str, list[dict[str, Any]]] = {"after": [], "before": []}
    with _worktree(options.baseline) as tree:
        trees = {"after": ROOT, "before": tree}
        load = os.getloadavg()[0]
        for number in range(options.rounds):
            for name, source in trees.items():
                subjects[name].append(asyncio.run(measure(source, options.submissions, number)))
                print(f"round {number + 1}, {name}: {_rates(subjects[name][-1])}", flush=True)
    report = {name: _median(rounds) for name, rounds in subjects.items()}
    return _print(report, options, load)


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        case: sorted((one[case] for one in rounds), key=lambda found: found["perSecond"])[len(rounds) // 2]
        for case in rounds[0]
    }


def _rates(found: dict[str, Any]) -> str:
    return ", ".join(f"{case} {one['perSecond']}/s ({one['cpuMs']} ms CPU)" for case, one in found.items())


def _print(report: dict[str, Any], options: argparse.Namespace, load: float) -> int:
    cores = os.cpu_count()
    print(f"\nLoad before {load:.1f} on {cores} cores; {options.rounds} rounds of {options.submissions} submissions.")
    missed = 0
    for case, after in report["after"].items():
        print(f"\n{case}: {after['perSecond']} a second, {after['cpuMs']} ms of CPU each: {after['parts']}")
        before = report["before"][case]
        if "p50Seconds" in after:  # waiting times, which have no target
            print(f"  published after {after['p50Seconds']} s (p95 {after['p95Seconds']} s)", end=", ")
            print(f"before {before['p50Seconds']} s (p95 {before['p95Seconds']} s)")
            continue
        ratio = after["perSecond"] / before["perSecond"]
        missed += ratio < TARGET
        print(f"  before: {before['perSecond']} a second, {before['cpuMs']} ms: {before['parts']}")
        print(f"  {'ok' if ratio >= TARGET else 'MISSED'}: {ratio:.2f} times (target {TARGET})")
        after["ratio"] = round(ratio, 2)
    machine = {"cores": cores, "loadBefore": round(load, 1)}
    about = {"machine": machine, "baseline": options.baseline, "target": TARGET, "submissions": options.submissions}
    about["rounds"] = options.rounds
    RESULT.write_text(json.dumps({**about, **report}, indent=1) + "\n")
    return int(missed > 0)


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-baseline-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x"], cwd=tree, input=archive, check=True)
        (tree / ".venv").symlink_to(ROOT / ".venv")
        subprocess.run([sys.executable, "-m", "shared.scanner.build"], cwd=tree, check=True, capture_output=True)
        yield tree
        shutil.rmtree(tree)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", default=BASELINE, help=f"commit to compare with ({BASELINE})")
    parser.add_argument("--submissions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
