"""Repository health through the real GitHub client, against the stub: each answer has its meaning, none is an error."""

import pytest

from shared.marketplace.repo_health_store import get_repo_health
from tests.support.memory import memory_env, within
from tests.support.stub_github import FAULTS, StubGitHub

SOURCE = "https://github.com/acme/skills"  # the stub's repositories were pushed to a day before the clock starts


@pytest.fixture
def stub():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def env(stub):
    env = memory_env(github_api_url=stub.url)
    yield env
    await env.github.close()


def status(env):
    return within(env, lambda: get_repo_health(SOURCE))


async def test_online_then_stale_then_offline(stub, env):
    stub.repo("Acme/Skills", {"SKILL.md": "# x"})
    assert (await status(env)).status == "ONLINE"
    env.clock.forward(days=366)
    assert (await status(env)).status == "STALE"
    stub.repos.clear()
    env.clock.forward(days=2)
    assert (await status(env)).status == "OFFLINE"


async def test_a_repository_that_became_private_is_offline(stub, env):
    stub.repo("acme/skills", {"SKILL.md": "# x"}, private=True)
    assert (await status(env)).status == "OFFLINE"


async def test_a_renamed_repository_is_online(stub, env):
    stub.rename(stub.repo("acme/skills", {"SKILL.md": "# x"}), "acme/all-skills")
    assert (await status(env)).status == "ONLINE"


@pytest.mark.requirement("R27")
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("hang", "slow")])
async def test_whatever_github_answers_the_old_value_stays(stub, env, fault):
    stub.repo("acme/skills", {"SKILL.md": "# x"})
    before = await status(env)
    env.clock.forward(hours=25)
    stub.fail("any", fault)
    assert await status(env) == before
    stub.fail("any", None)
