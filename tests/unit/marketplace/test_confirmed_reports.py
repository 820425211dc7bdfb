"""S46: trust that cannot be moved by a stranger."""

import pytest

from shared.marketplace.community import add_report, confirm_report, resolve_report, trust_of
from shared.marketplace.skill_store import get_skill_with_counts
from tests.support.external_scans import claim, report, requested
from tests.support.memory import memory_env, within
from tests.support.owners import owned_skill
from tests.support.route_calls import call

NAME = "acme/skills/pdf"


@pytest.fixture
def env():
    return memory_env()


async def score(env) -> int | None:
    async def read() -> int | None:
        skill, counts = await get_skill_with_counts(NAME)
        return trust_of(skill, counts, env.clock()).score

    return await within(env, read)


@pytest.mark.requirement("S46")
async def test_a_report_costs_no_trust_until_a_reviewer_confirms_it(env):
    await owned_skill(env)
    before = await score(env)
    reports = [await within(env, lambda: add_report(NAME, "spam", "Bad.", env.clock())) for _ in range(3)]
    assert await score(env) == before
    await within(env, lambda: confirm_report(reports[0].id, "rita", env.clock()))
    assert await score(env) == before - 5
    await within(env, lambda: resolve_report(reports[0].id, "fixed", "anna", env.clock()))
    assert await score(env) == before
    _, counts = await within(env, lambda: get_skill_with_counts(NAME))
    assert (counts.open_reports, counts.confirmed_reports) == (2, 0)


@pytest.mark.requirement("S46")
async def test_a_blocked_skill_shows_no_score_and_no_badge(env):
    skill = await owned_skill(env, is_blocked=True, block_reason="It steals.")
    await requested(env, NAME, skill.content_hash, ["bandit"])
    await report(env, await claim(env))
    assert await score(env) is None
    shown = await call(env, "GET /skills/{proxy+}", f"/skills/{NAME}", proxy=NAME)
    assert shown.status == 200
    assert "of 100" not in shown.text
    assert "badge" not in shown.text
    detail = await call(env, "GET /api/v1/skills/{proxy+}", f"/api/v1/skills/{NAME}", proxy=NAME)
    assert (detail.json["skill"]["trustScore"], detail.json["skill"]["certScore"]) == (None, None)
    versions = await call(env, "GET /api/v1/skills/{proxy+}", proxy=f"{NAME}/versions")
    one = await call(env, "GET /api/v1/skills/{proxy+}", proxy=f"{NAME}/versions/1.0.0")
    scores = [each["certScore"] for each in (*versions.json["versions"], one.json)]
    assert scores == [None, None]
    security = await call(env, "GET /api/v1/skills/{proxy+}", proxy=f"{NAME}/security")
    assert [each["score"] for each in security.json["providers"]] == [None]
