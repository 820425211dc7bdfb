"""What tells of many submissions, row by row: lists, places, news, totals, health, and what is answered when a part is
down. Every answer is held against the contract too (tests/support/contract_checks.py)."""

import pytest

from shared.errors import Unavailable
from shared.submissions.queue_position import RANKED
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.contract_checks import ask
from tests.support.memory import MemoryKV, memory_env

LIST = "GET /api/v1/submissions"
ONE = "GET /api/v1/submissions/{id}"
REPORT = "GET /api/v1/submissions/{id}/report"
POSITIONS = "GET /api/v1/submissions/positions"
HEALTH = "GET /api/v1/queue/health"
NO_ID = "sub_" + "0" * 26


class DownKV(MemoryKV):
    """A store that stops answering on request."""

    down = False

    async def load(self, key):
        self._refuse()
        return await super().load(key)

    async def query(self, query):
        self._refuse()
        return await super().query(query)

    def _refuse(self):
        if self.down:
            raise Unavailable("The store does not answer.")


# --- lists ----------------------------------------------------------------------------------------------------------


async def test_a_list_has_its_total_its_cursor_and_the_stats(env):
    for n in range(3):
        await submitted(env, a_bundle(f"skill-{n}"))
    answer = await ask(env, LIST, {"limit": 2})
    assert set(answer.json) == {"submissions", "total", "cursor", "stats", "degraded", "stale"}
    assert (len(answer.json["submissions"]), answer.json["total"], answer.json["degraded"]) == (2, 3, False)
    last = await ask(env, LIST, {"limit": 2, "cursor": answer.json["cursor"]})
    assert (len(last.json["submissions"]), last.json["cursor"]) == (1, None)
    stats = await ask(env, "GET /api/v1/submissions/stats")
    assert stats.json["byState"] == answer.json["stats"]["byState"]


@pytest.mark.parametrize(
    ("query", "names", "total"),
    [
        ({}, ["bad", "good", "waits"], 3),
        ({"sort": "updatedAt", "sortDir": "asc"}, ["bad", "good", "waits"], 3),
        ({"state": "published"}, ["good"], 1),
        ({"state": "REJECTED"}, ["bad"], 1),
        ({"state": "active", "sort": "updatedAt"}, ["waits"], 1),
        ({"q": "waits"}, ["waits"], None),
        ({"q": "uploads/anonymous/goo"}, ["good"], None),
        ({"repoUrl": "https://github.com/o/r"}, [], None),
    ],
    ids=str,
)
async def test_every_served_filter_is_honoured(env, query, names, total):
    await processed(env, await submitted(env, a_bundle("good")))
    await processed(env, await submitted(env, an_unusable_bundle("bad")))
    await submitted(env, a_bundle("waits"))
    answer = await ask(env, LIST, query)
    assert sorted(row["skillName"].rpartition("/")[2] for row in answer.json["submissions"]) == names
    assert answer.json["total"] == total


@pytest.mark.parametrize(
    "query",
    [
        "state=active&sort=createdAt",
        "q=a&sort=updatedAt",
        "q=a&sort=createdAt",
        "q=a&sortDir=asc",
        "repoUrl=github.com/o/r&sortDir=desc",
        "repoUrl=github.com/o/r&q=a",
        "repoUrl=github.com/o/r&state=active",
    ],
)
async def test_a_combination_that_is_not_served_is_refused_naming_those_that_are(env, query):
    answer = await ask(env, LIST, query)
    assert (answer.status, answer.json["error"]["code"]) == (400, "combination_not_served")
    assert "Supported: " in answer.json["message"]


@pytest.mark.requirement("S09")
async def test_a_cursor_fits_its_own_list_only(env):
    for n in range(2):
        await submitted(env, a_bundle(f"skill-{n}"))
    cursor = (await ask(env, LIST, {"q": "skill", "limit": 1})).json["cursor"]
    assert (await ask(env, LIST, {"q": "skill", "limit": 1, "cursor": cursor})).status == 200
    for other in ({}, {"q": "skills"}, {"state": "active"}, {"repoUrl": "github.com/o/r"}):
        answer = await ask(env, LIST, {**other, "cursor": cursor})
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_cursor")


ALL_READS = [
    (LIST, {}),
    (LIST, {"q": "a"}),
    (LIST, {"repoUrl": "github.com/o/r"}),
    (ONE, {}),
    (REPORT, {}),
    ("GET /api/v1/submissions/events", {"since": "2026-01-02T03:04:05.000000Z"}),
    ("GET /api/v1/submissions/stream", {"since": "2026-01-02T03:04:05.000000Z"}),
    (POSITIONS, {"ids": NO_ID}),
]


