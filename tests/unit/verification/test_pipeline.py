"""What a worker does with a message, and what the record says afterwards."""

import asyncio
import sys
import threading
import time
import traceback
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import LostLease, NotFound, Unavailable
from shared.evidence.receipt_store import find_receipt
from shared.records.decision import Judged
from shared.records.judgement import Judgement, NotJudged, Why
from shared.records.submissions import Delivery, State
from shared.scanner.scan_runner import LARGE, ScanProcess, ScanProcesses
from shared.storage.kv import Put
from shared.submissions.dead_letter_store import find_dead_letter
from shared.submissions.pause import pause_queue, resume_queue
from shared.submissions.submission_store import claim_submission, get_history, get_submission, move_submission
from shared.timing import MAX_ATTEMPTS, RETRY_BASE
from shared.verification.pipeline import DONE
from tests.support import builders
from tests.support.builders import WHILE, a_bundle, an_sqs_record, an_unusable_bundle, processed, submitted
from tests.support.hostile_scans import ORDER
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryContent, MemoryKV, MemoryQueue, memory_env, within


async def record(env, submission):
    return await within(env, lambda: get_submission(submission.id))


async def consume(env, *records):
    return await builders.consume(list(records), env, "worker", WHILE)


async def test_a_good_skill_is_published_with_its_full_history(env):
    submission = await submitted(env)
    assert await processed(env, submission) == DONE
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history] == ["RECEIVED", "TIER1_SCANNING", "AUTO_APPROVED", "PUBLISHED"]
    assert (await record(env, submission)).published_version == "1.0.0"
    check_invariants(env.kv)


class TracedKV(MemoryKV):
    """Knows the functions of the product that led to the publishing write, those of storage aside."""

    calls: tuple[str, ...] = ()

    async def transact(self, build):
        if any('"state":"PUBLISHED"' in write.doc for write in build() if isinstance(write, Put)):
            modules = {frame: frame.f_globals["__name__"] for frame, _ in traceback.walk_stack(sys._getframe())}
            product = [frame for frame, name in modules.items() if name.startswith(("functions.", "shared."))]
            calls = (frame.f_code.co_name for frame in product if not modules[frame].startswith("shared.storage"))
            self.calls = tuple(calls)
        return await super().transact(build)


async def test_from_the_consumer_to_the_publishing_write_are_few_calls():
    env = memory_env(TracedKV)
    await consume(env, an_sqs_record((await submitted(env)).id))
    assert env.kv.calls[::-1] == ("process", "process_submission", "_attempt", "publish", "commit")


async def test_an_unusable_skill_is_rejected_with_what_to_do(env):
    submission = await submitted(env, an_unusable_bundle())
    await processed(env, submission)
    after = await record(env, submission)
    assert after.state == State.REJECTED
    assert "front matter" in after.reason
    check_invariants(env.kv)


@pytest.mark.requirement("R03")
async def test_a_duplicate_delivery_has_one_effect_however_late(env):
    submission = await submitted(env)
    for _ in range(5):
        assert await processed(env, submission) == DONE
    env.clock.forward(days=1)
    assert await processed(env, submission) == DONE
    after = await record(env, submission)
    assert (after.state, after.attempts, after.version) == (State.PUBLISHED, 1, 3)
    check_invariants(env.kv)


@pytest.mark.requirement("R06", "R07")
async def test_of_two_workers_at_one_instant_one_claims(env):
    submission = await submitted(env)
    await asyncio.gather(*(processed(env, submission, f"worker-{n}") for n in range(8)))
    after = await record(env, submission)
    assert (after.state, after.attempts, after.fence) == (State.PUBLISHED, 1, 1)
    check_invariants(env.kv)


@pytest.mark.requirement("R09")
async def test_a_worker_that_lost_its_lease_changes_nothing(env):
    submission = await submitted(env)
    zombie = await within(env, lambda: claim_submission(submission, "zombie", WHILE))
    env.clock.forward(minutes=10)
    await processed(env, submission, "rescuer")
    before = await record(env, submission)
    with pytest.raises(LostLease):
        await within(env, lambda: move_submission(zombie, State.REJECTED, "worker", "too late"))
    assert await record(env, submission) == before
    check_invariants(env.kv)


