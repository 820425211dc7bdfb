"""Submitted files expire; those of a published version do not, whatever else was submitted with the same bytes."""

import pytest

from shared.marketplace.artifacts import read_artifact
from shared.marketplace.published_content import get_published_files
from shared.marketplace.skill_store import get_version
from shared.moderation import submission_decisions
from shared.records.submissions import State
from shared.submissions.submission_store import get_submission
from tests.support.builders import a_bundle, a_harmful_bundle, processed, submitted
from tests.support.memory import within
from tests.support.route_calls import call
from tests.unit.moderation.test_submission_decisions import ADMIN, WHY, parked


async def now_of(env, submission):
    return await within(env, lambda: get_submission(submission.id))


async def approved(env, submission):
    return await within(env, lambda: submission_decisions.approve(submission.id, ADMIN, WHY))


async def read_all_of(env, submission):
    """The files and every artifact of its version."""
    version = await within(env, lambda: get_version(submission.skill_name, submission.published_version))
    for packaging in version.artifacts:
        assert await within(env, lambda p=packaging: read_artifact(version, p))
    return await within(env, lambda: get_published_files(version.content_hash))


async def test_the_files_of_a_rejected_submission_expire_and_the_evidence_stays(env):
    submission = await submitted(env, a_harmful_bundle("harmful"))
    await processed(env, submission)
    env.content.expire()
    assert env.content.files == {}
    page = await call(env, "GET /submissions/{id}", id=submission.id)
    assert page.status == 200
    assert "/dev/tcp/" in page.text


async def test_the_files_of_a_version_do_not_expire(env):
    submission = await submitted(env)
    await processed(env, submission)
    env.content.expire()
    assert "SKILL.md" in await read_all_of(env, await now_of(env, submission))


async def test_what_is_rejected_first_and_published_after_it_was_submitted_again_stays(env):
    first = await parked(env)
    await within(env, lambda: submission_decisions.reject(first.id, ADMIN, WHY))
    env.content.expire()
    again = await submitted(env, a_bundle("parked"))
    await processed(env, again)
    published = await now_of(env, again)
    env.content.expire()
    assert published.state == State.PUBLISHED
    assert "SKILL.md" in await read_all_of(env, published)


async def test_bytes_that_one_skill_published_stay_when_the_same_are_rejected_under_another_name(env):
    one = await submitted(env, a_bundle("one"))
    await processed(env, one)
    files = dict(env.content.files[one.content_hash])
    await env.content.put_files(files)  # as the other submission does
    env.content.expire()
    assert await read_all_of(env, await now_of(env, one)) == files


@pytest.mark.parametrize("is_expired", [False, True])
async def test_what_waits_longer_than_its_files_are_stored_is_not_published_but_waits_for_a_new_scan(env, is_expired):
    submission = await parked(env)
    if is_expired:
        env.content.expire()
    decided = await approved(env, submission)
    if is_expired:
        assert (decided.state, decided.published_version) == (State.RESCAN_REQUIRED, None)
        assert "kept for 180 days" in decided.reason
    else:
        assert "SKILL.md" in await read_all_of(env, decided)