@pytest.mark.parametrize(("route", "query"), ALL_READS, ids=str)
async def test_a_store_that_does_not_answer_is_503_and_never_an_empty_answer(route, query):
    env = memory_env(DownKV)
    submission = await submitted(env)
    env.kv.down = True
    answer = await ask(env, route, query, **({"id": submission.id} if "{id}" in route else {}))
    assert (answer.status, answer.json["error"]["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["cache-control"] == "no-store"


# --- positions, events, totals --------------------------------------------------------------------------------------


async def test_positions_are_of_those_that_wait(env):
    first, second = await submitted(env), await submitted(env, a_bundle("second"))
    await processed(env, await submitted(env, a_bundle("done")))
    done = (await ask(env, LIST, {"state": "published"})).json["submissions"][0]["id"]
    answer = (await ask(env, POSITIONS, {"ids": ",".join([second.id, done, NO_ID, first.id, first.id])})).json
    assert [(p["id"], p["state"], p["position"], p["ahead"]) for p in answer["positions"]] == [
        (second.id, "RECEIVED", 2, 1),
        (done, "PUBLISHED", None, None),
        (NO_ID, None, None, None),
        (first.id, "RECEIVED", 1, 0),
    ]
    assert (answer["degraded"], answer["stale"]) == (False, [])


async def test_behind_the_first_500_the_place_is_unknown(env):
    ids = [(await submitted(env, a_bundle(f"waits-{n}"))).id for n in range(RANKED + 1)]
    last, behind = (await ask(env, POSITIONS, {"ids": ",".join(ids[-2:])})).json["positions"]
    assert (last["position"], last["ahead"]) == (500, 499)
    assert (behind["position"], behind["ahead"], behind["expectedWaitMs"]) == (None, "500+", None)
    queue = (await ask(env, ONE, id=ids[-1])).json["queue"]
    assert queue == {"position": None, "ahead": "500+", "expectedWaitMs": None}


@pytest.mark.parametrize("ids", ["", "x", f"{NO_ID},", f"{NO_ID} ", ",".join([NO_ID] * 2 + ["sub_x"])])
async def test_what_is_no_list_of_ids_is_refused(env, ids):
    answer = await ask(env, POSITIONS, {"ids": ids})
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_ids")


async def test_at_most_100_ids_at_once_and_none_is_too_few(env):
    ids = [f"sub_{n:026}" for n in range(101)]
    assert (await ask(env, POSITIONS, {"ids": ",".join(ids[:100])})).status == 200
    assert (await ask(env, POSITIONS, {"ids": ",".join(ids)})).json["error"]["code"] == "invalid_ids"
    assert (await ask(env, POSITIONS)).json["error"]["code"] == "missing_parameter"


async def test_events_and_the_stream_report_the_same_changes(env):
    start = (await ask(env, "GET /api/v1/submissions/events")).json
    assert (start["events"], start["reset"], start["more"]) == ([], False, False)
    submission = await submitted(env)
    since = {"since": start["lastEventId"]}
    events = (await ask(env, "GET /api/v1/submissions/events", since)).json
    assert [row["id"] for row in events["events"]] == [submission.id]
    streamed = await ask(env, "GET /api/v1/submissions/stream", since)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert f'"id":"{submission.id}"' in streamed.text
    env.clock.forward(hours=2)
    assert (await ask(env, "GET /api/v1/submissions/events", since)).json["reset"] is True


async def test_totals_are_exact_and_what_is_unknown_is_null():
    env = memory_env(DownKV)
    await processed(env, await submitted(env))
    await submitted(env, a_bundle("waits"))
    totals = (await ask(env, "GET /api/v1/stats")).json
    expected = {"total": 2, "active": 1, "published": 1, "rejected": 0, "blocked": 0, "onHold": 0}
    assert (totals["submissions"], totals["skills"], totals["versions"]) == (expected, 1, 1)
    assert totals["degraded"] is False
    env.kv.down = True
    unknown = (await ask(env, "GET /api/v1/stats")).json
    assert set(unknown["submissions"].values()) == {None}
    assert (unknown["skills"], unknown["versions"], unknown["degraded"]) == (None, None, True)
    assert (await ask(env, "GET /api/v1/submissions/stats")).json["total"] is None


async def test_the_health_of_the_queue_is_reported_in_the_agreed_words(env):
    submission = await submitted(env)
    env.clock.forward(minutes=20)
    health = (await ask(env, HEALTH)).json
    assert set(health) == {"statsAge", "oldestActive", "orphanedActive", "drainRate", "paused", "deadLetters"}
    assert (health["oldestActive"]["id"], health["oldestActive"]["state"]) == (submission.id, "RECEIVED")
    assert health["oldestActive"]["ageMs"] >= 20 * 60 * 1000
    assert (health["orphanedActive"], health["paused"], health["deadLetters"]) == (1, False, 0)
    assert set(health["drainRate"]) == {"last1h", "last6h"}
    assert set(health["statsAge"]) == {"ageMs"}


async def test_what_of_the_queues_health_is_unknown_is_null():
    env = memory_env(DownKV)
    env.kv.down = True
    health = (await ask(env, HEALTH)).json
    assert health["orphanedActive"] is health["deadLetters"] is health["paused"] is health["oldestActive"] is None


async def test_health_is_503_that_names_the_part_that_is_down(env):
    assert (await ask(env, "GET /api/v1/health")).json["status"] == "ok"
    env.queue.is_down = True
    answer = await ask(env, "GET /api/v1/health")
    assert (answer.status, answer.json["status"]) == (503, "degraded")
    assert answer.json["parts"] == {"store": "ok", "content": "ok", "queue": "down", "secrets": "ok"}