async def test_a_live_lease_is_not_disturbed_and_the_message_is_given_up(env):
    submission = await submitted(env)
    held = await within(env, lambda: claim_submission(submission, "other", WHILE))
    assert await processed(env, submission) == DONE
    assert await record(env, submission) == held


class BrokenContent(MemoryContent):
    error: Exception = Unavailable("The content store does not answer.")

    async def get_files(self, content_hash):
        raise self.error


def with_broken_content(env, error: Exception | None = None):
    content = BrokenContent()
    content.files = env.content.files
    content.error = error or content.error
    return replace(env, content=content)


async def test_a_fault_is_retried_later_and_parked_after_the_last_attempt(env):
    submission = await submitted(env)
    broken = with_broken_content(env)
    for attempt in range(1, MAX_ATTEMPTS):
        settled = await processed(broken, submission)
        after = await record(env, submission)
        assert (after.state, after.attempts) == (State.RECEIVED, attempt)
        assert RETRY_BASE * 2 ** (attempt - 1) <= settled.retry_in <= RETRY_BASE * 2 ** (attempt - 1) * 1.5
        assert f"attempt {attempt} of 3 failed: The content store does not answer" in after.reason
        env.clock.forward(minutes=5)
    assert await processed(broken, submission) == DONE
    after = await record(env, submission)
    assert (after.state, after.parked_by) == (State.ON_HOLD, "faults")
    assert after.reason == "stuck: gave up after 3 attempts: The content store does not answer"
    check_invariants(env.kv)


async def test_a_parked_submission_names_the_attempts_that_ended_with_their_worker(env):
    """Found by the soak: taken over by a redelivered message twice, it was parked without any error."""
    submission = await submitted(env)
    for _ in range(MAX_ATTEMPTS):
        latest = await record(env, submission)
        await within(env, lambda latest=latest: claim_submission(latest, "dies", timedelta(seconds=1)))
        env.clock.forward(seconds=2)
    await processed(env, submission)
    after = await record(env, submission)
    assert after.reason == f"stuck: gave up after {MAX_ATTEMPTS} attempts: the worker that held it is gone"
    check_invariants(env.kv)


async def test_an_unexpected_fault_never_shows_its_insides(env):
    submission = await submitted(env)
    await processed(with_broken_content(env, RuntimeError("password=hunter2")), submission)
    after = await record(env, submission)
    assert "hunter2" not in f"{after.reason}{after.error}"
    assert "RuntimeError" in after.error


@pytest.mark.requirement("R04")
async def test_a_message_that_comes_too_early_gets_a_successor(env):
    submission = await submitted(env)
    await processed(with_broken_content(env), submission, delivery=Delivery("m1"))
    env.queue.sent.clear()
    assert await processed(env, submission, delivery=Delivery("m1", receives=2)) == DONE
    [(submission_id, delay)] = env.queue.sent
    assert submission_id == submission.id
    assert timedelta() < delay <= RETRY_BASE * 1.5
    assert (await record(env, submission)).attempts == 1


@pytest.mark.requirement("R03")
async def test_a_copy_that_comes_too_early_has_no_successor_and_goes(env):
    submission = await submitted(env)
    await processed(with_broken_content(env), submission, delivery=Delivery("m1"))
    env.queue.sent.clear()
    waiting = await record(env, submission)
    for copy in ("m1", "m2", "m3"):
        assert await processed(env, submission, delivery=Delivery(copy)) == DONE
    assert env.queue.sent == []
    assert await record(env, submission) == waiting


@pytest.mark.requirement("R03")
async def test_of_copies_that_come_at_one_instant_in_a_pause_one_has_a_successor(env):
    submission = await submitted(env)
    await within(env, lambda: pause_queue("eve", "maintenance", timedelta(hours=2)))
    env.queue.sent.clear()
    settled = await asyncio.gather(*(processed(env, submission, delivery=Delivery(f"m{n % 2}")) for n in range(6)))
    assert settled == [DONE] * 6
    assert len(env.queue.sent) == 1


