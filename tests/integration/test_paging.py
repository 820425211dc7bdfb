"""Lists over HTTP, page by page; and what a request costs among 100 records and among 2,000."""

import pytest

from shared.records.submissions import State, Submission, new_id
from shared.submissions.submission_store import create
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.contract_checks import ask
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within

LIST = "GET /api/v1/submissions"
FILTERS = [
    {},
    {"sortDir": "asc"},
    {"sort": "updatedAt"},
    {"state": "published"},
    {"state": "active", "sortDir": "asc"},
    {"state": "REJECTED"},
    {"q": "skill"},
    {"repoUrl": "https://github.com/o/r"},
]


async def a_lot(env):
    for n in range(5):
        await processed(env, await submitted(env, a_bundle(f"skill-{n}")))
        await submitted(env, a_bundle(f"skill-waits-{n}"))
        await store(env, n)
    await processed(env, await submitted(env, an_unusable_bundle("skill-bad")))


async def store(env, n: int, state: State = State.PUBLISHED) -> Submission:
    """A record straight into the store, without a worker."""
    at = env.clock()
    facts = {"id": new_id(at), "source": "https://github.com/o/r", "repo_url": "https://github.com/o/r"}
    draft = Submission(
        **facts, skill_path=f"s/{n}", skill_name=f"o/r/skill-{n}", state=state, created_at=at, updated_at=at
    )
    return await within(env, lambda: create(draft))


async def listed(env, query, limit, between=None) -> list[str]:
    """Ids of all pages, until there is no cursor."""
    ids, cursor = [], None
    for _ in range(200):
        page = (await ask(env, LIST, {**query, "limit": limit, **({"cursor": cursor} if cursor else {})})).json
        ids += [row["id"] for row in page["submissions"]]
        cursor = page["cursor"]
        if cursor is None:
            return ids
        if between:
            await between()
    raise AssertionError("the list never ends")


@pytest.mark.parametrize("query", FILTERS, ids=str)
async def test_page_size_1_equals_page_size_500(env, query):
    await a_lot(env)
    whole = await listed(env, query, 500)
    assert len(whole) == len(set(whole)) > 0
    assert await listed(env, query, 1) == whole
    assert await listed(env, query, 4) == whole


@pytest.mark.parametrize("query", [{}, {"sortDir": "asc"}], ids=str)
async def test_inserting_while_listing_loses_and_repeats_nothing_that_was_there(env, query):
    await a_lot(env)
    there = await listed(env, query, 500)
    inserted: list[str] = []

    async def insert():
        if len(inserted) < 20:
            inserted.append((await submitted(env, a_bundle(f"new-{len(inserted)}"))).id)

    seen = await listed(env, query, 3, between=insert)
    assert inserted
    assert len(seen) == len(set(seen))
    assert [one for one in seen if one in there] == there


COSTS = [
    (LIST, {"limit": 500}, 2),
    (LIST, {"limit": 500, "state": "published"}, 1),  # nothing of it can have moved unseen
    (LIST, {"limit": 500, "sort": "updatedAt"}, 2),
    (LIST, {"limit": 50, "q": "skill-7"}, 2),
    (LIST, {"limit": 50, "repoUrl": "https://github.com/o/r"}, 2),
    ("GET /api/v1/submissions/stats", {}, 1),
    ("GET /api/v1/stats", {}, 1),
    ("GET /api/v1/queue/health", {}, 3),
    ("GET /api/v1/submissions/positions", {"ids": "{waiting}"}, 1),
    ("GET /api/v1/submissions/{id}", {"id": "{published}"}, 2),
    ("GET /api/v1/submissions/{id}", {"id": "{waiting}"}, 2),
]


@pytest.fixture(scope="module")
def stores():
    return {}


async def filled(stores, n: int):
    """100 or 2,000 records, of which 20 wait; old enough that the feed has nothing of them."""
    if n not in stores:
        env = memory_env(CountingKV)
        for k in range(n - 20):
            published = await store(env, k)
        for k in range(n - 20, n):
            waiting = await store(env, k, State.RECEIVED)
        env.clock.forward(minutes=3)
        env.kv.freeze()
        stores[n] = env, {"published": published.id, "waiting": waiting.id}
    return stores[n]


@pytest.mark.parametrize(("route", "query", "round_trips"), COSTS, ids=str)
async def test_a_request_costs_the_same_among_100_records_and_among_2000(stores, route, query, round_trips):
    taken = []
    for n in (100, 2000):
        env, ids = await filled(stores, n)
        wanted = {name: value.format(**ids) if isinstance(value, str) else value for name, value in query.items()}
        parts = {"id": wanted.pop("id")} if "{id}" in route else {}
        env.kv.forget()
        assert (await ask(env, route, wanted, **parts)).status == 200
        taken.append((env.kv.requests, env.kv.round_trips))
    assert taken[0] == taken[1]
    assert taken[0][1] == round_trips
