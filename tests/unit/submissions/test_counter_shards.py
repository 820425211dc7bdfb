"""The number of counters is a setting. Whatever it was before, the sums are exact and a recount finds no drift."""

from dataclasses import replace

import pytest

from shared.errors import InvalidSettings
from shared.moderation.recount import continue_recount
from shared.records.submissions import State
from shared.settings import load_settings
from shared.submissions.counters import (
    COUNTER_KEYS,
    MOST_SHARDS,
    counter_keys,
    get_hours,
    get_stats,
    get_totals,
    note_shards,
    roll_up_hours,
)
from tests.support.builders import a_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within
from tests.unit.test_settings import GOOD

MANY = 30


def with_shards(env, shards: int):
    """The same platform after a deployment."""
    return replace(env, settings=replace(env.settings, counter_shards=shards))


async def accepted(env, name: str):
    return await submitted(env, a_bundle(name))


async def test_more_counters_take_the_moves_and_each_view_adds_up_all_of_them(env):
    wide = with_shards(env, 50)
    for n in range(MANY):
        await processed(wide, await accepted(wide, f"skill-{n}"))
    used = [key for key in counter_keys(50) if key in env.kv.items]
    assert len(used) > len(COUNTER_KEYS)
    assert (await within(wide, get_stats)).by_state[State.PUBLISHED] == MANY
    stats, market = await within(wide, get_totals)
    assert (stats.total, market.skills) == (MANY, MANY)
    check_invariants(env.kv)


@pytest.mark.parametrize("scans", [True, False])
async def test_the_number_changes_in_the_middle_of_everything_and_nothing_is_miscounted(env, scans):
    """Raised, and lowered again after a scan has noted it. Submissions are accepted under one number, moved under
    another."""
    under_way = [await accepted(env, f"first-{n}") for n in range(MANY)]
    for shards in (20, 50, 10) if scans else (20, 50):
        changed = with_shards(env, shards)
        for one in under_way:
            await processed(changed, one)
        under_way = [await accepted(changed, f"at-{shards}-{n}") for n in range(MANY)]
        stats = await within(changed, get_stats)
        assert stats.total == sum(stats.by_state.values())
        assert (stats.by_state[State.RECEIVED], stats.degraded) == (MANY, False)
        if scans:
            await within(changed, note_shards)
            assert (await within(with_shards(env, 10), get_stats)).by_state == stats.by_state
        progress = await within(changed, continue_recount)
        assert (progress.recount.drift_by_counter, progress.recount.busy) == ({}, 0)
    check_invariants(env.kv)


async def test_hours_are_added_up_and_removed_from_all_counters(env):
    wide = with_shards(env, 50)
    for n in range(MANY):
        await accepted(wide, f"skill-{n}")
    await within(wide, note_shards)
    env.clock.forward(hours=3)
    for _ in range(2):
        await within(wide, lambda: roll_up_hours(env.clock()))
    assert not [
        name for key in counter_keys(50) if key in env.kv.items for name in env.kv.items[key].attrs if "." in name
    ]
    hours = await within(wide, lambda: get_hours(env.clock()))
    assert sum(hour.counts.get("created", 0) for hour in hours) == MANY


async def test_of_two_scans_one_notes_the_number_and_it_only_rises(env):
    for shards in (20, 20, 50, 10, 50):
        await within(with_shards(env, shards), note_shards)
    assert env.kv.items[COUNTER_KEYS[0]].attrs == {MOST_SHARDS: 50}


async def test_a_counter_of_a_higher_number_that_cannot_be_read_makes_the_sum_unknown():
    class Broken(MemoryKV):
        broken = counter_keys(50)[-1]

        async def get_counts(self, keys):
            read = await super().get_counts(keys)
            failed = [key for key in (*read.found, *read.missing) if key == self.broken]
            return replace(read, missing=[key for key in read.missing if key != self.broken], failed=failed)

    env = memory_env(Broken)
    await within(with_shards(env, 50), note_shards)
    stats = await within(env, get_stats)
    assert (stats.total, stats.degraded) == (None, True)


@pytest.mark.parametrize("number", ["0", "15", "1000", "ten"])
def test_a_number_that_would_split_the_groups_of_a_recount_is_refused(number):
    with pytest.raises(InvalidSettings):
        load_settings(GOOD | {"COUNTER_SHARDS": number})
