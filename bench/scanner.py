"""Speed of the scanner: generated skills of 1 KB, 20 KB, 1 MB and 10 MB, the time to load the rule pack, and what a
process of its own adds to a scan.

python -m bench.scanner    prints a table and writes bench/results/scanner.json
"""

import asyncio
import json
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from shared.scanner import rule_set_version, scan_skill
from shared.scanner.scan_runner import ScanProcesses

RESULTS = Path(__file__).parent / "results" / "scanner.json"
SIZES = {"1 KB": (1_000, 200), "20 KB": (20_000, 100), "1 MB": (1_000_000, 5), "10 MB": (10_000_000, 2)}
LOAD = (
    "import time; s = time.perf_counter();"
    "from shared.scanner.pack import load_exclusions, load_listened, load_matcher;"
    "i = time.perf_counter(); load_matcher(); load_listened(); load_exclusions(); e = time.perf_counter();"
    "print((i - s) * 1000, (e - i) * 1000)"
)
WORDS = (
    *("check", "build", "report", "user", "table", "value", "release", "query"),
    *("index", "network", "token", "error", "branch", "commit", "deploy"),
)
COMMANDS = [
    "curl -sS https://api.example.org/items | jq '.[0]'",
    "git log --oneline -20",
    "python3 scripts/report.py --out report.md",
    "docker build -t app . && docker run --rm app",
    'export API_TOKEN="$SERVICE_TOKEN"',
]


def main() -> None:
    rows = {name: measure(name, size, runs) for name, (size, runs) in SIZES.items()}
    load = load_time()
    print(f"{'skill':<8} {'runs':>5} {'p50 ms':>9} {'p95 ms':>9} {'skills/s':>9} {'MB/s':>7}")
    for name, row in rows.items():
        times = f"{row['p50Ms']:>9} {row['p95Ms']:>9}"
        print(f"{name:<8} {row['runs']:>5} {times} {row['skillsPerSecond']:>9} {row['mbPerSecond']:>7}")
    print(f"loading the rule pack: {load['packMs']} ms (imports before it: {load['importMs']} ms)")
    print(f"peak memory: {peak_memory()} MB")
    apart = asyncio.run(measure_process())
    print("a scan of 20 KB: {threadMs} ms in a thread, {processMs} ms in a process (at most 5 ms more)".format(**apart))
    RESULTS.write_text(json.dumps(as_record(rows, load) | {"process": apart}, indent=2) + "\n")
    sys.exit(apart["processMs"] > apart["threadMs"] + 5)


async def measure_process(runs: int = 200) -> dict[str, float]:
    """Wall time, in turns, so that other load on the machine disturbs both alike."""
    skills = [generate(20_000, seed) for seed in range(10)]
    processes = ScanProcesses()
    seconds: dict[str, list[float]] = {"threadMs": [], "processMs": []}
    await processes.scan(skills[0])
    for number in range(runs):
        files = skills[number % len(skills)]
        for name, scan in (("threadMs", partial(asyncio.to_thread, scan_skill)), ("processMs", processes.scan)):
            started = time.perf_counter()
            await scan(files)
            seconds[name].append(time.perf_counter() - started)
    processes.close()
    return {name: round(statistics.median(taken) * 1000, 1) for name, taken in seconds.items()}


def measure(name: str, size: int, runs: int) -> dict[str, float]:
    """CPU time of this process, so that other load on the machine matters little."""
    skills = [generate(size, seed) for seed in range(min(runs, 10))]
    scan_skill(skills[0])
    seconds = []
    for number in range(runs):
        started = time.process_time()
        scan_skill(skills[number % len(skills)])
        seconds.append(time.process_time() - started)
    seconds.sort()
    mean = statistics.fmean(seconds)
    return {
        "runs": runs,
        "p50Ms": round(seconds[len(seconds) // 2] * 1000, 1),
        "p95Ms": round(seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))] * 1000, 1),
        "skillsPerSecond": round(1 / mean, 1),
        "mbPerSecond": round(size / mean / 1e6, 2),
    }


def generate(size: int, seed: int) -> dict[str, bytes]:
    """A page of prose and shell blocks, with scripts beside it when it is large; no file above the limit of 1 MB."""
    choose = random.Random(seed)
    files = {"SKILL.md": page(min(size, 15_000), choose)}
    left = size - len(files["SKILL.md"])
    for number in range(0, left, 900_000):
        files[f"references/part{number // 900_000}.md"] = page(min(900_000, left - number), choose)
    return files


def page(size: int, choose: random.Random) -> bytes:
    lines = ["---", "name: generated", "description: A generated skill for measuring.", "---", "", "# Generated", ""]
    length = 0
    while length < size:
        block = paragraph(choose) if choose.random() < 0.8 else ["```bash", choose.choice(COMMANDS), "```", ""]
        lines += block
        length += sum(len(line) + 1 for line in block)
    return "\n".join(lines).encode()[:size]


def paragraph(choose: random.Random) -> list[str]:
    return [" ".join(choose.choices(WORDS, k=14)).capitalize() + f" {choose.randrange(10**6)}." for _ in range(4)] + [
        ""
    ]


def load_time() -> dict[str, float]:
    """In fresh processes; the best of five, the one least disturbed by other load."""
    measured = [
        [
            float(part)
            for part in subprocess.run(
                [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True
            ).stdout.split()
        ]
        for _ in range(5)
    ]
    return {"importMs": round(min(m[0] for m in measured), 1), "packMs": round(min(m[1] for m in measured), 1)}


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def as_record(rows: dict[str, dict[str, float]], load: dict[str, float]) -> dict[str, object]:
    machine = {"python": platform.python_version(), "processor": platform.machine()}
    return {
        "ruleSet": rule_set_version(),
        "machine": machine,
        "skills": rows,
        "load": load,
        "peakMemoryMb": peak_memory(),
    }


if __name__ == "__main__":
    main()
