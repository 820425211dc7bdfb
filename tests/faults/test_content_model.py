"""What is published, on the whole platform in memory: one skill for one identity, with the content that was scanned."""

import pytest

from shared.records.submissions import State
from tests.faults.actors import Plan
from tests.faults.skill_sources import CONTENTS
from tests.faults.world import World


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def only(world):
    [record] = world.records().values()
    return record


@pytest.mark.requirement("I7")
def test_a_skill_that_was_submitted_by_name_and_by_path_is_one_in_the_end(world):
    world.sources.github_is_down = True  # so that a name stays a name until a worker asks
    world.submit_repo("tools", by_name=True)
    world.sources.github_is_down = False
    world.submit_repo("tools")
    world.come_to_rest()
    world.check_rest()
    ends = {record.state: record for record in world.records().values()}
    assert set(ends) == {State.PUBLISHED, State.DEQUEUED}
    assert ends[State.PUBLISHED].id in ends[State.DEQUEUED].reason


def test_what_is_published_is_what_was_scanned(world):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", 2, on="get_files"))
    assert only(world).state is State.AUTO_APPROVED
    world.content.files[only(world).content_hash] = CONTENTS["blocked"]
    for worker in world.held():
        world.go_on(worker)
    assert only(world).state is State.RESCAN_REQUIRED
    world.come_to_rest()
    world.check_rest()
