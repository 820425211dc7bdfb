"""How the queue is doing, in numbers that are known or said to be unknown; the metrics are the same numbers."""

import json
from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from functions import stuck_scan
from shared import telemetry
from shared.errors import Unavailable
from shared.storage.kv import Read
from shared.submissions.dead_letter_store import store_dead_letter
from shared.submissions.pause import pause_queue
from shared.submissions.queue_health import (
    get_queue_health,
    get_queue_status,
    get_recent_queue_health,
    report_queue_health,
)
from shared.submissions.submission_store import claim_submission
from shared.telemetry import Watched
from shared.timing import STUCK_THRESHOLD
from shared.verification.recovery import recover_stuck
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.counting_stores import CountingKV
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.metrics import metrics_in

MINUTE = 60_000


async def health(env) -> dict:
    return msgspec.to_builtins(await within(env, get_queue_health))


@pytest.fixture
def metrics(capsys):
    """What the metrics say, by name: of a report, or of a whole tick."""

    async def read(env, fn=lambda: report_queue_health(paused=False, orphaned=0)) -> dict[str, float]:
        telemetry.flush()
        capsys.readouterr()
        await within(env, fn)
        telemetry.flush()
        return metrics_in(capsys.readouterr().out)

    return read


async def test_the_health_of_the_last_seconds_is_not_read_again_and_says_how_old_it_is():
    env = memory_env(CountingKV)
    submission = await submitted(env)
    recent = lambda: within(env, get_recent_queue_health)  # noqa: E731
    first = await recent()
    env.kv.forget()
    env.clock.forward(seconds=4)
    again = await recent()
    assert env.kv.requests == 0
    assert again.stats_age.age_ms == first.stats_age.age_ms + 4000
    assert (again.oldest_active.id, again.oldest_active.age_ms) == (submission.id, first.oldest_active.age_ms + 4000)
    env.clock.forward(seconds=1)
    await processed(env, submission)
    assert (await recent()).oldest_active is None


async def test_a_health_with_unknown_parts_is_read_again():
    class Unread(MemoryKV):
        is_down = True

        async def get_counts(self, keys):
            read = await super().get_counts(keys)
            return Read({}, [], list(read.found)) if self.is_down else read

    env = memory_env(Unread)
    await submitted(env)
    assert (await within(env, get_recent_queue_health)).stats_age.age_ms is None
    env.kv.is_down = False
    assert (await within(env, get_recent_queue_health)).stats_age.age_ms == 0


async def test_an_empty_queue_is_healthy_and_every_number_is_known(env, metrics):
    assert await health(env) == {
        "statsAge": {"ageMs": 0},
        "oldestActive": None,
        "orphanedActive": 0,
        "drainRate": {"last1h": 0, "last6h": 0},
        "paused": False,
        "deadLetters": 0,
    }
    assert await metrics(env) == {
        "OldestActiveAge": 0,
        "Active": 0,
        "OrphanedActive": 0,
        "DrainRate": 0,
        "Paused": 0,
        "DeadLetters": 0,
    }


async def test_the_oldest_is_the_one_longest_without_a_move_whatever_its_state(env):
    waiting = await submitted(env, a_bundle("waiting"))
    env.clock.forward(minutes=1)
    claimed = await submitted(env, a_bundle("claimed"))
    env.clock.forward(minutes=1)
    await within(env, lambda: claim_submission(waiting, "worker", timedelta(seconds=10)))
    env.clock.forward(minutes=2)
    found = (await health(env))["oldestActive"]
    assert (found["id"], found["state"]) == (claimed.id, "RECEIVED")
    assert found["ageMs"] == pytest.approx(3 * MINUTE, abs=1000)


async def test_what_has_ended_is_not_the_oldest_though_the_index_still_says_so(env):
    ended = await submitted(env, a_bundle("ended"))
    before = env.kv.items[f"sub:{ended.id}", "."].attrs
    await processed(env, ended)
    waiting = await submitted(env, a_bundle("waiting"))
    stored = env.kv.items[f"sub:{ended.id}", "."]
    stored.attrs.update({name: before[name] for name in ("statePk", "stateSk")})  # the index lags
    assert (await health(env))["oldestActive"]["id"] == waiting.id


async def test_orphans_are_what_the_scan_would_rescue(env):
    await submitted(env, a_bundle("fresh"))
    for n in range(3):
        await submitted(env, a_bundle(f"forgotten-{n}"))
    env.clock.forward(seconds=STUCK_THRESHOLD.total_seconds() + 1)
    assert (await health(env))["orphanedActive"] == 4
    await within(env, lambda: pause_queue("admin:anna", "moving"))
    assert (await health(env))["orphanedActive"] == 0  # they wait for the end of the pause
    assert (await health(env))["paused"] is True


