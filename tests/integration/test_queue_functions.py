"""The functions behind the queue and the schedule, each called twice in one process: warm is where async Lambdas
break. Real clients against moto's server."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest

from functions import consumer, dead_letters, rescan, stuck_scan
from shared import db, runtime
from shared.marketplace.skill_store import find_skill, put_rescanned
from shared.records.submissions import State
from shared.scanner import rule_set_version
from shared.submissions import intake
from shared.submissions.dead_letter_store import find_dead_letter
from shared.submissions.submission_store import claim_submission, get_submission
from shared.timing import LONGEST_LEASE
from shared.worker_context import get_worker_env, run_with_worker_env
from tests.support.aws_resources import client
from tests.support.builders import a_bundle, an_sqs_record
from tests.support.memory import memory_env

SCHEDULED = {"source": "aws.events", "detail-type": "Scheduled Event"}


@pytest.fixture
def context():
    return SimpleNamespace(aws_request_id=str(uuid.uuid4()), get_remaining_time_in_millis=lambda: 30_000)


def on_loop(fn):
    return runtime.run(fn, LONGEST_LEASE)


def submit(name: str):
    bundle = a_bundle(name)
    return on_loop(lambda: intake.submit_bundle(bundle["name"], bundle["files"], None, None, None)).submission


def state(submission) -> State:
    return on_loop(lambda: get_submission(submission.id)).state


def receive(settings) -> dict:
    """A message as it really comes out of the queue."""
    answer = client("sqs", settings.endpoint_url).receive_message(
        QueueUrl=settings.queue_url, AttributeNames=["All"], VisibilityTimeout=60
    )
    [message] = answer["Messages"]
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "eventSource": "aws:sqs",
    }


def test_the_consumer_processes_a_batch_and_then_another_one_warm(function_env, context):
    for name in ("first", "second"):
        submission = submit(name)
        answer = consumer.handler({"Records": [receive(function_env)]}, context)
        assert answer == {"batchItemFailures": []}
        assert state(submission) == State.PUBLISHED
        assert get_worker_env() is None


def test_a_fault_is_retried_after_its_own_delay_and_is_reported(function_env, context):
    submission = submit("vanished")
    bucket = client("s3", function_env.endpoint_url)
    bucket.delete_object(Bucket=function_env.bucket_name, Key=f"received/{submission.content_hash}")
    record = receive(function_env)
    answer = consumer.handler({"Records": [record]}, context)
    assert answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    assert state(submission) == State.RECEIVED


def test_a_poison_body_returns_none_and_stores_one_dead_letter(function_env, context):
    good, poison = submit("good"), an_sqs_record(body="{")
    for _ in range(2):
        answer = consumer.handler({"Records": [poison, an_sqs_record(good.id)]}, context)
        assert answer == {"batchItemFailures": []}
    assert on_loop(lambda: find_dead_letter(poison["messageId"])).body == "{"
    assert state(good) == State.PUBLISHED


def test_dead_letters_are_stored_and_their_submissions_parked(function_env, context):
    for name in ("first", "second"):
        submission = submit(name)
        dead, poison = an_sqs_record(submission.id), an_sqs_record(body="junk")
        assert dead_letters.handler({"Records": [dead, poison]}, context) == {"batchItemFailures": []}
        assert state(submission) == State.ON_HOLD
        letter = on_loop(lambda d=dead: find_dead_letter(d["messageId"]))
        assert (letter.submission_id, letter.reason) == (submission.id, "failed 5 deliveries")
        assert on_loop(lambda p=poison: find_dead_letter(p["messageId"])).submission_id is None


def test_the_stuck_scan_runs_and_then_runs_again_warm(function_env, context):
    submit("young")
    for _ in range(2):
        report = stuck_scan.handler(SCHEDULED, context)
        assert (report["found"], report["failed"], report["more"]) == (0, [], False)


def test_the_rescan_scans_under_newer_rules_what_is_published_and_again_warm(function_env):
    context = SimpleNamespace(aws_request_id="rescan", get_remaining_time_in_millis=lambda: 600_000)
    for name, rescanned in (("first", 1), ("second", 0)):
        submission = submit(name)
        consumer.handler({"Records": [receive(function_env)]}, context)
        skill_name = on_loop(lambda s=submission: get_submission(s.id)).skill_name
        skill = on_loop(lambda n=skill_name: find_skill(n))
        if rescanned:  # the second time, the round of today is over
            on_loop(lambda s=skill: put_rescanned(s, s, "an older rule set"))
        report = rescan.handler(SCHEDULED, context)
        assert report == {"rescanned": rescanned, "blocked": [], "failed": [], "more": False}
        assert on_loop(lambda n=skill_name: find_skill(n)).rule_set == rule_set_version()
        assert get_worker_env() is None


@pytest.mark.requirement("S23")
@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": [{"eventSource": "aws:s3"}]}, {"source": "me"}])
@pytest.mark.parametrize("function", [consumer, dead_letters, stuck_scan, rescan])
def test_an_event_of_another_source_is_refused(function_env, context, function, event):
    with pytest.raises(ValueError, match=r"(events|schedules) only"):
        function.handler(event, context)


@pytest.mark.requirement("AC-0281-US2-03")
def test_without_a_worker_env_the_request_env_answers_while_a_batch_runs(function_env):
    """A request between the steps of a batch reaches its own store, and the batch still reaches its own."""
    worker = memory_env()
    seen = []

    async def scenario():
        in_batch, asked = asyncio.Event(), asyncio.Event()

        async def batch():
            seen.append(db.get_kv())
            in_batch.set()
            await asked.wait()
            seen.append(db.get_kv())

        async def request():
            await in_batch.wait()
            seen.append(db.get_kv())
            assert await db.get_kv().ids("sub:") == []  # it really answers
            asked.set()

        await asyncio.gather(run_with_worker_env(worker, batch), request())

    on_loop(scenario)
    assert seen == [worker.kv, runtime.request_env().kv, worker.kv]


def test_a_lease_is_as_long_as_the_invocation_and_a_margin(function_env):
    submission = submit("leased")
    held = on_loop(lambda: claim_submission(submission, "me", LONGEST_LEASE))
    assert held.lease_until - held.updated_at == LONGEST_LEASE
