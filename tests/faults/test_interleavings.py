"""A worker is held at each of its points while another actor runs to its end, and is then resumed."""

import pytest

from tests.faults.actors import Plan
from tests.faults.world import World


def decide(verb, plan=None):
    return lambda world: world.decide(verb, next(iter(world.records())), plan or Plan())


def scan(world):
    world.tick(minutes=6)
    world.scan()


def scan_and_work(world):
    scan(world)
    world.deliver()


def take_over(world):
    world.tick(minutes=13)
    world.deliver()


def rescan(world):
    world.new_rules()
    world.rescan()


OTHERS = {
    "a scan": scan,
    "a scan and a worker": scan_and_work,
    "a takeover": take_over,
    "new content": lambda world: world.submit("greeter", "better"),
    "a rescan": rescan,
    **{verb: decide(verb) for verb in ("approve", "reject", "block", "dequeue", "requeue")},
    "a requeue without a send": decide("requeue", Plan("down", 4)),
}


@pytest.mark.parametrize("content", ["good", "doubtful"])
@pytest.mark.parametrize("other", OTHERS)
def test_whatever_happens_between_two_calls_of_a_worker_every_invariant_holds(content, other):
    """Before each call: after the call before, the stores are the same. The last time, the worker has no more calls."""
    at, is_held = 0, True
    while is_held:
        world = World(judge=content == "doubtful", scanners=("bandit",))
        try:
            world.submit("greeter", content)
            world.deliver(plan=Plan("pause", at))
            is_held = bool(world.held())
            OTHERS[other](world)
            world.check()
            for worker in world.held():
                world.go_on(worker)
                world.check()
            world.come_to_rest()
            world.check_rest()
        finally:
            world.close()
        at += 2
    assert at > 10
