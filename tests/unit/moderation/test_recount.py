"""Counters against records, while others move: no false drift, no repair that counts twice, none that undoes a move."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from random import Random

import msgspec
import pytest

from shared.access.audit import get_audit
from shared.errors import Conflict, Forbidden, Unavailable
from shared.marketplace.skill_admin import block_skill, delete_skill, yank_version
from shared.marketplace.skill_store import skill_put
from shared.moderation import maintenance, recount
from shared.moderation.maintenance import migrate_skill_slugs
from shared.records.submissions import State
from shared.storage.kv import ABSENT, Key, shard_of
from shared.storage.secret_store import AdminToken
from shared.submissions.counters import COUNTER_KEYS, COUNTER_SHARDS, SKILL_COUNTER_KEYS, get_totals
from shared.submissions.submission_store import claim_submission, move_submission
from shared.timing import FEED_TTL, LONGEST_LEASE
from tests.support.builders import a_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.stored_skills import a_skill

ADMIN = AdminToken("anna", "admin", "")
REVIEWER = AdminToken("rob", "reviewer", "")
WHY = "the dashboard was wrong"


def distort(env, shard: int, **counts: int) -> None:
    attrs = env.kv.items[COUNTER_KEYS[shard]].attrs
    for state, n in counts.items():
        attrs[state] = attrs.get(state, 0) + n


def distort_skills(env, **counts: int) -> None:
    counter = next(key for key in SKILL_COUNTER_KEYS if env.kv.items.get(key))
    for name, n in counts.items():
        env.kv.items[counter].attrs[name] += n


async def filled(env, n: int = 12):
    return [await submitted(env, a_bundle(f"r-{i}")) for i in range(n)]


def shard(submission) -> int:
    return shard_of(submission.id, COUNTER_SHARDS)


async def recounted(env, by=ADMIN):
    return (await within(env, lambda: maintenance.recount(by))).recount


async def repaired(env):
    return (await within(env, lambda: maintenance.repair_counters(ADMIN, WHY))).recount


async def test_a_repair_sets_the_counters_right_once_and_says_by_how_much(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=3, PUBLISHED=-1)
    first_time = await repaired(env)
    assert first_time.drift == {State.RECEIVED: 3, State.PUBLISHED: -1}
    check_invariants(env.kv)
    again = await repaired(env)
    assert again.drift == {}
    check_invariants(env.kv)
    subjects = [entry.subject for entry in await within(env, get_audit)]
    assert subjects == ["nothing to repair", "RECEIVED -3, PUBLISHED +1"]


@pytest.mark.requirement("I5")
async def test_skills_and_versions_are_recounted_and_repaired(env):
    for submission in await filled(env, 4):
        await processed(env, submission)
    await within(env, lambda: delete_skill("uploads/anonymous/r-0", "gone", "admin:anna"))
    assert (await recounted(env)).drift == {}
    newest = env.kv.items[Key("skill:uploads/anonymous/r-3")]
    newest.attrs.pop("listPk")  # the index does not show it yet
    distort_skills(env, skills=2, versions=-1)
    counted = await repaired(env)
    assert counted.drift == {"skills": 2, "versions": -1}
    assert (counted.found["skills"], counted.found["versions"]) == (3, 3)
    assert (await within(env, get_totals))[1] == (3, 3)
    check_invariants(env.kv)


@pytest.mark.requirement("I5")
async def test_a_skill_that_gets_its_full_name_is_still_counted_once(env):
    """Its new name belongs to another counter."""
    old = [a_skill(f"owner-{n}/repo/pdf-{n}", n) for n in range(8)]
    old = [msgspec.structs.replace(skill, name=skill.display_name) for skill in old]
    for skill in old:
        await env.kv.put(skill_put(skill, ABSENT))
    await within(env, lambda: maintenance.repair_counters(ADMIN, WHY))
    assert len(await within(env, migrate_skill_slugs)) == 8
    counted = await recounted(env)
    assert (counted.found["skills"], counted.drift_by_counter) == (8, {})


async def test_only_an_admin_repairs_and_only_with_a_reason(env):
    with pytest.raises(Forbidden):
        await within(env, lambda: maintenance.repair_counters(REVIEWER, WHY))
    assert (await recounted(env, REVIEWER)).drift == {}


async def test_of_two_repairs_at_once_one_wins_and_nothing_is_taken_off_twice(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=5)
    outcomes = await asyncio.gather(
        *(within(env, lambda: maintenance.repair_counters(ADMIN, WHY)) for _ in range(2)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(refused) <= 1
    assert all(isinstance(one, Conflict) and one.code == "changed_meanwhile" for one in refused)
    check_invariants(env.kv)


class MovingKV(MemoryKV):
    """While a recount reads its records, another worker moves one of them."""

    moving = None

    async def get_many(self, keys):
        read = await super().get_many(keys)
        if self.moving and any(key.pk.startswith("sub:") for key in read.found):
            move, self.moving = self.moving, None
            await move()
        return read


async def test_a_move_between_the_two_looks_is_no_drift_and_is_not_undone():
    env = memory_env(MovingKV)
    first, second, *_ = await filled(env)
    distort(env, shard(second), BLOCKED=2)
    there_and_back = []

    async def move():
        """Its counters are what they were when it is over, and its record was seen in between."""
        claimed = await claim_submission(first, "worker", LONGEST_LEASE)
        there_and_back.append(await move_submission(claimed, State.RECEIVED, "worker", "again"))

    env.kv.moving = lambda: within(env, move)
    counted = await repaired(env)
    assert there_and_back
    assert counted.drift == {State.BLOCKED: 2}
    check_invariants(env.kv)


async def test_what_never_stands_still_has_no_verdict_and_is_left_as_it_is(monkeypatch):
    env = memory_env(MovingKV)
    first, *_ = await filled(env)
    current = [first]
    distort(env, shard(first), BLOCKED=1)

    async def move():
        held = await move_submission(current[0], State.ON_HOLD, "system", "busy")
        current[0] = await move_submission(held, State.RECEIVED, "system", "busy")
        env.kv.moving = lambda: within(env, move)

    env.kv.moving = lambda: within(env, move)
    counted = await repaired(env)
    assert (counted.busy, counted.drift) == (1, {})
    env.kv.moving = None
    assert (await recounted(env)).drift == {State.BLOCKED: 1}


async def test_moves_between_the_count_and_the_repair_are_kept(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=4)
    counted = await within(env, recount.continue_recount)
    await within(env, lambda: move_submission(first, State.ON_HOLD, "system", "meanwhile"))
    await within(env, lambda: recount.apply_repairs(counted.recount, counted.repairs, []))
    check_invariants(env.kv)


async def test_the_newest_submission_counts_though_the_index_does_not_show_it_yet(env):
    await filled(env, 3)
    newest = await submitted(env, a_bundle("newest"))
    attrs = env.kv.items[Key(f"sub:{newest.id}")].attrs
    attrs.pop("listPk")
    assert (await recounted(env)).drift == {}


async def test_records_that_cannot_be_read_leave_their_counter_without_a_verdict():
    class BrokenKV(MemoryKV):
        broken = None

        async def load(self, key):
            if self.broken and key == self.broken:
                raise Unavailable("not now")
            return await super().load(key)

    env = memory_env(BrokenKV)
    first, *_ = await filled(env)
    distort(env, shard(first), BLOCKED=1)
    env.kv.broken = Key(f"sub:{first.id}")
    counted = await repaired(env)
    assert (counted.unread, counted.drift) == (1, {})
    env.kv.broken = COUNTER_KEYS[0]
    with pytest.raises(Unavailable):
        await within(env, lambda: maintenance.recount(ADMIN))


# --- in several calls -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(recount, "RECORDS_PER_PAGE", 5)
    monkeypatch.setattr(recount, "PAGES_AT_ONCE", 1)


async def in_calls(env, between=None, run_id=None):
    """Counts until it is done; what every call said."""
    steps = [await within(env, lambda: recount.continue_recount(run_id))]
    while steps[-1].recount is None:
        if between:
            await between()
        steps.append(await within(env, lambda: recount.continue_recount(steps[-1].run_id)))
    return steps


async def test_a_count_goes_on_where_it_was_and_says_how_far_it_is(env, small_pages):
    first, *_ = await filled(env, 12)
    distort(env, shard(first), RECEIVED=3)
    steps = await in_calls(env)
    assert [(one.checked, one.total) for one in steps] == [(5, 15), (10, 15), (12, 15), (12, 15)]
    assert steps[-1].recount.drift == {State.RECEIVED: 3}


class ReadsKV(MemoryKV):
    records = 0

    async def load(self, key):
        self.records += key.pk.startswith("sub:")
        return await super().load(key)


async def test_a_call_reads_one_page_and_the_last_one_what_moved_however_many_records_there_are(small_pages):
    env = memory_env(ReadsKV)
    submissions = await filled(env, 23)
    env.clock.forward(hours=1)
    for submission in submissions[:3]:
        await within(env, lambda s=submission: move_submission(s, State.ON_HOLD, "system", "meanwhile"))
    read = []

    async def note():
        read.append(env.kv.records)
        env.kv.records = 0

    env.kv.records = 0
    await in_calls(env, note)
    await note()
    assert read == [5, 5, 5, 5, 3, 2 * 3]


@pytest.mark.parametrize("seed", range(12))
async def test_moves_and_new_records_between_the_calls_are_no_drift_and_hide_none(env, small_pages, seed):
    dice = Random(seed)
    lot = await filled(env, 18)
    env.clock.forward(hours=1)
    distort(env, shard(lot[0]), BLOCKED=2)

    async def meanwhile():
        for _ in range(dice.randint(0, 6)):
            n = dice.randrange(len(lot))
            to = State.RECEIVED if lot[n].state is State.ON_HOLD else State.ON_HOLD
            lot[n] = await within(env, lambda n=n, to=to: move_submission(lot[n], to, "system", "meanwhile"))
        lot.append(await submitted(env, a_bundle(f"new-{len(lot)}")))
        env.clock.forward(seconds=dice.randint(0, 400))

    steps = await in_calls(env, meanwhile)
    assert len(steps) >= 4
    assert (steps[-1].recount.drift, steps[-1].recount.busy) == ({State.BLOCKED: 2}, 0)
    await within(env, lambda: recount.apply_repairs(steps[-1].recount, steps[-1].repairs, []))
    check_invariants(env.kv)


@pytest.mark.requirement("I5")
@pytest.mark.parametrize("seed", range(6))
async def test_what_is_decided_about_skills_between_the_calls_is_no_drift_and_hides_none(env, small_pages, seed):
    dice = Random(seed)
    names = [f"uploads/anonymous/r-{n}" for n in range(12)]
    for submission in await filled(env, 12):
        await processed(env, submission)
    env.clock.forward(hours=1)
    distort_skills(env, skills=2, versions=-1)
    doings = [
        lambda name: yank_version(name, "1.0.0", "bad"),
        lambda name: block_skill(name, "steals keys", "admin:anna"),
        lambda name: delete_skill(name, "gone", "admin:anna"),
    ]

    async def meanwhile():
        for _ in range(dice.randint(0, 2)):
            name = names.pop(dice.randrange(len(names)))
            await within(env, lambda name=name: dice.choice(doings)(name))
        await processed(env, await submitted(env, a_bundle(f"new-{len(names)}-{env.clock().microsecond}")))

    steps = await in_calls(env, meanwhile)
    assert (steps[-1].recount.drift, steps[-1].recount.busy) == ({"skills": 2, "versions": -1}, 0)
    await within(env, lambda: recount.apply_repairs(steps[-1].recount, steps[-1].repairs, []))
    check_invariants(env.kv)


async def test_a_move_by_a_worker_whose_clock_is_behind_is_seen(env, small_pages):
    lot = await filled(env, 12)
    env.clock.forward(hours=1)
    slow = replace(env, clock=lambda: env.clock() - timedelta(minutes=4))

    async def meanwhile():
        lot[0] = await within(slow, lambda: move_submission(lot[0], State.ON_HOLD, "system", "meanwhile"))
        lot[0] = await within(slow, lambda: move_submission(lot[0], State.DEQUEUED, "admin:a", "meanwhile"))
        lot.pop(0)

    assert (await in_calls(env, meanwhile))[-1].recount.drift == {}


async def test_two_who_go_on_with_one_count_count_every_page_once(env, small_pages):
    first, *_ = await filled(env, 12)
    distort(env, shard(first), RECEIVED=1)
    run_id = (await within(env, recount.continue_recount)).run_id
    both = [within(env, lambda: recount.continue_recount(run_id)) for _ in range(2)]
    assert {(await one).checked for one in asyncio.as_completed(both)} <= {10, 12}
    last = (await in_calls(env, run_id=run_id))[-1]
    assert (last.checked, last.recount.drift) == (12, {State.RECEIVED: 1})


async def test_a_late_page_of_another_caller_does_not_turn_a_count_back(env, small_pages):
    await filled(env, 12)
    early = (await within(env, recount.continue_recount)).run_id
    behind = await within(env, lambda: recount.get_run(early))
    assert (await in_calls(env, run_id=early))[-1].checked == 12
    assert (await within(env, lambda: recount.walk(behind))).checked == 12
    assert (await within(env, lambda: recount.get_run(early))).is_walked


async def test_pages_end_where_a_partition_was_cut_so_nothing_is_counted_twice(env, monkeypatch):
    monkeypatch.setattr("shared.storage.kv.rows_per_partition", lambda limit: 2)
    await filled(env, 12)
    steps = (await in_calls(env))[-1]
    assert (steps.checked, steps.recount.drift) == (12, {})


class MovesBeforeCounters(MemoryKV):
    moving = None

    async def get_counts(self, keys):
        if self.moving:
            move, self.moving = self.moving, None
            await move()
        return await super().get_counts(keys)


async def test_what_moves_for_the_first_time_just_before_the_counters_are_read_is_no_drift():
    env = memory_env(MovesBeforeCounters)
    first, *_ = await filled(env, 12)
    env.clock.forward(hours=1)
    env.kv.moving = lambda: within(env, lambda: move_submission(first, State.ON_HOLD, "system", "meanwhile"))
    counted = await recounted(env)
    assert (counted.drift, counted.busy, counted.found[State.ON_HOLD]) == ({}, 0, 1)


async def test_where_more_moved_than_is_read_again_there_is_no_verdict(env, monkeypatch):
    monkeypatch.setattr(recount, "MOST_CHANGED", 11)
    first, *_ = await filled(env, 12)
    distort(env, shard(first), RECEIVED=3)
    counted = await recounted(env)
    assert (counted.busy, counted.drift) == (COUNTER_SHARDS, {})


async def test_a_count_that_was_left_alone_is_over_before_the_feed_forgets(env, small_pages):
    await filled(env, 12)
    run_id = (await within(env, recount.continue_recount)).run_id
    env.clock.forward(minutes=41)
    for lost in (run_id, "0" * 16):
        with pytest.raises(Conflict) as over:
            await within(env, lambda lost=lost: recount.continue_recount(lost))
        assert over.value.code == "recount_expired"
    longest = recount.LONGEST_RUN + 2 * recount.CLOCKS_APART
    assert longest < FEED_TTL


async def test_nothing_is_repaired_before_every_record_is_read(env, small_pages):
    first, *_ = await filled(env, 12)
    distort(env, shard(first), RECEIVED=3)
    run_id = None
    for done in (False, False, False, True):
        progress = await within(env, lambda r=run_id: maintenance.repair_counters(ADMIN, WHY, r))
        run_id = progress.run_id
        assert (progress.recount is not None) == done
        assert len(await within(env, get_audit)) == done
    check_invariants(env.kv)
