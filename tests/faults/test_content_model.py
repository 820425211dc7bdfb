"""What is published, on the whole platform in memory: one skill for one identity, with the content that was scanned."""

from unittest.mock import patch

import pytest

from shared.records.submissions import State
from shared.scanner.scan_runner import unfinished_report
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
    assert only(world).state is State.TIER1_SCANNING
    world.content.files[only(world).content_hash] = CONTENTS["blocked"]
    for worker in world.held():
        world.go_on(worker)
    assert only(world).state is State.RESCAN_REQUIRED
    world.come_to_rest()
    world.check_rest()


@pytest.mark.requirement("R37")
@pytest.mark.parametrize("again", ["requeue", "another upload"])
def test_what_a_stopped_scan_said_is_not_used_again(world, again):
    """By the next attempt, or by another worker's copy: both scan, and the scan that finishes decides."""
    world.submit("greeter", "heavy")
    world.deliver()
    assert (only(world).state, only(world).attempts) == (State.ON_HOLD, 1)
    world.sources.stops_heavy_scans = False
    if again == "requeue":
        world.decide("requeue", only(world).id)
    else:
        world.submit("another", "heavy")
    world.come_to_rest()
    world.check_rest()
    assert State.PUBLISHED in {record.state for record in world.records().values()}


@pytest.mark.requirement("R37")
def test_a_person_cannot_approve_what_no_scan_has_read(world):
    world.submit("greeter", "heavy")
    world.deliver()
    refusal = world.decide("approve", only(world).id)
    assert "Requeue it instead" in str(refusal)
    assert only(world).state is State.ON_HOLD
    world.check()


def test_a_rescan_that_is_stopped_leaves_what_is_published_and_is_tried_again(world):
    world.submit("greeter", "good")
    world.deliver()
    with patch.object(world, "scan_files", lambda files, findings: unfinished_report(files, findings, "stopped")):
        world.new_rules()
        for _ in range(2):
            report = world.rescan()
            assert (report.blocked, report.failed) == ([], [only(world).skill_name])
    assert only(world).state is State.PUBLISHED
    assert (world.rescan().rescanned, world.rescan().rescanned) == (1, 0)