@pytest.mark.requirement("R02")
async def test_a_worker_that_died_before_it_sent_the_successor_makes_up_for_it_when_its_message_is_back(env):
    submission = await submitted(env)
    await within(env, lambda: pause_queue("eve", "maintenance", timedelta(hours=2)))
    env.queue.sent.clear()
    env.queue.is_down = True
    with pytest.raises(Unavailable):
        await processed(env, submission, delivery=Delivery("m1"))
    env.queue.is_down = False
    env.clock.forward(minutes=12)
    await processed(env, submission, delivery=Delivery("m1", receives=2))
    assert [sent for sent, _ in env.queue.sent] == [submission.id]


@pytest.mark.requirement("R34")
async def test_a_pause_burns_no_attempt_and_ends_by_itself(env):
    submission = await submitted(env)
    await within(env, lambda: pause_queue("eve", "maintenance", timedelta(hours=2)))
    for _ in range(8):
        env.queue.sent.clear()
        successor = Delivery(uuid.uuid4().hex, generation=env.queue.generations[-1])
        assert await processed(env, submission, delivery=successor) == DONE
        [(_, delay)] = env.queue.sent
        assert timedelta() < delay <= timedelta(minutes=15)
        env.clock.forward(minutes=15, seconds=1)
    waiting = await record(env, submission)
    assert (waiting.state, waiting.attempts) == (State.RECEIVED, 0)
    assert await processed(env, submission) == DONE
    assert (await record(env, submission)).state == State.PUBLISHED


async def test_a_pause_that_is_lifted_early_holds_nothing_back_for_longer_than_one_look(env):
    submission = await submitted(env)
    await within(env, lambda: pause_queue("eve", "maintenance", timedelta(hours=24)))
    await processed(env, submission)
    await within(env, lambda: resume_queue("eve", "done"))
    env.clock.forward(minutes=15, seconds=1)
    await processed(env, submission)
    assert (await record(env, submission)).state == State.PUBLISHED


@pytest.mark.requirement("R05")
async def test_a_message_without_a_record_goes_back_to_the_queue(env):
    stranger = an_sqs_record("sub_" + "0" * 26)
    assert await consume(env, stranger) == {"batchItemFailures": [{"itemIdentifier": stranger["messageId"]}]}


POISON = [
    "",
    "null",
    "not json",
    "[]",
    '{"schema": 1}',
    '{"schema": 1, "id": "skill"}',
    '{"schema": 1, "id": 7}',
    "[" * 100_000,
]


@pytest.mark.requirement("R21")
@pytest.mark.parametrize("body", POISON)
async def test_poison_is_one_dead_letter_and_its_siblings_succeed(env, body):
    good, poison = await submitted(env), an_sqs_record(body=body)
    for _ in range(2):  # also when it is delivered twice
        assert await consume(env, an_sqs_record(good.id), poison) == {"batchItemFailures": []}
    letter = await within(env, lambda: find_dead_letter(poison["messageId"]))
    assert (letter.submission_id, letter.body) == (None, body if len(body) < 100_000 else letter.body)
    assert sum(key.pk.startswith("dead-letter:") for key in env.kv.items) == 1
    assert (await record(env, good)).state == State.PUBLISHED


async def test_a_poison_body_of_a_megabyte_is_kept_in_the_bucket(env):
    poison = an_sqs_record(body="x" * 1_000_000)
    await consume(env, poison)
    letter = await within(env, lambda: find_dead_letter(poison["messageId"]))
    assert (letter.body, len(env.content.bodies[letter.body_key])) == (None, 1_000_000)


async def test_a_batch_with_one_fault_returns_just_that_message(env):
    good, bad = await submitted(env), await submitted(env, a_bundle("other"))

    class OneMissing(MemoryContent):
        async def get_files(self, content_hash):
            if content_hash == bad.content_hash:
                raise Unavailable("The content store does not answer.")
            return await super().get_files(content_hash)

    content = OneMissing()
    content.files = env.content.files
    failing = an_sqs_record(bad.id)
    answer = await consume(replace(env, content=content), an_sqs_record(good.id), failing, an_sqs_record(good.id))
    assert answer == {"batchItemFailures": [{"itemIdentifier": failing["messageId"]}]}
    [(receipt, _)] = env.queue.came_back
    assert receipt == failing["receiptHandle"]
    assert (await record(env, good)).state == State.PUBLISHED


