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
    for at in range(0, 60, 1 if kind in ("crash", "pause") else 2):
        world = World()
        try:
            world.submit_repo("tools")
            world.deliver(plan=Plan(kind, at))
            world.come_to_rest()
            world.check_rest()
            assert [record.state for record in world.records().values()] == [State.PUBLISHED], at
            assert world.sources.downloads <= 2, at
        finally:
            world.close()


@pytest.mark.requirement("S37")
def test_an_address_gets_its_share_back_when_the_worker_that_had_it_is_gone(world):
    for name in ("greeter", "writer"):
        world.submit(name, "good", ip="192.0.2.1")
    assert world.submit("greeter-2", "good", ip="192.0.2.1") is None
    world.deliver(plan=Plan("crash", 3, on="TransactWriteItems"))
    world.check()
    world.come_to_rest()
    world.check_rest()
    assert world.submit("greeter-2", "good", ip="192.0.2.1")
    world.come_to_rest()
    world.check_rest()
