"""Pages of submissions: complete, in order, whatever their size and whatever happens between them."""

import pytest

from shared.errors import Unavailable
from shared.records.submissions import CATEGORIES, State, touch
from shared.storage.kv import Key, Page, Query
from shared.submissions import intake
from shared.submissions.submission_list import ListQuery, list_of_repo, list_submissions
from shared.submissions.submission_store import commit, get_submission_index, identity_put
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.memory import MemoryKV, memory_env, within

FEED_IS_OVER = {"minutes": 3}


async def a_mixed_lot(env, n: int = 16) -> None:
    for k in range(n):
        submission = await submitted(env, an_unusable_bundle(f"skill-{k}") if k % 3 == 0 else a_bundle(f"skill-{k}"))
        if k % 4:
            await processed(env, submission)
        env.clock.forward(milliseconds=k % 3)


async def pages(env, query: ListQuery, between=None):
    rows = []
    while True:
        listing = await within(env, lambda q=query: list_submissions(q))
        assert len(listing.rows) <= query.limit
        rows += listing.rows
        if listing.next_position is None:
            return rows
        query = query._replace(after=listing.next_position)
        if between:
            await between()


QUERIES = {
    "newest first": ListQuery(),
    "oldest first": ListQuery(descending=False),
    "last changed first": ListQuery(by_update=True),
    "first changed first": ListQuery(by_update=True, descending=False),
    "published": ListQuery(states=CATEGORIES["published"], by_update=True),
    "rejected": ListQuery(states=CATEGORIES["rejected"], by_update=True),
    "active": ListQuery(states=CATEGORIES["active"], by_update=True, descending=False),
}


@pytest.mark.requirement("I14")
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_settled", [True, False])
async def test_page_size_one_equals_page_size_500_equals_the_records(env, name, is_settled):
    query = QUERIES[name]
    await a_mixed_lot(env)
    if is_settled:  # else everything is still in the feed too
        env.clock.forward(**FEED_IS_OVER)
    whole = await pages(env, query._replace(limit=500))
    assert await pages(env, query._replace(limit=1)) == whole
    assert await pages(env, query._replace(limit=7)) == whole
    wanted = [row for row in await pages(env, ListQuery(limit=500)) if not query.states or row.state in query.states]
    wanted.sort(
        key=lambda row: (row.updated_at if query.by_update else row.created_at, row.id), reverse=query.descending
    )
    assert whole == wanted
    assert len(whole) == len({row.id for row in whole})
    assert whole


async def test_inserting_while_listing_loses_and_repeats_nothing_that_was_there(env):
    await a_mixed_lot(env)
    there = {row.id for row in await pages(env, ListQuery(limit=500))}
    names = iter(range(1000))

    async def insert():
        await submitted(env, a_bundle(f"new-{next(names)}"))

    for query in (ListQuery(limit=3), ListQuery(limit=3, descending=False)):
        rows = [row.id for row in await pages(env, query, between=insert if query.descending else None)]
        assert there <= set(rows)
        assert len(rows) == len(set(rows))


async def test_the_total_is_exact_with_and_without_a_filter(env):
    await a_mixed_lot(env)
    everything = await pages(env, ListQuery(limit=500))
    for states in ((), *CATEGORIES.values(), (State.RECEIVED,)):
        listing = await within(env, lambda s=states: list_submissions(ListQuery(states=s, by_update=bool(s), limit=1)))
        assert listing.total == sum(not states or row.state in states for row in everything)


async def test_an_empty_platform_has_an_empty_list_and_true_zeros(env):
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert (listing.rows, listing.next_position, listing.total, listing.degraded) == ([], None, 0, False)


async def test_a_broken_row_in_the_index_costs_itself(env):
    bad, good = await submitted(env, a_bundle("bad")), await submitted(env, a_bundle("good"))
    env.clock.forward(**FEED_IS_OVER)
    env.kv.items[Key(f"sub:{bad.id}")].attrs["row"] = "{broken"
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert [row.id for row in listing.rows] == [good.id]


async def test_a_row_without_a_record_is_not_shown(env):
    ghost, real = await submitted(env, a_bundle("ghost")), await submitted(env, a_bundle("real"))
    stored = env.kv.items[Key(f"sub:{ghost.id}")]
    index = await within(env, lambda: get_submission_index((), by_update=False, descending=True, limit=50, after=None))
    assert set(index.rows) == {ghost.id, real.id}
    stored.attrs["expiresAt"] = 0  # gone for every strong read, while the feed still names it
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert [row.id for row in listing.rows] == [real.id]


