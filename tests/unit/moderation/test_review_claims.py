"""Two reviewers and one submission: who holds it decides it; notes and outcomes of many at once."""

import pytest

from shared.access.audit import get_audit
from shared.errors import ConditionFailed, Conflict, Forbidden, InvalidRequest, LostLease
from shared.evidence.receipt_store import receipt_put
from shared.evidence.review_store import find_claim, find_claims, get_review
from shared.moderation import submission_decisions
from shared.moderation.appeals import Objection, answer_appeal, open_appeal
from shared.moderation.bulk_review import requeue_chosen
from shared.moderation.review_claims import add_note, claim_review, release_review
from shared.records.owners import Owner
from shared.records.submissions import State, touch
from shared.storage.secret_store import AdminToken
from shared.submissions.dead_letter_store import store_dead_letter
from shared.submissions.submission_store import commit, get_submission, move_submission
from tests.support.builders import a_bundle, a_receipt, processed, submitted
from tests.support.memory import Interrupted, memory_env, within

ANNA, ROB = AdminToken("anna", "admin", "0" * 64), AdminToken("rob", "reviewer", "1" * 64)
STRANGER = AdminToken("eve", "reader", "2" * 64)
WHY = "looked at it"
VERBS = {verb: getattr(submission_decisions, verb) for verb in ("approve", "reject", "block", "requeue", "dequeue")}


@pytest.fixture
def env():
    return memory_env(Interrupted)


async def held(env, name: str = "held"):
    submission = await submitted(env, a_bundle(name))
    await env.kv.put(receipt_put(a_receipt(submission.content_hash)))
    return await within(
        env, lambda: move_submission(submission, State.ON_HOLD, "system", "a doubt", parked_by="rule", rule_set="1")
    )


async def claimed(env, submission, by=ROB, **more):
    return await within(env, lambda: claim_review(submission.id, by, WHY, **more))


async def state_of(env, submission) -> State:
    return (await within(env, lambda: get_submission(submission.id))).state


@pytest.mark.parametrize("verb", VERBS)
async def test_who_holds_the_claim_decides_and_others_learn_who_and_until_when(env, verb):
    submission = await held(env)
    claim = await claimed(env, submission)
    with pytest.raises(Conflict, match=f"rob has claimed this submission until {claim.until:%H:%M} UTC") as refused:
        await within(env, lambda: VERBS[verb](submission.id, ANNA, WHY))
    assert refused.value.code == "claimed"
    assert await state_of(env, submission) == State.ON_HOLD
    await claimed(env, submission, ANNA, take_over=True)
    await within(env, lambda: VERBS[verb](submission.id, ANNA, WHY))
    assert await state_of(env, submission) != State.ON_HOLD
    assert await within(env, lambda: find_claim(submission.id)) is None  # a decision ends it


async def test_only_one_of_two_gets_the_claim_unless_it_is_taken_over_or_over(env):
    submission = await held(env)
    first = await claimed(env, submission)
    with pytest.raises(Conflict, match="rob has claimed"):
        await claimed(env, submission, ANNA)
    env.clock.forward(minutes=10)
    assert (await claimed(env, submission)).until > first.until  # its holder extends it
    env.clock.forward(minutes=15)
    assert (await claimed(env, submission, ANNA)).by == "anna"
    assert [entry.action for entry in await within(env, get_audit)] == ["claim"] * 3
    await claimed(env, submission, ROB, take_over=True)
    assert (await within(env, get_audit))[0].action == "take over claim"


async def test_an_expired_claim_stops_no_decision(env):
    submission = await held(env)
    await claimed(env, submission)
    env.clock.forward(minutes=15)
    await within(env, lambda: submission_decisions.reject(submission.id, ANNA, WHY))
    assert await state_of(env, submission) == State.REJECTED


@pytest.mark.parametrize("was_claimed", [False, True])
async def test_a_claim_at_the_very_moment_of_a_decision_stops_it(env, was_claimed):
    submission = await held(env)
    if was_claimed:
        await claimed(env, submission, ANNA)
    env.kv.meanwhile = lambda: claim_review(submission.id, ROB, WHY, take_over=True)
    with pytest.raises((ConditionFailed, LostLease)):
        await within(env, lambda: submission_decisions.reject(submission.id, ANNA, WHY))
    assert await state_of(env, submission) == State.ON_HOLD


async def test_of_two_claims_at_one_moment_one_is_refused(env):
    submission = await held(env)
    env.kv.meanwhile = lambda: claim_review(submission.id, ROB, WHY)
    with pytest.raises(Conflict, match="Another reviewer"):
        await claimed(env, submission, ANNA)
    assert (await within(env, lambda: find_claim(submission.id))).by == "rob"


async def test_a_dead_letter_of_a_claimed_submission_waits_too(env):
    submission = await held(env)
    await within(env, lambda: store_dead_letter("m-1", "{}", "failed", submission.id))
    await claimed(env, submission)
    with pytest.raises(Conflict, match="rob has claimed"):
        await within(env, lambda: submission_decisions.retry_dead_letter("m-1", ANNA, WHY))


