"""What the model found in the platform, each as the shortest run that showed it."""

import pytest

from shared.records.submissions import State
from tests.faults.actors import Plan
from tests.faults.world import World


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def only(world):
    [record] = world.records().values()
    return record


@pytest.mark.requirement("I9")
@pytest.mark.parametrize("at", range(3, 15))
def test_a_worker_that_lost_its_record_keeps_its_message_while_no_other_worker_has_one(world, at):
    """A person requeued it under the worker's hands, and that send failed: the worker's message was deleted as "left
    to its new holder", and the submission waited for the scan without any."""
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", at))
    world.decide("requeue", only(world).id, Plan("down", 6))
    assert len(world.sqs.messages) == 1
    for worker in world.held():
        world.go_on(worker)
    world.check()
    assert only(world).state is not State.RECEIVED or world.sqs.messages


@pytest.mark.requirement("I9")
def test_a_worker_that_was_too_late_to_claim_keeps_its_message_while_no_other_worker_has_one(world):
    """The scan noted a resend between the worker's read and its claim and died before it sent anything."""
    world.submit("greeter", "good")
    world.tick(minutes=6)
    world.deliver(plan=Plan("pause", 1))
    [worker] = world.held()
    step = 0
    while only(world).resent_at is None:  # however many reads the scan makes before it writes
        step += 1
        world.scan(Plan("crash", step))
    assert len(world.sqs.messages) == 1
    world.go_on(worker)
    world.check()
    assert world.sqs.messages
    world.come_to_rest()
    world.check_rest()
    assert only(world).state is State.PUBLISHED
