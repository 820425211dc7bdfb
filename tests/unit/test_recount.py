"""Counters against records, while others move: no false drift, no repair that counts twice, none that undoes a move."""

import asyncio

import msgspec
import pytest

from shared import admin_upkeep, recount
from shared.audit import get_audit
from shared.errors import Conflict, Forbidden, Unavailable
from shared.kv import ABSENT, Key, shard_of
from shared.secret_store import AdminToken
from shared.skill_admin import delete_skill
from shared.skill_index import skill_put
from shared.skill_store import migrate_skill_slugs
from shared.stats import COUNTER_KEYS, COUNTER_SHARDS, SKILL_COUNTER_KEYS, get_totals
from shared.submission_store import claim_submission, move_submission
from shared.submissions import State
from shared.timing import LONGEST_LEASE
from tests.support.builders import a_bundle, processed, submitted
from tests.support.catalogue import a_skill
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within

ADMIN = AdminToken("anna", "admin", "")
REVIEWER = AdminToken("rob", "reviewer", "")
WHY = "the dashboard was wrong"


def distort(env, shard: int, **counts: int) -> None:
    attrs = env.kv.items[COUNTER_KEYS[shard]].attrs
    for state, n in counts.items():
        attrs[state] = attrs.get(state, 0) + n


async def filled(env, n: int = 12):
    return [await submitted(env, a_bundle(f"r-{i}")) for i in range(n)]


def shard(submission) -> int:
    return shard_of(submission.id, COUNTER_SHARDS)


async def test_a_repair_sets_the_counters_right_once_and_says_by_how_much(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=3, PUBLISHED=-1)
    repaired = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert repaired.drift == {State.RECEIVED: 3, State.PUBLISHED: -1}
    check_invariants(env.kv)
    again = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert again.drift == {}
    check_invariants(env.kv)
    subjects = [entry.subject for entry in await within(env, get_audit)]
    assert subjects == ["nothing to set right", "RECEIVED -3, PUBLISHED +1"]


async def test_i5_skills_and_versions_are_recounted_and_set_right(env):
    for submission in await filled(env, 4):
        await processed(env, submission)
    await within(env, lambda: delete_skill("uploads/anonymous/r-0", "gone", "admin:anna"))
    assert (await within(env, lambda: admin_upkeep.recount(ADMIN))).drift == {}
    newest = env.kv.items[Key("skill:uploads/anonymous/r-3")]
    newest.attrs.pop("listPk")  # the index does not show it yet
    counter = next(key for key in SKILL_COUNTER_KEYS if env.kv.items.get(key))
    env.kv.items[counter].attrs["skills"] += 2
    env.kv.items[counter].attrs["versions"] -= 1
    counted = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert counted.drift == {"skills": 2, "versions": -1}
    assert (counted.found["skills"], counted.found["versions"]) == (3, 3)
    assert (await within(env, get_totals))[1] == (3, 3)
    check_invariants(env.kv)


async def test_i5_a_skill_that_gets_its_full_name_is_still_counted_once(env):
    """Its new name belongs to another counter."""
    old = [a_skill(f"owner-{n}/repo/pdf-{n}", n) for n in range(8)]
    old = [msgspec.structs.replace(skill, name=skill.display_name) for skill in old]
    for skill in old:
        await env.kv.put(skill_put(skill, ABSENT))
    await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert len(await within(env, migrate_skill_slugs)) == 8
    counted = await within(env, lambda: admin_upkeep.recount(ADMIN))
    assert (counted.found["skills"], counted.drift_by_counter) == (8, {})


async def test_only_an_admin_repairs_and_only_with_a_reason(env):
    with pytest.raises(Forbidden):
        await within(env, lambda: admin_upkeep.repair_counters(REVIEWER, WHY))
    assert (await within(env, lambda: admin_upkeep.recount(REVIEWER))).drift == {}


async def test_of_two_repairs_at_once_one_wins_and_nothing_is_taken_off_twice(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=5)
    outcomes = await asyncio.gather(
        *(within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY)) for _ in range(2)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(refused) <= 1
    assert all(isinstance(one, Conflict) and one.code == "changed_meanwhile" for one in refused)
    check_invariants(env.kv)


class MovingKV(MemoryKV):
    """While a recount reads its records, somebody moves one of them."""

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
    counted = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
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
    counted = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert (counted.busy, counted.drift) == (1, {})
    env.kv.moving = None
    assert (await within(env, lambda: admin_upkeep.recount(ADMIN))).drift == {State.BLOCKED: 1}


async def test_moves_between_the_count_and_the_repair_are_kept(env):
    first, *_ = await filled(env)
    distort(env, shard(first), RECEIVED=4)
    repairs = await within(env, recount.find_repairs)
    counted = await within(env, recount.count_again)
    await within(env, lambda: move_submission(first, State.ON_HOLD, "system", "meanwhile"))
    await within(env, lambda: recount.set_right(counted, repairs, []))
    check_invariants(env.kv)


async def test_the_newest_submission_counts_though_the_index_does_not_show_it_yet(env):
    await filled(env, 3)
    newest = await submitted(env, a_bundle("newest"))
    attrs = env.kv.items[Key(f"sub:{newest.id}")].attrs
    attrs.pop("listPk")
    assert (await within(env, lambda: admin_upkeep.recount(ADMIN))).drift == {}


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
    counted = await within(env, lambda: admin_upkeep.repair_counters(ADMIN, WHY))
    assert (counted.unread, counted.drift) == (1, {})
    env.kv.broken = COUNTER_KEYS[0]
    with pytest.raises(Unavailable):
        await within(env, lambda: admin_upkeep.recount(ADMIN))
