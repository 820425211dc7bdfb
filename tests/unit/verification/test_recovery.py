"""What the stuck scan finds and does."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from shared import db
from shared.errors import Unavailable
from shared.marketplace.skill_search import search_skills
from shared.records.submissions import Rescue, State, new_id
from shared.storage.kv import Key
from shared.submissions.pause import pause_queue
from shared.submissions.submission_store import (
    claim_submission,
    create,
    get_history,
    get_stuck_submissions,
    get_submission,
)
from shared.timing import RESEND_PERIOD, STUCK_THRESHOLD, time_limit
from shared.verification.recovery import park_undelivered, recover_all_stuck, recover_stuck, rescue
from tests.support.builders import WHILE, a_bundle, processed, submitted
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, MemoryQueue, memory_env, within


async def scan(env, **options):
    return await within(env, lambda: recover_stuck(**options))


async def record(env, submission):
    return await within(env, lambda: get_submission(submission.id))


async def claimed(env, submission, worker="worker"):
    current = await record(env, submission)
    return await within(env, lambda: claim_submission(current, worker, WHILE))


async def test_a_tick_goes_on_while_it_recovers_something(env):
    for n in range(7):
        await submitted(env, a_bundle(f"forgotten-{n}"))
    env.clock.forward(minutes=20)
    env.queue.sent.clear()
    env.queue.is_down = True
    report = await within(env, lambda: recover_all_stuck(limit=2))
    assert (report.found, report.sent_again, len(report.failed), report.more) == (2, 0, 2, True)
    env.queue.is_down = False
    report = await within(env, lambda: recover_all_stuck(limit=2))
    assert (report.found, report.sent_again, report.failed, report.more) == (7, 7, [], False)
    assert len({sent for sent, _ in env.queue.sent}) == 7


async def test_a_tick_ends_in_time(env):
    for n in range(7):
        await submitted(env, a_bundle(f"forgotten-{n}"))
    env.clock.forward(minutes=20)

    async def with_no_time_left():
        with time_limit(timedelta()):
            return await recover_all_stuck(limit=2)

    assert (await within(env, with_no_time_left)).sent_again == 2


@pytest.mark.requirement("R02")
async def test_a_send_that_failed_is_made_up_for_by_the_scan(env):
    env.queue.is_down = True
    submission = await submitted(env)
    env.queue.is_down = False
    env.clock.forward(minutes=6)
    report = await scan(env)
    assert (report.found, report.sent_again) == (1, 1)
    assert env.queue.sent == [(submission.id, timedelta())]
    await processed(env, submission)
    assert (await record(env, submission)).state == State.PUBLISHED
    check_invariants(env.kv)


async def test_a_waiting_one_is_sent_at_most_once_in_fifteen_minutes_and_never_gives_up(env):
    submission = await submitted(env)
    env.queue.sent.clear()
    for _ in range(60):  # five hours, a tick every five minutes
        env.clock.forward(minutes=5)
        await scan(env)
    assert 19 <= len(env.queue.sent) <= timedelta(hours=5) // RESEND_PERIOD
    after = await record(env, submission)
    assert (after.state, after.attempts) == (State.RECEIVED, 0)


@pytest.mark.requirement("R01")
async def test_a_lost_worker_costs_an_attempt_and_the_submission_still_ends_once(env):
    submission = await submitted(env)
    await claimed(env, submission)
    env.clock.forward(minutes=6)
    report = await scan(env)
    assert (report.found, report.requeued) == (1, 1)
    env.clock.forward(minutes=4)
    await processed(env, submission)
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history].count(State.PUBLISHED) == 1
    check_invariants(env.kv)


async def test_after_three_lost_workers_a_person_decides(env):
    submission = await submitted(env)
    delays = []
    for _ in range(3):
        await claimed(env, submission)
        env.clock.forward(minutes=10)
        env.queue.sent.clear()
        await scan(env)
        delays += [delay for _, delay in env.queue.sent]
        env.clock.forward(minutes=4)
    after = await record(env, submission)
    assert after.state == State.ON_HOLD
    assert after.reason.startswith("stuck: gave up after 3 attempts: attempt 2 of 3")
    assert delays == [timedelta(), timedelta(minutes=3)]
    check_invariants(env.kv)


@pytest.mark.requirement("R08", "I16")
async def test_a_live_lease_is_never_touched(env):
    submission = await submitted(env)
    env.clock.forward(minutes=30)
    held = await claimed(env, submission)
    for _ in range(3):
        report = await scan(env)
        assert report.found == 0
        assert await within(env, lambda: rescue(held)) is Rescue.LEAVE
    assert await record(env, submission) == held


@pytest.mark.requirement("R10")
async def test_a_worker_that_finishes_between_read_and_write_wins(env):
    submission = await submitted(env)
    await claimed(env, submission)
    env.clock.forward(minutes=6)
    [stuck] = (await within(env, lambda: get_stuck_submissions(db.now()))).submissions
    await processed(env, submission)
    before = await record(env, submission)
    assert await within(env, lambda: rescue(stuck)) is Rescue.LEAVE
    assert await record(env, submission) == before
    assert before.state == State.PUBLISHED


@pytest.mark.requirement("R13")
async def test_of_overlapping_scans_one_rescues(env):
    submission = await submitted(env)
    await claimed(env, submission)
    env.clock.forward(minutes=6)
    env.queue.sent.clear()
    reports = await asyncio.gather(*(scan(env) for _ in range(5)))
    assert sum(report.requeued for report in reports) == 1
    assert len(env.queue.sent) == 1
    check_invariants(env.kv)


@pytest.mark.requirement("I13")
async def test_a_second_scan_changes_nothing(env):
    await claimed(env, await submitted(env))
    await submitted(env, a_bundle("other"))
    env.clock.forward(minutes=6)
    await scan(env)
    before = dict(env.kv.items)
    assert (await scan(env)).found == 0
    assert env.kv.items == before


@pytest.mark.requirement("R11")
async def test_lost_leases_come_before_waiting_rows(env):
    for n in range(30):
        await submitted(env, a_bundle(f"waiting-{n}"))
    lost = await submitted(env, a_bundle("lost"))
    await claimed(env, lost)
    env.clock.forward(minutes=6)
    report = await scan(env, limit=10)
    assert (report.found, report.requeued, report.more) == (10, 1, True)
    assert (await record(env, lost)).state == State.RECEIVED


@pytest.mark.requirement("R11")
async def test_during_a_pause_waiting_rows_are_not_read_and_lost_leases_are_rescued(env):
    waiting = await submitted(env)
    lost = await submitted(env, a_bundle("lost"))
    await claimed(env, lost)
    env.clock.forward(minutes=6)
    await within(env, lambda: pause_queue("eve", "maintenance"))
    env.queue.sent.clear()
    report = await scan(env)
    assert (report.found, report.requeued, report.paused) == (1, 1, True)
    assert waiting.id not in {submission_id for submission_id, _ in env.queue.sent}


@pytest.mark.requirement("R14")
async def test_a_full_tick_says_so_and_the_rest_is_next(env):
    ids = [(await submitted(env, a_bundle(f"skill-{n}"))).id for n in range(7)]
    env.queue.sent.clear()
    env.clock.forward(minutes=6)
    assert [(await scan(env, limit=3)).more for _ in range(3)] == [True, True, False]
    assert sorted(sent for sent, _ in env.queue.sent) == sorted(ids)


class PartlyUnreadable(MemoryKV):
    unreadable = ""

    async def load(self, key: Key):
        if key.pk == self.unreadable:
            raise Unavailable("throttled")
        return await super().load(key)


@pytest.mark.requirement("R12")
async def test_an_unreadable_record_is_reported_and_the_others_are_rescued():
    env = memory_env(PartlyUnreadable)
    bad, good = await submitted(env, a_bundle("bad")), await submitted(env, a_bundle("good"))
    env.kv.unreadable = f"sub:{bad.id}"
    env.clock.forward(minutes=6)
    env.queue.sent.clear()
    report = await scan(env)
    assert (report.sent_again, report.failed) == (1, [bad.id])
    assert [sent for sent, _ in env.queue.sent] == [good.id]


async def test_a_rescue_that_fails_is_reported_and_does_not_stop_the_others(env):
    bad, good = await submitted(env, a_bundle("bad")), await submitted(env, a_bundle("good"))
    env.clock.forward(minutes=6)

    class OneDown(MemoryQueue):
        async def send(self, submission_id, delay=timedelta(), generation=0):
            if submission_id == bad.id:
                raise Unavailable("The queue does not answer.")
            await super().send(submission_id, delay, generation)

    queue = OneDown()
    report = await scan(replace(env, queue=queue))
    assert (report.sent_again, report.failed) == (1, [bad.id])
    assert [sent for sent, _ in queue.sent] == [good.id]


@pytest.mark.requirement("R02")
async def test_a_resend_that_fails_is_made_up_for_by_the_very_next_tick(env):
    submission = await submitted(env)
    env.clock.forward(minutes=6)
    env.queue.is_down = True
    assert (await scan(env)).failed == [submission.id]
    env.queue.is_down = False
    env.queue.sent.clear()
    env.clock.forward(minutes=5)
    assert (await scan(env)).sent_again == 1
    assert env.queue.sent == [(submission.id, timedelta())]


async def test_a_dead_message_parks_its_submission_for_a_person(env):
    submission = await submitted(env)
    await within(env, lambda: park_undelivered(submission.id, "failed 5 deliveries"))
    after = await record(env, submission)
    assert (after.state, after.reason) == (State.ON_HOLD, "its message failed 5 deliveries")
    check_invariants(env.kv)


@pytest.mark.parametrize("state", ["leased", "published", "unknown"])
async def test_a_dead_message_leaves_alone_what_does_not_need_it(env, state):
    submission = await submitted(env)
    if state == "leased":
        await claimed(env, submission)
    if state == "published":
        await processed(env, submission)
    before = await record(env, submission)
    await within(env, lambda: park_undelivered("sub_" + "0" * 26 if state == "unknown" else submission.id, "died"))
    assert await record(env, submission) == before


def test_the_scan_looks_only_after_every_lease_could_have_ended():
    assert timedelta(seconds=135) < STUCK_THRESHOLD


# --- skills that nothing finds yet ----------------------------------------------------------------------------------


class NoWords(MemoryKV):
    """Loses whatever makes a skill findable, as a crash right after its publication would."""

    is_down = True

    async def transact(self, build):
        self._refuse(build())
        return await super().transact(build)

    async def put_all(self, puts):
        self._refuse(puts)
        await super().put_all(puts)

    def _refuse(self, writes):
        if self.is_down and any(write.key.pk.startswith("find:") for write in writes):
            raise Unavailable("The store does not answer.")


@pytest.mark.requirement("R01")
async def test_words_that_were_not_written_with_the_publication_are_written_by_the_scan():
    env = memory_env(NoWords)
    submission = await submitted(env)
    await processed(env, submission)
    assert (await record(env, submission)).state == State.PUBLISHED
    found = lambda: within(env, lambda: search_skills("greeter"))  # noqa: E731
    assert (await found()).skills == []
    env.kv.is_down = False
    assert (await scan(env)).indexed == 0  # not due yet
    env.clock.forward(minutes=6)
    report = await scan(env)
    assert (report.found, report.indexed, report.failed) == (1, 1, [])
    assert [skill.name for skill in (await found()).skills] == [submission.skill_name]
    assert (await scan(env)).found == 0
    check_invariants(env.kv)


@pytest.mark.requirement("R12")
async def test_a_skill_that_cannot_be_indexed_is_reported_and_tried_again():
    env = memory_env(NoWords)
    await processed(env, await submitted(env))
    env.clock.forward(minutes=6)
    reports = [await scan(env) for _ in range(2)]
    assert [report.failed for report in reports] == [["uploads/anonymous/greeter"]] * 2


@pytest.mark.requirement("R11")
async def test_lost_leases_come_before_unindexed_skills_and_those_before_what_waits():
    env = memory_env(NoWords)
    for n in range(3):
        await processed(env, await submitted(env, a_bundle(f"published-{n}")))
    for n in range(3):
        await submitted(env, a_bundle(f"waiting-{n}"))
    for n in range(2):
        await claimed(env, await submitted(env, a_bundle(f"lost-{n}")))
    env.kv.is_down = False
    env.clock.forward(minutes=6)
    done = []
    for _ in range(4):
        report = await scan(env, limit=2)
        done.append((report.requeued, report.indexed, report.sent_again, report.more))
    assert done == [(2, 0, 0, True), (0, 2, 0, True), (0, 1, 1, True), (0, 0, 2, False)]


@pytest.mark.slow
@pytest.mark.requirement("R11")
@pytest.mark.parametrize("others", ["not yet due", "waiting during a pause"])
async def test_2000_other_rows_do_not_keep_a_lost_lease_from_the_next_tick(env, others):
    lost = await submitted(env, a_bundle("lost"))
    await claimed(env, lost)
    draft = await submitted(env, a_bundle("other"))
    if others == "not yet due":
        env.clock.forward(minutes=6)
    for n in range(2000):
        other = msgspec.structs.replace(draft, id=new_id(env.clock()), skill_path=f"other-{n}")
        await within(env, lambda other=other: create(other))
    if others != "not yet due":
        env.clock.forward(minutes=6)
        await within(env, lambda: pause_queue("eve", "maintenance"))
    report = await scan(env)
    assert report.requeued == 1
    assert (await record(env, lost)).state == State.RECEIVED
