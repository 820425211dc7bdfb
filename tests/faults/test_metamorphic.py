"""Runs that must end alike: with messages duplicated, with scans repeated, with independent messages in any order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.skill_sources import CONTENTS
from tests.faults.test_model import CALM
from tests.faults.world import World

NAMES = ("greeter", "writer", "helper", "drawer")
lots = st.lists(st.sampled_from(sorted(CONTENTS)), min_size=1, max_size=len(NAMES))
brief = settings(max_examples=25, derandomize=True, **CALM)


def ends(contents, between=lambda world: None, picks=(0, 0, 0)):
    """What becomes of each: its state, why, and what was published."""
    world = World()
    try:
        for name, content in zip(NAMES, contents, strict=False):
            world.submit(name, content)
        for _ in range(3):
            between(world)
            world.deliver(picks)
        between(world)
        world.come_to_rest()
        world.check_rest()
        return {
            record.skill_name: (record.state, record.reason, record.attempts, record.published_version)
            for record in world.records().values()
        }
    finally:
        world.close()


@brief
@given(lots, st.lists(st.integers(0, 9), max_size=6))
def test_duplicating_any_message_changes_no_end(contents, which):
    def duplicate(world):
        for n in which:
            world.duplicate(n)

    assert ends(contents, duplicate) == ends(contents)


@brief
@given(lots, st.integers(1, 3))
def test_scanning_again_changes_no_end(contents, times):
    def scan(world):
        for _ in range(times):
            world.scan()

    assert ends(contents, scan) == ends(contents)


@brief
@given(lots, st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_independent_messages_may_come_in_any_order(contents, picks):
    assert ends(contents, picks=picks) == ends(contents)
