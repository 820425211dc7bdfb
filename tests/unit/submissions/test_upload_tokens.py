"""The token of an upload: replaced, told apart from a missing one; a name that was never published becomes free."""

import pytest

from shared.errors import Conflict, Forbidden
from shared.records.submissions import State
from shared.submissions import intake
from shared.submissions.submission_store import move_submission
from shared.submissions.upload_tokens import cancel_upload, rotate_upload_token
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.memory import memory_env, within


@pytest.fixture
def env():
    return memory_env()


async def submit(env, bundle, token=None):
    return await within(env, lambda: intake.submit_bundle(bundle["name"], bundle["files"], token, None, None))


def changed(name="greeter"):
    return a_bundle(name, "Greets people anew.")


async def test_a_rotated_token_takes_the_place_of_the_old_one(env):
    first = await submit(env, a_bundle())
    new = await within(env, lambda: rotate_upload_token(first.submission.id, first.upload_token))
    await processed(env, first.submission)
    with pytest.raises(Forbidden) as refused:
        await submit(env, changed(), first.upload_token)
    assert refused.value.code == "wrong_upload_token"
    assert (await submit(env, changed(), new)).flag == "requeued"


async def test_a_rotation_requires_the_current_token(env):
    first = await submit(env, a_bundle())
    other = await submit(env, a_bundle("other"))
    with pytest.raises(Forbidden):
        await within(env, lambda: rotate_upload_token(first.submission.id, other.upload_token))


async def test_a_replay_of_the_first_request_does_not_give_a_token_that_was_replaced(env):
    once = intake.Idempotency("k" * 16, "hash")
    bundle = a_bundle()

    async def first_request():
        return await intake.submit_bundle(bundle["name"], bundle["files"], None, None, once)

    first = await within(env, first_request)
    assert (await within(env, first_request)).upload_token == first.upload_token
    await within(env, lambda: rotate_upload_token(first.submission.id, first.upload_token))
    assert (await within(env, first_request)).upload_token is None


async def test_a_name_that_was_never_published_is_claimed_anew_after_7_days(env):
    refused = await submitted(env, an_unusable_bundle("greeter"))
    await processed(env, refused)
    env.clock.forward(days=6, hours=23)
    with pytest.raises(Conflict) as taken:
        await submit(env, changed())
    assert taken.value.code == "name_taken"
    env.clock.forward(hours=2)
    claimed = await submit(env, changed())
    assert (claimed.submission.id, claimed.flag) == (refused.id, "requeued")
    await processed(env, claimed.submission)
    assert (await submit(env, a_bundle("greeter", "Third."), claimed.upload_token)).flag == "requeued"


@pytest.mark.parametrize(
    ("state", "parked_by"), [(State.DEQUEUED, None), (State.ON_HOLD, "faults"), (State.BLOCKED, "person")]
)
async def test_a_name_is_claimed_anew_unless_it_is_blocked(env, state, parked_by):
    first = await submit(env, an_unusable_bundle("greeter"))
    await within(env, lambda: move_submission(first.submission, state, "system", "stopped", parked_by=parked_by))
    env.clock.forward(days=8)
    if state is State.BLOCKED:
        with pytest.raises(Conflict):
            await submit(env, changed())
    else:
        assert (await submit(env, changed())).flag == "requeued"


async def test_the_token_of_before_is_of_no_use_after_a_claim(env):
    first = await submit(env, an_unusable_bundle("greeter"))
    await processed(env, first.submission)
    env.clock.forward(days=8)
    claimed = await submit(env, changed())
    await processed(env, claimed.submission)
    with pytest.raises(Forbidden):
        await submit(env, a_bundle("greeter", "Third."), first.upload_token)


async def test_a_published_name_is_never_claimed(env):
    await processed(env, (await submit(env, a_bundle())).submission)
    env.clock.forward(days=400)
    with pytest.raises(Conflict):
        await submit(env, changed())


async def test_a_waiting_upload_is_cancelled_with_its_token_and_taken_back_with_it(env):
    first = await submit(env, a_bundle())
    with pytest.raises(Forbidden):
        await within(env, lambda: cancel_upload(first.submission.id, "0" * 64))
    cancelled = await within(env, lambda: cancel_upload(first.submission.id, first.upload_token))
    assert (cancelled.state, cancelled.reason) == (State.DEQUEUED, "Cancelled by its uploader.")
    assert (await submit(env, a_bundle())).flag == "duplicate"  # without the token nothing happens
    with pytest.raises(Forbidden):
        await submit(env, a_bundle(), "0" * 64)
    again = await submit(env, a_bundle(), first.upload_token)
    assert (again.flag, again.submission.state) == ("requeued", State.RECEIVED)
    await processed(env, again.submission)
    with pytest.raises(Conflict) as refused:
        await within(env, lambda: cancel_upload(first.submission.id, first.upload_token))
    assert refused.value.code == "illegal_move"