async def time_of_one(env):
    """On this machine, with what runs beside. The first scan of a process takes longer than the next."""
    for slug in ("first", "second"):
        submission = await submitted(env, a_bundle(slug))
        started = time.monotonic()
        await consume(env, an_sqs_record(submission.id))
    return timedelta(seconds=time.monotonic() - started)


@pytest.mark.requirement("R23")
async def test_one_record_hangs_and_its_siblings_finish(env):
    good, hanging = await submitted(env), await submitted(env, a_bundle("hanging"))

    class Hangs(MemoryContent):
        async def get_files(self, content_hash):
            if content_hash == hanging.content_hash:
                await asyncio.Event().wait()
            return await super().get_files(content_hash)

    content = Hangs()
    content.files = env.content.files
    slow = an_sqs_record(hanging.id)
    enough = 30 * await time_of_one(env)
    answer = await builders.consume([an_sqs_record(good.id), slow], replace(env, content=content), "worker", enough)
    assert answer == {"batchItemFailures": [{"itemIdentifier": slow["messageId"]}]}
    assert (await record(env, good)).state == State.PUBLISHED
    after = await record(env, hanging)
    assert (after.state, after.error) == (State.RECEIVED, "it took too long")


@pytest.mark.requirement("R24")
async def test_when_every_record_fails_all_are_reported(env):
    records = [an_sqs_record("sub_" + str(n) * 26) for n in range(3)]
    answer = await consume(env, *records)
    assert answer == {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in records]}


@pytest.mark.slow
@pytest.mark.requirement("R25")
async def test_the_scans_of_one_batch_are_under_way_at_one_moment(env, scan_processes, monkeypatch):
    """Who waits for a scan in the event loop instead of a thread waits here for siblings that it keeps from coming."""
    together = threading.Barrier(3)
    scan_alone = ScanProcess.scan

    def scan_together(process, *request):
        together.wait(timeout=5)
        return scan_alone(process, *request)

    monkeypatch.setattr(ScanProcess, "scan", scan_together)
    monkeypatch.setattr("shared.scanner.scan_runner.MAX_START", timedelta(0))  # none waits for another's process
    env = replace(env, scans=scan_processes)
    submissions = [await submitted(env, a_bundle(f"r25-{n}")) for n in range(together.parties)]
    await consume(env, *(an_sqs_record(submission.id) for submission in submissions))
    assert {(await record(env, submission)).attempts for submission in submissions} == {1}
    assert {(await record(env, submission)).state for submission in submissions} == {State.PUBLISHED}


@pytest.fixture
def hostile_scans():
    scans = ScanProcesses(("tests.support.hostile_scans",), timedelta(seconds=1))
    yield scans
    scans.close()


def a_hostile_bundle(slug, order):
    bundle = a_bundle(slug)
    return bundle | {"files": [*bundle["files"], (ORDER, order)]}


@pytest.mark.slow
@pytest.mark.requirement("R35", "R37")
async def test_a_hostile_file_costs_its_siblings_neither_time_nor_attempts(env, hostile_scans):
    env = replace(env, scans=hostile_scans)
    hostile = await submitted(env, a_hostile_bundle("hostile", "burn"))
    innocent = [await submitted(env, a_bundle(f"innocent-{n}")) for n in range(2)]
    assert await consume(env, *(an_sqs_record(each.id) for each in (hostile, *innocent))) == {"batchItemFailures": []}
    held, *published = [await record(env, each) for each in (hostile, *innocent)]
    assert {(each.state, each.attempts) for each in published} == {(State.PUBLISHED, 1)}
    assert (held.state, held.attempts, held.verdict) == (State.ON_HOLD, 1, "CONCERNS")
    assert "more than 1 s of processor time" in held.reason
    assert max(each.updated_at for each in published) < held.updated_at


