"""Every metric an alarm watches is really emitted, by the function that should, in the words the alarm uses."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from functions import stuck_scan
from shared import telemetry
from shared.errors import Unavailable
from shared.evidence.judge import judge_skill
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.kv import Key, Query
from shared.telemetry import Watched
from shared.timing import time_limit
from tests.support.gateway_events import Context
from tests.support.memory import memory_env, within
from tests.support.metrics import metrics_in

SCHEDULED = {"source": "aws.events", "detail-type": "Scheduled Event"}
WHERE_IT_HAPPENS = {
    Watched.READS_FAILED,
    Watched.JUDGE_ERRORS,
    Watched.INTERNAL_ERRORS,
    Watched.GITHUB_QUOTA_LEFT,
    Watched.SWEEP_LAG,
    Watched.NOTIFICATION_LAG,
}


@pytest.fixture
def emitted(capsys):
    def read() -> dict[str, float]:
        telemetry.flush()
        return metrics_in(capsys.readouterr().out)

    return read


def test_every_tick_of_the_scan_reports_the_health_of_the_queue(function_env, emitted):
    for _ in range(2):
        stuck_scan.handler(SCHEDULED, Context(30))
        seen = emitted()
        assert set(seen) == set(Watched) - WHERE_IT_HAPPENS
        assert seen[Watched.STUCK_SCAN_FINISHED] == 1


@pytest.mark.usefixtures("no_store")
def test_a_scan_that_could_not_look_has_not_finished(emitted):
    with pytest.raises(Unavailable):
        stuck_scan.handler(SCHEDULED, Context(1))
    assert Watched.STUCK_SCAN_FINISHED not in emitted()


async def nobody(operation, params):
    raise TimeoutError


READS = {
    "one": lambda kv: kv.get(Key("a")),
    "a partition": lambda kv: kv.query(Query("a")),
    "two at once": lambda kv: kv.get_many([Key("a"), Key("b")]),
    "a counter": lambda kv: kv.get_counts([Key("a")]),
}


@pytest.mark.parametrize("read", READS)
async def test_a_read_that_failed_is_counted_for_every_caller(read, emitted):
    with time_limit(timedelta(milliseconds=50)):
        await asyncio.gather(READS[read](DynamoKV(nobody, "table")), return_exceptions=True)
    assert emitted() == {Watched.READS_FAILED: 2 if read == "two at once" else 1}


@pytest.mark.parametrize("answer", [nobody, lambda *_: _void()], ids=["silent", "void"])
async def test_a_judge_that_gives_no_usable_answer_is_counted(answer, emitted):
    env = memory_env(bedrock=answer, judge="bedrock", judge_model_id="m")
    asked = partial(judge_skill, {"SKILL.md": b"text"}, "nothing")
    await asyncio.gather(within(env, asked), return_exceptions=True)
    assert emitted()[Watched.JUDGE_ERRORS] == (1 if answer is nobody else 3)


async def _void():
    return {"stopReason": "end_turn"}
