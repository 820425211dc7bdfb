"""What a repository and an address may cost, on the whole platform in memory, with workers that die."""

import pytest

from shared.records.submissions import State
from tests.faults.actors import KINDS, Plan
from tests.faults.world import World


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_in_trouble_at_any_point_costs_one_more_download_at_most(kind):
    """Before each call: after the call before, the stores are the same. The last time, the worker has no more calls."""
    at, had_trouble = 0, True
    while had_trouble:
        world = World()
        try:
            world.submit_repo("tools")
            by_request = world.sources.downloads
            world.deliver(plan=Plan(kind, at))
            had_trouble = world.injected[kind] > 0
            world.come_to_rest()
            world.check_rest()
            assert [record.state for record in world.records().values()] == [State.PUBLISHED], at
            assert (by_request, world.sources.downloads - by_request <= 2) == (1, True), at
        finally:
            world.close()
        at += 2
    assert at > 10


@pytest.mark.requirement("S37")
def test_an_address_gets_its_share_back_when_the_worker_that_had_it_is_gone(world):
    for name in ("greeter", "writer"):
        world.submit(name, "good", ip="192.0.2.1")
    assert world.submit("greeter-2", "good", ip="192.0.2.1") is None
    world.deliver(plan=Plan("crash", 1, on="TransactWriteItems"))
    world.check()
    world.come_to_rest()
    world.check_rest()
    assert world.submit("greeter-2", "good", ip="192.0.2.1")
    world.come_to_rest()
    world.check_rest()
