"""How long the sweep needs for every repository: the real ticks on a store in memory, with a clock that is moved and a
GitHub that counts. Prints a table and writes bench/results/sweep.json.

    python -m bench.sweep [skills] [repositories]
"""

import asyncio
import json
import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from shared.github.http import Quota
from shared.github.repos import GitHubRepo
from shared.marketplace.repo_sweep import sweep
from shared.marketplace.skill_store import skill_put
from shared.records.submissions import State, Submission
from shared.storage.documents import encode
from shared.storage.kv import Key, Page, Put, Query, Row
from shared.submissions.repo_watch import get_sweep_status
from shared.submissions.submission_store import identity_put, submission_key
from shared.timing import SWEEP_PERIOD
from tests.support.memory import FixedSecrets, MemoryKV, Stored, memory_env, within
from tests.support.stored_skills import a_skill

RESULTS = Path(__file__).parent / "results" / "sweep.json"
HOUR = timedelta(hours=1)
PUSHED_A_DAY = 0.2  # of the repositories
DAY = timedelta(days=1)
FIRST, LAST = Key("", ""), Key("\U0010ffff", "")
LONGEST = timedelta(hours=96)


class IndexedKV(MemoryKV):
    """Partitions are kept in order, so that a query costs what it returns, as in DynamoDB."""

    def __init__(self, now) -> None:
        super().__init__(now)
        self._rows_of: dict[tuple[str, str], list[tuple[str, Key]]] = defaultdict(list)

    async def query(self, query: Query) -> Page:
        rows = self._rows_of[query.index or "", query.pk]
        start = bisect_right(rows, (query.after, LAST)) if query.after else 0
        end = bisect_left(rows, (query.before, FIRST)) if query.before else len(rows)
        found = rows[start : min(end, start + (query.limit or end))]
        return Page([Row(key, sort, self.items[key].doc) for sort, key in found], more=start + len(found) < end)

    def store(self, key: Key, stored: Stored) -> None:
        self.items[key] = stored
        for place, sort in _places(key, stored):
            insort(self._rows_of[place], (sort, key))

    def _apply(self, writes) -> None:
        before = {write.key: self.items[write.key] for write in writes if write.key in self.items}
        super()._apply(writes)
        for key, stored in before.items():
            for place, sort in _places(key, stored):
                self._rows_of[place].remove((sort, key))
        for write in writes:
            self.store(write.key, self.items[write.key])


class CountingGitHub:
    """Each repository was pushed to once in 1 / PUSHED_A_DAY days. Unchanged ones are free where a token is sent."""

    def __init__(self, clock, limit: int, has_token: bool) -> None:
        self._clock, self._limit, self._has_token = clock, limit, has_token
        self.asked: Counter[str] = Counter()  # by source
        self.charged: Counter[datetime] = Counter()  # by hour
        self.heads = 0

    @property
    def quota(self) -> Quota:
        hour = _hour(self._clock.time)
        return Quota(self._limit, self._limit - self.charged[hour], hour + HOUR)

    async def find_changed_repo(self, owner: str, name: str, etag: str | None) -> tuple[GitHubRepo | None, str | None]:
        number = int(name[1:])
        self.asked[f"https://github.com/{owner}/{name}"] += 1
        at = last_push(number, self._clock.time)
        is_unchanged = etag == at.isoformat()
        self.charged[_hour(self._clock.time)] += not (is_unchanged and self._has_token)
        return None if is_unchanged else GitHubRepo(number, 1, owner, name, "main", at, 0), at.isoformat()

    async def get_head(self, owner: str, name: str, branch: str) -> str:
        self.charged[_hour(self._clock.time)] += 1
        self.heads += 1
        return "0" * 40


def last_push(number: int, at: datetime) -> datetime:
    """The repositories are not all pushed to on one day."""
    days, offset = at.timestamp() / 86400, number * 0.618
    return datetime.fromtimestamp(0, UTC) + (int((days + offset) * PUSHED_A_DAY) / PUSHED_A_DAY - offset) * DAY


class NoToken(FixedSecrets):
    async def get(self):
        return msgspec.structs.replace(await super().get(), github_token=None)


async def simulated(
    skills: int, repos: int, limit: int, has_token: bool, rounds: int, oldest_run: timedelta | None
) -> dict[str, Any]:
    """One run of each repository began at most `oldest_run` ago, evenly spread. None: all before its last push."""
    env = memory_env(IndexedKV)
    github = CountingGitHub(env.clock, limit, has_token)  # type: ignore[arg-type]
    secrets = FixedSecrets() if has_token else NoToken()
    env = replace(env, github=github, secrets=secrets)  # type: ignore[arg-type]
    for number in range(skills):
        put = skill_put(a_skill(f"acme/r{number % repos}/s{number}", number), None)
        env.kv.store(put.key, Stored(put.doc, dict(put.attrs)))  # type: ignore[attr-defined]
    for number in range(repos if oldest_run else 0):
        for put in _run_puts(number, env.clock.time - oldest_run * (number / repos)):
            env.kv.store(put.key, Stored(put.doc, dict(put.attrs)))  # type: ignore[attr-defined]
    began, started, ticks, ends = env.clock.time, time.process_time(), 0, []
    heads: list[int] = []
    while len(ends) < rounds and env.clock.time - began < LONGEST:
        report = await within(env, sweep)
        assert not report.failed, report.failed[:3]
        ticks += 1
        if len(github.asked) == repos and min(github.asked.values()) > len(ends):
            ends.append(round((env.clock.time - began) / HOUR, 1))
            heads.append(github.heads - sum(heads))
        env.clock.forward(seconds=SWEEP_PERIOD.total_seconds())
    status = await within(env, get_sweep_status)
    return {
        "skills": skills,
        "repositories": repos,
        "quota an hour": limit,
        "rounds ended after hours": ends,
        "heads asked for in each": heads,
        "looked at": len(github.asked),
        "simulated hours": round((env.clock.time - began) / HOUR, 1),
        "most requests in an hour": max(github.charged.values()),
        "round shown, in days": round((status.round_ms or 0) / 86_400_000, 1),
        "CPU ms per tick": round(1000 * (time.process_time() - started) / ticks),
    }


def main(skills: int, repos: int) -> None:
    cases = {
        "with a token, half scanned since the last push": simulated(skills, repos, 5000, True, 3, 5 * DAY),
        "with a token, none scanned since the last push": simulated(skills, repos, 5000, True, 3, None),
        "without a token": simulated(repos, repos, 60, False, 1, 5 * DAY),
    }
    found = {name: asyncio.run(one) for name, one in cases.items()}
    for name, figures in found.items():
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def _run_puts(number: int, began_at: datetime) -> list[Put]:
    source, id_ = f"https://github.com/acme/r{number}", f"sub_{number:026}"
    submission = Submission(
        id=id_,
        source=source,
        skill_path=".",
        skill_name=f"acme/r{number}/s{number}",
        state=State.PUBLISHED,
        created_at=began_at,
        updated_at=began_at,
        repo_id=number,
        commit="1" * 40,
    )
    return [identity_put(source, ".", id_), Put(submission_key(id_), encode(submission))]


def _places(key: Key, stored: Stored) -> list[tuple[tuple[str, str], str]]:
    names = (index for index in ("list", "due", "state") if f"{index}Pk" in stored.attrs)
    return [(("", key.pk), key.sk)] + [
        ((index, str(stored.attrs[f"{index}Pk"])), str(stored.attrs[f"{index}Sk"])) for index in names
    ]


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("100000", "20000")))