class CountedQueries(MemoryKV):
    def __init__(self, *args):
        super().__init__(*args)
        self.queried = Counter()

    async def query(self, query):
        self.queried[query.pk] += 1
        return await super().query(query)


async def test_a_tick_reads_what_is_stuck_once_and_reports_what_it_left(metrics):
    env = memory_env(CountedQueries)
    for n in range(3):
        await submitted(env, a_bundle(f"forgotten-{n}"))
    env.clock.forward(seconds=STUCK_THRESHOLD.total_seconds() + 1)
    env.queue.is_down = True
    tick = await metrics(env, stuck_scan.tick)
    assert (tick["StuckFound"], tick["OrphanedActive"], tick["Paused"]) == (3, 3, 0)
    assert {n for pk, n in env.kv.queried.items() if pk.startswith("due:")} == {1}
    env.queue.is_down = False
    assert (await metrics(env, stuck_scan.tick))["OrphanedActive"] == 0


async def test_a_full_tick_leaves_orphans_and_a_pause_is_reported(env, metrics, monkeypatch):
    monkeypatch.setattr(stuck_scan, "recover_all_stuck", lambda: recover_stuck(limit=2))
    for n in range(3):
        await submitted(env, a_bundle(f"forgotten-{n}"))
    env.clock.forward(seconds=STUCK_THRESHOLD.total_seconds() + 1)
    assert (await metrics(env, stuck_scan.tick))["OrphanedActive"] == 1
    await within(env, lambda: pause_queue("admin:anna", "moving"))
    tick = await metrics(env, stuck_scan.tick)
    assert (tick["OrphanedActive"], tick["Paused"]) == (0, 1)


async def test_the_drain_rate_is_per_hour_of_all_that_stopped_being_active(env, metrics):
    env.clock.time = env.clock.time.replace(minute=0, second=1)
    for n in range(6):
        await processed(env, await submitted(env, an_unusable_bundle(f"b{n}") if n % 2 else a_bundle(f"a{n}")))
    assert (await health(env))["drainRate"] == {"last1h": 6, "last6h": 1}
    env.clock.forward(hours=1, minutes=30)
    assert (await health(env))["drainRate"] == {"last1h": pytest.approx(3, abs=0.1), "last6h": 1}
    assert (await metrics(env))["DrainRate"] == pytest.approx(3, abs=0.1)
    env.clock.forward(hours=1)
    assert (await health(env))["drainRate"] == {"last1h": 0, "last6h": 1}


async def test_dead_letters_are_counted_until_they_are_resolved(env, metrics):
    for n in range(7):
        await within(env, lambda n=n: store_dead_letter(f"m{n}", "junk", "The message names no submission."))
    assert (await health(env))["deadLetters"] == (await metrics(env))["DeadLetters"] == 7
    for n in range(100):
        await within(env, lambda n=n: store_dead_letter(f"more-{n}", "junk", "The message names no submission."))
    assert ((await health(env))["deadLetters"], (await metrics(env))["DeadLetters"]) == ("100+", 100)


class NoAnswer(MemoryKV):
    async def load(self, key):
        raise Unavailable("The store did not answer in time.")

    async def query(self, query):
        raise Unavailable("The store did not answer in time.")


async def test_unknown_is_null_and_no_metric_never_0(metrics):
    env = memory_env(NoAnswer)
    assert await health(env) == {
        "statsAge": {"ageMs": None},
        "oldestActive": None,
        "orphanedActive": None,
        "drainRate": {"last1h": None, "last6h": None},
        "paused": None,
        "deadLetters": None,
    }
    assert await metrics(env) == {"OrphanedActive": 0, "Paused": 0}  # given by the scan, which has read them


async def test_one_record_that_cannot_be_read_makes_the_oldest_unknown_not_the_counts(env, metrics):
    one = await submitted(env)

    class OneUnread(MemoryKV):
        async def load(self, key):
            if key.pk == f"sub:{one.id}":
                raise Unavailable("The store did not answer in time.")
            return await super().load(key)

    env.kv.__class__ = OneUnread
    reported = await metrics(env)
    assert "OldestActiveAge" not in reported
    assert reported["Active"] == 1
    assert (await within(env, get_queue_status)).degraded


def test_every_metric_carries_the_stack_and_the_namespace(capsys):
    telemetry.count(Watched.DEAD_LETTERS, 3)
    telemetry.flush()
    line = json.loads(capsys.readouterr().out)
    [described] = line["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == telemetry.NAMESPACE
    assert described["Dimensions"] == [[telemetry.SERVICE]]
    assert line[telemetry.SERVICE] == "vskill-platform"
