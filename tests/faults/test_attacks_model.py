"""Attacks on the platform as a whole, where one layer alone could not show that they fail."""

import io
import logging

import pytest

from shared.evidence.blocklist import find_block
from shared.github.client import GitHub
from shared.records.submissions import CATEGORIES, State
from shared.submissions import intake
from shared.telemetry import logger
from tests.faults import skill_sources as sources
from tests.faults.state_machine import check_nobody_pays_or_profits
from tests.faults.world import World
from tests.support.builders import processed
from tests.support.memory import GITHUB_TOKEN, FixedSecrets, memory_env, within

BAD = sorted(path.name for path in sources.SAMPLES.iterdir() if not path.name.endswith("-concerns"))


@pytest.mark.requirement("S14")
@pytest.mark.parametrize("name", BAD)
def test_a_judge_that_says_safe_to_everything_publishes_nothing_that_is_known_to_be_bad(name, monkeypatch):
    monkeypatch.setitem(sources.CONTENTS, "bad", sources._sample(name))
    world = World(judge=True)
    try:
        assert world.sources.judge_mode == "pass"
        world.submit("greeter", "bad")
        world.come_to_rest()
        world.check_rest()
        [record] = world.records().values()
        assert record.state not in CATEGORIES["published"]
    finally:
        world.close()


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def settled(world, name, content):
    accepted = world.submit(name, content)
    world.come_to_rest()
    return world.records()[accepted.submission.id]


@pytest.mark.requirement("S32")
@pytest.mark.parametrize("content", ["clone", "popular"])
def test_a_blocked_clone_or_copy_leaves_the_original_published(world, content):
    original = settled(world, "original", "popular")
    copy = settled(world, "thief", content)
    if copy.state == State.TIER1_FAILED:  # a decision, so only an admin's mistake leads to a block by hand
        world.decide("approve", copy.id)
    world.decide("block", copy.id)
    assert world.records()[copy.id].state == State.BLOCKED
    world.new_rules()
    assert world.rescan().blocked == []
    assert world.records()[original.id].state == State.PUBLISHED
    assert world.ask(lambda: find_block(original.skill_name, original.source, original.content_hash)) is None
    check_nobody_pays_or_profits(world)
    world.check_rest()


@pytest.mark.requirement("S33")
def test_a_copy_of_an_approved_skill_is_not_certified(world):
    original = settled(world, "original", "doubtful")
    assert original.state == State.ON_HOLD
    world.decide("approve", original.id)
    copy = settled(world, "stranger", "doubtful")
    assert (copy.state, copy.cert_tier, copy.copy_of) == (State.ON_HOLD, None, original.skill_name)
    check_nobody_pays_or_profits(world)
    world.check_rest()


@pytest.mark.requirement("S20")
async def test_the_token_for_github_is_in_no_log_line_and_in_no_record(capsys):
    env = memory_env(github_api_url="http://127.0.0.1:1")  # nobody listens
    assert isinstance(env.github, GitHub)
    assert (await FixedSecrets().get()).github_token == GITHUB_TOKEN
    written = io.StringIO()
    listener = logging.StreamHandler(written)
    logger.addHandler(listener)
    try:
        accepted = await within(
            env, lambda: intake.submit_repo("https://github.com/me/tools", None, "skills/a", None, None)
        )
        await processed(env, accepted.submission)
        env.clock.forward(minutes=5)
        await processed(env, accepted.submission)
    finally:
        logger.removeHandler(listener)
        await env.github.close()
    shown = capsys.readouterr()
    everything = written.getvalue() + shown.out + shown.err + str(env.kv.items)
    assert "submission accepted" in everything  # it was listening
    assert GITHUB_TOKEN not in everything