async def test_a_blocked_skill_that_is_claimed_is_unblocked_by_its_holder_only(env):
    submission = await submitted(env, a_bundle("published"))
    await processed(env, submission)
    await within(env, lambda: submission_decisions.block(submission.id, ANNA, WHY))
    await claimed(env, submission)
    with pytest.raises(Conflict, match="rob has claimed"):
        await within(env, lambda: submission_decisions.unblock(submission.id, ANNA, WHY))
    await claimed(env, submission, ANNA, take_over=True)
    await within(env, lambda: submission_decisions.unblock(submission.id, ANNA, WHY))
    assert await state_of(env, submission) == State.PUBLISHED


async def test_an_appeal_is_answered_by_who_holds_the_claim_and_upholding_keeps_it(env):
    submission = await held(env)
    await within(env, lambda: commit(lambda _: touch(submission, repo_id=1000)))
    objections = [Objection("It is an example.")]
    appeal = await within(env, lambda: open_appeal(submission.id, Owner("acme/skills", 1000), objections))
    await claimed(env, submission)
    for overturned in ([], [0]):
        with pytest.raises(Conflict, match="rob has claimed"):
            await within(env, lambda o=overturned: answer_appeal(submission.id, appeal.id, ANNA, o, WHY))
    env.kv.meanwhile = lambda: claim_review(submission.id, ANNA, WHY, take_over=True)
    with pytest.raises(Conflict, match="changed since"):
        await within(env, lambda: answer_appeal(submission.id, appeal.id, ROB, [], WHY))
    await claimed(env, submission, take_over=True)
    await within(env, lambda: answer_appeal(submission.id, appeal.id, ROB, [], WHY))
    assert (await within(env, lambda: find_claim(submission.id))).by == "rob"


async def test_a_claim_is_released_by_its_holder_only(env):
    submission = await held(env)
    with pytest.raises(Conflict, match="not claimed"):
        await within(env, lambda: release_review(submission.id, ROB, WHY))
    await claimed(env, submission)
    with pytest.raises(Conflict, match="rob has claimed"):
        await within(env, lambda: release_review(submission.id, ANNA, WHY))
    await within(env, lambda: release_review(submission.id, ROB, WHY))
    assert (await claimed(env, submission, ANNA)).by == "anna"


async def test_claims_and_notes_take_a_reviewer_and_something_to_decide(env):
    submission = await held(env)
    for act in (claim_review, release_review, add_note):
        with pytest.raises(Forbidden):
            await within(env, lambda act=act: act(submission.id, STRANGER, WHY))
    await within(env, lambda: submission_decisions.reject(submission.id, ROB, WHY))
    with pytest.raises(Conflict, match="not waiting for a decision"):
        await claimed(env, submission)


async def test_notes_are_kept_newest_first_and_in_the_audit_log(env):
    submission = await held(env)
    for n in range(51):
        env.clock.forward(seconds=1)
        await within(env, lambda n=n: add_note(submission.id, ROB, f" note\n{n} "))
    review = await within(env, lambda: get_review(submission.id))
    assert (review.notes[0].text, review.notes[0].by, len(review.notes), review.more_notes) == (
        "note 50",
        "rob",
        50,
        True,
    )
    [entry] = await within(env, lambda: get_audit(1))
    assert (entry.action, entry.subject, entry.why) == ("note", submission.id, "note 50")
    for text in (" ", "x" * 501):
        with pytest.raises(InvalidRequest, match="A note has"):
            await within(env, lambda text=text: add_note(submission.id, ROB, text))


async def test_many_are_requeued_each_with_its_own_outcome(env):
    good, changed, taken = [await held(env, name) for name in ("good", "changed", "taken")]
    await claimed(env, taken, ANNA)
    seen = {good.id: good.version, changed.id: 1, taken.id: taken.version, "sub_none": None}
    outcomes = await within(env, lambda: requeue_chosen(seen, ROB, WHY))
    problems = [one.problem or "" for one in outcomes]
    assert [one.submission_id for one in outcomes] == list(seen)
    for problem, part in zip(problems, ("", "changed since", "anna has claimed", "no submission"), strict=True):
        assert part in problem
    assert problems[0] == ""
    assert [await state_of(env, one) for one in (good, changed, taken)] == [
        State.RECEIVED,
        State.ON_HOLD,
        State.ON_HOLD,
    ]
    for number in (0, 51):
        with pytest.raises(InvalidRequest, match="Select 1 to 50"):
            await within(env, lambda number=number: requeue_chosen(dict.fromkeys(map(str, range(number))), ROB, WHY))
    with pytest.raises(InvalidRequest, match="reason"):
        await within(env, lambda: requeue_chosen(seen, ROB, " "))


async def test_the_claims_of_a_list_are_read_at_once(env):
    some = [await held(env, f"one-{n}") for n in range(3)]
    await claimed(env, some[1])
    [claim] = await within(env, lambda: find_claims(one.id for one in some))
    assert claim.submission_id == some[1].id
