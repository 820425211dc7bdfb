"""Repository health: asked once a day by one reader, and never an error to anybody."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from shared.errors import Deferred, NeedsPerson, Refused, Unavailable
from shared.github.client import GitHubRepo
from shared.marketplace.repo_health_store import find_repo_healths, get_repo_health
from tests.support.memory import MemoryKV, memory_env, within

SOURCE = "https://github.com/acme/skills"


class FakeGitHub:
    """Returns the configured answer; raises it when it is an error."""

    def __init__(self, clock) -> None:
        self.clock = clock
        self.answer = self.pushed(days_ago=3)
        self.asked = []
        self.is_low = False
        self.held: asyncio.Event | None = None

    def pushed(self, days_ago: float | None) -> GitHubRepo:
        at = None if days_ago is None else self.clock.time - timedelta(days=days_ago)
        return GitHubRepo(1, 2, "acme", "skills", "main", at, stars=0)

    def yield_quota_to_workers(self) -> None:
        if self.is_low:
            raise self.deferred()

    def deferred(self) -> Deferred:
        return Deferred("quota", "GitHub", self.clock.time, "github_quota")

    async def get_repo(self, owner: str, name: str) -> GitHubRepo:
        self.asked.append((owner, name))
        if self.held:
            await self.held.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def env():
    env = memory_env()
    return dataclasses.replace(env, github=FakeGitHub(env.clock))


def health(env, source=SOURCE):
    return within(env, lambda: get_repo_health(source))


@pytest.mark.parametrize(
    ("days_ago", "status"), [(0, "ONLINE"), (364, "ONLINE"), (366, "STALE"), (4000, "STALE"), (None, "ONLINE")]
)
async def test_a_repository_is_stale_a_year_after_its_last_push(env, days_ago, status):
    env.github.answer = env.github.pushed(days_ago)
    found = await health(env)
    assert (found.status, found.source, found.last_commit_at) == (status, SOURCE, env.github.answer.pushed_at)
    assert env.github.asked == [("acme", "skills")]


async def test_a_repository_that_is_gone_is_offline_and_may_return(env):
    env.github.answer = Refused("gone", "repo_not_found")
    assert (await health(env)).status == "OFFLINE"
    env.github.answer = env.github.pushed(days_ago=1)
    env.clock.forward(hours=23)
    assert (await health(env)).status == "OFFLINE"
    env.clock.forward(hours=2)
    assert (await health(env)).status == "ONLINE"


async def test_it_is_asked_once_a_day(env):
    first = await health(env)
    for _ in range(3):
        assert await health(env) == first
    assert len(env.github.asked) == 1
    env.clock.forward(hours=24, seconds=1)
    second = await health(env)
    assert second.checked_at > first.checked_at
    assert len(env.github.asked) == 2


@pytest.mark.parametrize(
    "error",
    [
        Refused("too large", "repo_too_large"),
        NeedsPerson("sent on", parked_by="source"),
        Unavailable("the secret cannot be read"),
        None,
    ],
)
async def test_whatever_goes_wrong_the_old_value_stays_and_it_is_tried_again_soon(env, error):
    first = await health(env)
    env.clock.forward(hours=25)
    env.github.answer = error or env.github.deferred()
    assert await health(env) == first
    assert await health(env) == first
    assert len(env.github.asked) == 2  # a GitHub that is down is not asked by every reader
    env.github.answer = Refused("gone", "repo_not_found")
    env.clock.forward(minutes=3)
    assert (await health(env)).status == "OFFLINE"


async def test_what_was_never_known_is_unknown(env):
    env.github.answer = env.github.deferred()
    assert (await health(env)).status is None
    assert (await within(env, lambda: find_repo_healths([SOURCE])))[SOURCE].status is None
    assert await within(env, lambda: find_repo_healths(["https://github.com/a/b"])) == {}


async def test_readers_yield_quota_to_workers_when_it_is_low(env):
    env.github.is_low = True
    assert (await health(env)).status is None
    assert env.github.asked == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_of_readers_at_one_moment_one_asks_and_none_waits_for_it(env, is_known):
    known = None
    if is_known:
        known = (await health(env)).status
        env.clock.forward(hours=25)
    asked_before = len(env.github.asked)
    env.github.held = asyncio.Event()
    env.github.answer = Refused("gone", "repo_not_found")
    readers = [asyncio.create_task(health(env)) for _ in range(8)]
    done, waiting = await asyncio.wait(readers, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 7:
        more, waiting = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        assert more, "a reader waits for another one"
        done |= more
    assert {reader.result().status for reader in done} == {known}
    env.github.held.set()
    assert (await waiting.pop()).status == "OFFLINE"
    assert len(env.github.asked) == asked_before + 1


async def test_uploads_have_no_repository_to_ask_about(env):
    assert (await health(env, "uploads/anonymous")).status is None
    assert env.github.asked == []
    assert env.kv.items == {}


async def test_a_store_that_is_down_is_no_error_either(env):
    class DownKV(MemoryKV):
        async def load(self, key):
            raise Unavailable("down")

    class ReadOnlyKV(MemoryKV):
        async def put(self, put):
            raise Unavailable("down")

    for kv in (DownKV, ReadOnlyKV):
        assert (await health(dataclasses.replace(env, kv=kv(env.clock.seconds)))).status is None