def a_large_bundle(slug):
    bundle = a_bundle(slug)
    return bundle | {"files": [*bundle["files"], ("long.md", "Say hello.\n" * (LARGE // 11 + 1))]}


@pytest.mark.requirement("R46")
async def test_a_long_scan_is_handed_over_and_keeps_no_worker_from_short_ones(env):
    others = MemoryQueue()
    large, small = await submitted(env, a_large_bundle("large")), await submitted(env, a_bundle("small"))
    answer = await consume(replace(env, long_scans=others), an_sqs_record(large.id), an_sqs_record(small.id))
    assert answer == {"batchItemFailures": []}
    handed_over = await record(env, large)
    assert (handed_over.state, handed_over.attempts) == (State.RECEIVED, 0)
    assert (await record(env, small)).state == State.PUBLISHED
    assert others.sent == [(large.id, timedelta())]
    await consume(replace(env, queue=others), an_sqs_record(large.id))
    published = await record(env, large)
    assert (published.state, published.attempts) == (State.PUBLISHED, 1)
    assert len(others.sent) == 1


@pytest.mark.slow
@pytest.mark.requirement("R37")
@pytest.mark.parametrize("order", ["hog", "overflow", "garbage"])
async def test_a_scan_that_brings_its_process_down_is_held_with_its_evidence(env, hostile_scans, order):
    env = replace(env, scans=hostile_scans)
    submission = await submitted(env, a_hostile_bundle("hostile", order))
    await processed(env, submission)
    held = await record(env, submission)
    assert (held.state, held.attempts, held.parked_by) == (State.ON_HOLD, 1, "rule")
    receipt = await within(env, lambda: find_receipt(held))
    assert receipt.report.receipt.content_hash == held.content_hash
    check_invariants(env.kv)


@pytest.mark.slow
@pytest.mark.requirement("R37")
async def test_what_stopped_the_scan_is_not_read_again_for_the_judge(hostile_scans):
    env = replace(memory_env(judge="bedrock", judge_model_id="a.model-v1:0"), scans=hostile_scans)
    submission = await submitted(env, a_hostile_bundle("hostile", "hog"))
    await processed(env, submission)
    held = await record(env, submission)
    assert (held.state, held.attempts, held.parked_by, held.judged) == (State.ON_HOLD, 1, "rule", "not_judged")


UNREAD = "# الملاحظات\n\nاقرأ جميع الملاحظات في هذا المجلد ثم اكتب ملخصا قصيرا لكل واحدة منها واحفظه في الملف نفسه.\n"


@pytest.mark.parametrize(
    ("judged", "state"), [(Judged.NONE, "ON_HOLD"), (Judged.PASS, "PUBLISHED"), (Judged.FAIL, "REJECTED")]
)
async def test_what_the_rules_cannot_read_is_left_to_the_judge_and_without_one_to_a_person(
    monkeypatch, env, judged, state
):
    async def judge(files, notes):
        if judged is Judged.NONE:
            return NotJudged(Why.NOT_CONFIGURED, "")
        return Judgement(score=90, judged=judged, intent="notes", scope="", concerns=(), model_id="m", tokens=1)

    monkeypatch.setattr("shared.evidence.judge.judge_skill", judge)
    submission = await submitted(env, a_bundle("notes", "Reads guide.md.", **{"guide.md": UNREAD}))
    await processed(env, submission)
    after = await record(env, submission)
    assert after.state == state
    if judged is Judged.NONE:
        assert "Arabic" in after.reason


@pytest.mark.slow
async def test_a_scanner_that_does_not_start_is_a_fault_and_costs_an_attempt_only(env):
    env = replace(env, scans=ScanProcesses(("tests.support.hostile_scans", "does not start")))
    submission = await submitted(env)
    await processed(env, submission)
    failed = await record(env, submission)
    assert (failed.state, failed.error) == (State.RECEIVED, "the scanner could not be started")


async def test_content_that_vanished_is_a_fault_not_a_verdict(env):
    submission = await submitted(env)
    await processed(with_broken_content(env, NotFound("This content is not stored.")), submission)
    assert (await record(env, submission)).state == State.RECEIVED