class IndexBehind(MemoryKV):
    """Its indexes know nothing yet. Counts the records that are read."""

    records = 0

    async def query(self, query: Query):
        return Page([], more=False) if query.index else await super().query(query)

    async def get_many(self, keys):
        keys = list(keys)
        self.records += len(keys)
        return await super().get_many(keys)


@pytest.mark.requirement("R20")
async def test_on_a_busy_day_a_limited_number_is_read_again_and_what_was_just_accepted_is_still_shown(monkeypatch):
    monkeypatch.setattr("shared.submissions.submission_list.READ_AGAIN", -45)  # of a page of 50: 5
    env = memory_env(IndexBehind)
    ids = []
    for n in range(12):
        ids.append((await submitted(env, a_bundle(f"skill-{n}"))).id)
        env.clock.forward(seconds=1)
    env.kv.records = 0
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert [row.id for row in listing.rows] == ids[::-1]
    assert (env.kv.records, listing.degraded) == (5, True)
    assert listing.stale == sorted(ids[:7])  # the newest were read again


async def test_of_a_crowded_minute_the_newest_changes_are_read_and_the_list_is_degraded(monkeypatch):
    monkeypatch.setattr("shared.submissions.feed_store.RECENT_CHANGES", 1)
    env = memory_env(IndexBehind)
    submissions = [await submitted(env, a_bundle(f"skill-{n}")) for n in range(12)]
    listing = await within(env, lambda: list_submissions(ListQuery()))
    assert submissions[-1].id in {row.id for row in listing.rows}
    assert 1 <= len(listing.rows) <= 4  # one of each partition
    assert listing.degraded


class IndexDown(MemoryKV):
    async def query(self, query: Query):
        raise Unavailable("The store does not answer.")


async def test_a_store_that_does_not_answer_is_an_error_never_an_empty_list():
    with pytest.raises(Unavailable):
        await within(memory_env(IndexDown), lambda: list_submissions(ListQuery()))


async def test_the_submissions_of_a_repo_come_from_its_own_partition(env):
    async def submit(url, path):
        accepted = await within(env, lambda: intake.submit_repo(url, None, path, None, None))
        return accepted.submission.id

    mine = [await submit("https://github.com/Me/Tools", f"skills/{n}") for n in range(5)]
    await submit("https://github.com/me/tools-2", "skills/0")
    rows, after = [], None
    while True:
        page, after, failed = await within(env, lambda a=after: list_of_repo("https://github.com/me/tools", 2, a))
        rows += page
        assert failed == []
        if after is None:
            break
    assert [row.id for row in rows] == mine


async def test_a_record_of_a_repo_that_cannot_be_read_is_shown_as_the_index_has_it_and_named():
    class PartlyUnreadable(MemoryKV):
        unreadable = ""

        async def load(self, key):
            if key.pk == self.unreadable:
                raise Unavailable("throttled")
            return await super().load(key)

    env = memory_env(PartlyUnreadable)
    ids = []
    for n in range(3):
        url = "https://github.com/me/tools"
        accepted = await within(env, lambda n=n, url=url: intake.submit_repo(url, None, f"skills/{n}", None, None))
        ids.append(accepted.submission.id)
        env.clock.forward(seconds=1)
    env.kv.unreadable = f"sub:{ids[1]}"
    rows, _, failed = await within(env, lambda: list_of_repo("https://github.com/me/tools", 50, None))
    assert [row.id for row in rows] == ids
    assert failed == [ids[1]]


async def test_a_skill_that_was_submitted_by_name_is_one_row_of_its_repo(env):
    url = "https://github.com/me/tools"
    accepted = await within(env, lambda: intake.submit_repo(url, "greeter", None, None, None))
    by_name = accepted.submission
    unique = identity_put(by_name.source, "skills/greeter", by_name.id)
    await within(env, lambda: commit(lambda _: touch(by_name, skill_path="skills/greeter"), lambda _: [unique]))
    rows, _, _ = await within(env, lambda: list_of_repo(url, 50, None))
    assert [row.id for row in rows] == [by_name.id]


async def test_a_page_takes_the_same_number_of_requests_however_many_records_there_are():
    class Counting(MemoryKV):
        requests = 0

        async def query(self, query):
            self.requests += 1
            return await super().query(query)

        async def get_many(self, keys):
            self.requests += 1
            return await super().get_many(keys)

        async def get_counts(self, keys):
            self.requests += 1
            return await super().get_counts(keys)

    counts = set()
    for n in (4, 40):
        env = memory_env(Counting)
        await a_mixed_lot(env, n)
        env.kv.requests = 0
        await within(env, lambda: list_submissions(ListQuery(limit=50)))
        counts.add(env.kv.requests)
    assert counts == {4 + 1 + 12 + 1}
