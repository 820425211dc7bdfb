"""R01–R38 on the whole platform in memory: each fault by name, on the real code, with I1–I16 checked at the end."""

import json
from datetime import timedelta
from unittest.mock import patch

import msgspec
import pytest

from local.queue_events import messages_done
from shared.errors import LostLease, Unprocessable
from shared.records.submissions import State, move
from shared.storage.queue import body_of
from shared.submissions import intake
from shared.submissions.dead_letter_store import get_dead_letters
from shared.submissions.submission_list import ListQuery, list_submissions
from shared.submissions.submission_store import commit
from shared.timing import MAX_RECEIVES
from shared.verification import resumption
from tests.faults.actors import Plan
from tests.faults.skill_sources import CONTENTS
from tests.faults.world import World
from tests.support.invariants import histories_of

STEPS = range(20)  # points of one worker with one upload; the last ones lie behind its end
TRANSACTION = "TransactWriteItems"  # of a worker: the claim, the judgement and its outcome, the publication
FIVE_MINUTES = timedelta(minutes=5)
NAMES_IN_ORDER = ("zulu", "mike", "alfa")
CLAIMED = (State.TIER1_SCANNING,)


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


@pytest.fixture
def judging():
    world = World(judge=True)
    yield world
    world.close()


def only(world):
    [record] = world.records().values()
    return record


def story(world, record):
    return [entry.to_state for entry in histories_of(world.dynamo.items)[record.id]]


def rest(world):
    world.come_to_rest()
    world.check_rest()


def ends_published_once(world):
    rest(world)
    record = only(world)
    assert record.state is State.PUBLISHED
    assert story(world, record).count(State.PUBLISHED) == 1
    return record


@pytest.mark.requirement("R01")
@pytest.mark.parametrize("at", STEPS)
def test_a_worker_that_is_killed_at_any_point_costs_one_attempt_at_most_and_no_publication(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("crash", at))
    world.check()
    assert ends_published_once(world).attempts <= 2


@pytest.mark.requirement("R01")
@pytest.mark.parametrize(
    ("which", "at"), [*(("world", n) for n in range(1, 4)), *(("judging", n) for n in range(1, 8))]
)
def test_three_killed_workers_leave_it_to_a_person_or_finish_what_was_decided(request, which, at):
    """A decision that took a judgement is stored before the publication, any other with it."""
    world = request.getfixturevalue(which)
    world.submit("greeter", "good")
    for _ in range(4):
        world.deliver(plan=Plan("crash", at, on=TRANSACTION))
        world.tick(minutes=13)
    rest(world)
    record = only(world)
    decided = State.AUTO_APPROVED in story(world, record)
    assert decided == (at >= (3 if which == "world" else 5))
    assert record.state is (State.PUBLISHED if decided else State.ON_HOLD)
    assert decided or record.reason.startswith("stuck: gave up after 3 attempts")


@pytest.mark.requirement("R01")
@pytest.mark.parametrize("last", [5, 6])
def test_what_was_decided_in_the_last_attempt_is_finished_without_another(judging, last):
    judging.submit("greeter", "good")
    for at in (1, 1, last):
        judging.deliver(plan=Plan("crash", at, on=TRANSACTION))
        judging.tick(minutes=13)
    assert ends_published_once(judging).attempts == 3


@pytest.mark.requirement("R02")
@pytest.mark.parametrize("at", range(24))
def test_an_accepting_function_that_is_killed_at_any_point_loses_nothing_it_recorded(world, at):
    world.submit("greeter", "good", plan=Plan("crash", at))
    world.check()
    if world.records():
        ends_published_once(world)


@pytest.mark.requirement("R02")
def test_a_send_that_fails_is_made_up_for(world):
    world.submit("greeter", "good", plan=Plan("down", on="SendMessage"))
    assert not world.sqs.messages
    ends_published_once(world)


@pytest.mark.requirement("R03")
@pytest.mark.parametrize("after", [False, True])
def test_five_deliveries_of_one_message_have_one_effect(world, after):
    world.submit("greeter", "good")
    if after:
        world.deliver()
        [message] = [world.sqs.send(body_of(only(world).id))]
    else:
        [message] = world.sqs.messages
    for _ in range(4):
        world.sqs.duplicate(message)
    assert ends_published_once(world).attempts == 1
    assert not world.ask(get_dead_letters).letters


@pytest.mark.requirement("R04")
def test_late_and_out_of_order_messages_move_nothing_back(world):
    for name in ("greeter", "writer"):
        world.submit(name, "good")
    late = [message.body for message in world.sqs.messages]
    world.deliver((1, 0))
    before = world.records()
    world.tick(hours=20)
    for body in reversed(late):
        world.sqs.send(body)
    assert world.deliver((1, 0)) == {"batchItemFailures": []}
    assert world.records() == before
    rest(world)


@pytest.mark.requirement("R05")
def test_a_message_without_a_record_is_retried_and_then_a_dead_letter(world):
    world.stranger()
    for _ in range(MAX_RECEIVES):
        assert len(world.deliver()["batchItemFailures"]) == 1
        world.tick(minutes=13)
    assert world.deliver() is None
    world.bury()
    [letter] = world.ask(get_dead_letters).letters
    assert letter.reason == "failed 5 deliveries"
    rest(world)


@pytest.mark.requirement("R06")
@pytest.mark.parametrize("at", STEPS)
def test_of_two_workers_with_one_submission_one_has_an_effect(world, at):
    world.submit("greeter", "good")
    world.duplicate(0)
    world.deliver((0,), Plan("pause", at))
    world.deliver((0,))
    world.check()
    assert ends_published_once(world).fence == 1


@pytest.mark.requirement("R07")
def test_both_copies_in_one_batch_are_one_claim(world):
    world.submit("greeter", "good")
    world.duplicate(0)
    assert world.deliver() == {"batchItemFailures": []}
    assert ends_published_once(world).fence == 1


@pytest.mark.requirement("R08")
@pytest.mark.parametrize("at", STEPS)
def test_a_scan_and_a_slow_worker_one_of_them_wins(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", at))
    world.tick(minutes=1)
    live = world.records()
    world.scan()
    assert world.records() == live  # its lease is live
    world.tick(minutes=5)
    world.scan()
    world.check()
    ends_published_once(world)


@pytest.mark.requirement("R09")
@pytest.mark.parametrize("at", STEPS)
def test_what_a_zombie_writes_after_a_takeover_is_refused(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", at))
    world.tick(minutes=13)
    world.deliver()
    taken = world.records()
    for zombie in world.held():
        world.go_on(zombie)
    assert world.records() == taken
    ends_published_once(world)


@pytest.mark.requirement("R09")
@pytest.mark.parametrize("stale", ["fence", "state", "version"])
def test_each_of_version_state_and_fence_alone_refuses_a_write(world, stale):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", 2, on=TRANSACTION))
    record = only(world)
    wrong = {"fence": record.fence - 1, "version": record.version - 1, "state": State.TIER2_SCANNING}
    zombie = msgspec.structs.replace(record, **{stale: wrong[stale]})
    outcome = world.ask(lambda: commit(lambda at: move(zombie, State.REJECTED, "worker", at, "too late")))
    assert isinstance(outcome, LostLease)
    assert only(world) == record


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("at", [0, 1])
def test_a_worker_that_finishes_between_the_scans_read_and_write_wins(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", 2, on=TRANSACTION))
    [worker] = world.held()
    world.tick(minutes=6)
    world.scan(Plan("pause", at, on=TRANSACTION))
    scans = world.held()[1:]
    world.go_on(worker)
    finished = world.records()
    for scan in scans:
        world.go_on(scan)
    if only(world).state is State.PUBLISHED:
        assert world.records() == finished
    ends_published_once(world)


@pytest.mark.requirement("R13")
@pytest.mark.parametrize("at", [0, 1])
def test_overlapping_scans_rescue_once(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("crash", 1, on=TRANSACTION))
    world.tick(minutes=6)
    world.scan(Plan("pause", at, on=TRANSACTION))
    world.scan()
    for scan in world.held():
        world.go_on(scan)
    entries = histories_of(world.dynamo.items)[only(world).id]
    assert [entry.actor for entry in entries].count("recovery") == 1
    ends_published_once(world)


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("kind", ["throttle", "down"])
@pytest.mark.parametrize("at", range(0, 18, 2))
def test_a_store_that_throttles_once_or_for_ever_loses_nothing(world, kind, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan(kind, at))
    world.check()
    record = ends_published_once(world)
    assert kind == "down" or record.attempts == 1


@pytest.mark.requirement("R18")
@pytest.mark.parametrize("at", range(0, 16, 2))
def test_a_lost_reply_to_any_write_of_a_worker_is_one_effect_and_costs_no_attempt(world, at):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("lose", at))
    assert ends_published_once(world).attempts == 1


@pytest.mark.requirement("R18")
def test_a_lost_reply_to_an_accept_is_one_record(world):
    first = world.submit("greeter", "good", plan=Plan("lose", on=TRANSACTION))
    assert first.flag is None
    assert only(world).id == first.submission.id
    ends_published_once(world)


@pytest.mark.requirement("R20")
def test_indexes_that_lag_hide_nothing_that_changed(world):
    world.submit("greeter", "good")
    world.dynamo.frozen = dict(world.dynamo.items)
    world.deliver()
    new = world.submit("writer", "good").submission
    listing = world.ask(lambda: list_submissions(ListQuery()))
    assert listing.rows[0].id == new.id
    assert {row.state for row in listing.rows} == {State.RECEIVED, State.PUBLISHED}


@pytest.mark.requirement("R21")
def test_poison_is_one_dead_letter_and_its_siblings_succeed_whatever_else_fails(world):
    world.submit("greeter", "good")
    world.poison("not json")
    world.deliver(plan=Plan("down", 0))
    world.check()
    ends_published_once(world)
    assert len(world.ask(get_dead_letters).letters) == 1


@pytest.mark.requirement("R22")
@pytest.mark.parametrize("answer", ["raises", "wrong id", "nonsense"])
def test_a_handler_that_answers_nonsense_or_dies_loses_nothing(world, answer):
    """What a mapping deletes is decided by the answer alone; anything it cannot understand deletes nothing."""
    wrong_id = json.dumps({"batchItemFailures": [{"itemIdentifier": "other"}]}).encode()
    answers = {"raises": None, "wrong id": wrong_id, "nonsense": b"[1]"}
    assert messages_done(["message-1"], answers[answer], reports_failures=True) == set()
    world.submit("greeter", "good")
    world.sqs.receive()  # delivered to a handler that died: it is redelivered
    ends_published_once(world)


@pytest.mark.requirement("R26")
@pytest.mark.parametrize("at", range(0, 18, 3))
def test_batches_that_overlap_each_see_their_own_env_also_when_one_fails(world, at):
    """The first resumes while the second is under way, and the second after the first is over."""
    world.submit("greeter", "good")
    world.submit("writer", "good")
    world.stranger()
    world.deliver((0,), Plan("pause", at))
    world.deliver((0, 0), Plan("pause", 3))
    answers = [world.go_on(batch) for batch in world.held()]
    assert [len(answer["batchItemFailures"]) for answer in answers] == [0, 1]
    world.check()  # I10: every call compares the env it sees with that of its batch
    rest(world)
    assert {record.state for record in world.records().values()} == {State.PUBLISHED}


@pytest.mark.requirement("R28")
@pytest.mark.parametrize("worker", [-FIVE_MINUTES, FIVE_MINUTES])
@pytest.mark.parametrize("scanner", [-FIVE_MINUTES, FIVE_MINUTES])
def test_clocks_that_are_five_minutes_off_cost_one_attempt_at_most(world, worker, scanner):
    world.submit("greeter", "good")
    world.deliver(plan=Plan("pause", 9), skew=worker)
    world.tick(minutes=1)
    world.scan(skew=scanner)
    world.tick(minutes=1)
    for slow in world.held():
        world.go_on(slow)
    world.check()
    assert ends_published_once(world).attempts <= 2


def dead_in_the_queue(world):
    """One attempt was made, and then its message failed until it died."""
    world.submit("greeter", "good")
    world.deliver(plan=Plan("crash", 1, on=TRANSACTION))
    for _ in range(MAX_RECEIVES):
        world.tick(minutes=13)
        world.deliver(plan=Plan("down", 0))
    world.bury()
    assert (only(world).state, only(world).attempts) == (State.ON_HOLD, 1)


@pytest.mark.requirement("R29")
def test_a_replayed_dead_letter_is_a_reopen_and_no_half_state(world):
    dead_in_the_queue(world)
    assert world.retry_letters().retried == [only(world).id]
    reopened = only(world)
    assert (reopened.state, reopened.attempts) == (State.RECEIVED, 0)
    assert world.retry_letters().retried == []
    assert ends_published_once(world).attempts == 1


@pytest.mark.requirement("R29")
@pytest.mark.parametrize("at", range(20))
def test_a_replay_that_is_killed_at_any_point_is_done_or_can_be_done_again(world, at):
    dead_in_the_queue(world)
    world.retry_letters(Plan("crash", at))
    world.check()
    world.retry_letters()
    ends_published_once(world)


@pytest.mark.requirement("R31")
def test_one_key_is_one_answer_and_another_body_is_refused(world):
    first = world.submit("greeter", "good", key="a-key")
    assert world.submit("greeter", "good", key="a-key").submission.id == first.submission.id
    files = [(path, data.decode()) for path, data in CONTENTS["better"].items()]
    other = intake.Idempotency("a-key", "another body")
    refused = world.ask(lambda: intake.submit_bundle("greeter", files, None, None, other))
    assert isinstance(refused, Unprocessable)
    assert len(world.records()) == 1


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("at", range(24))
def test_a_request_repeated_after_a_crash_gets_the_record_of_the_first(world, at):
    world.submit("greeter", "good", key="a-key", plan=Plan("crash", at))
    known = set(world.records())
    again = world.submit("greeter", "good", key="a-key")
    assert known <= {again.submission.id}
    assert len(world.records()) == 1


@pytest.mark.requirement("R34")
@pytest.mark.parametrize("down", ["GitHub", "the judge", "a pause"])
@pytest.mark.parametrize("copies", [0, 5])
def test_two_hours_of_an_outage_or_a_pause_burn_no_attempt_and_no_message(judging, down, copies):
    """However many copies of its message there are, now and then: for one wait, one successor is sent."""
    world = judging
    world.sources.github_is_down = down == "GitHub"  # also for the request, else its worker needs no answer
    world.submit_repo("tools")
    world.sources.judge_is_down = down == "the judge"
    if down == "a pause":
        world.pause(2)
    for minute in range(120):
        if minute % 31 == 0:
            original, body = world.sqs.messages[0], body_of(only(world).id)
            for n in range(copies):
                world.sqs.duplicate(original) if n % 2 else world.sqs.send(body)
        while world.sqs.visible():
            world.deliver()
        world.tick(minutes=1)
        assert len(world.sqs.messages) <= 2  # a copy of the successor itself comes early once, and has its own
        if minute % 5 == 0:
            world.scan()
    world.check()
    waiting = only(world)
    assert (waiting.state, waiting.attempts) == (State.RECEIVED, 0)
    world.sources.github_is_down = world.sources.judge_is_down = False
    assert ends_published_once(world).attempts == 1
    assert not world.ask(get_dead_letters).letters


def paused_with_three(world):
    """Three that waited for the end of a pause; their messages are delayed by 15 minutes."""
    world.pause(24)
    waiting = []
    for name in NAMES_IN_ORDER:
        waiting.append(world.submit(name, "good").submission.id)
        world.tick(seconds=1)
    while world.sqs.visible():
        world.deliver((2, 0, 1))
    world.tick(minutes=5)
    assert not world.sqs.visible()
    return waiting


def claims(world):
    """Ids in the order in which workers claimed them."""
    stories = histories_of(world.dynamo.items).items()
    return [id_ for _, id_ in sorted((e.timestamp, id_) for id_, of in stories for e in of if e.to_state in CLAIMED)]


@pytest.mark.requirement("R38")
def test_what_waited_for_the_end_of_a_pause_starts_at_once_and_in_order(world):
    waiting = paused_with_three(world)
    world.lift_pause()
    later = world.submit("newcomer", "good").submission.id
    world.tick(seconds=1)
    while world.sqs.visible():
        world.deliver((0,))
        world.tick(seconds=1)
    assert claims(world) == [*waiting, later]
    rest(world)
    assert {record.attempts for record in world.records().values()} == {1}


@pytest.mark.requirement("R38")
def test_a_message_that_is_still_delayed_from_the_pause_overtakes_nothing(world):
    waiting = paused_with_three(world)
    delayed = list(world.sqs.messages)
    world.lift_pause()
    fresh = [message for message in world.sqs.messages if message not in delayed]
    world.tick(minutes=15)
    assert [message.id for message in world.sqs.visible()][: len(delayed)] == [message.id for message in delayed]
    for _ in delayed:
        world.deliver((0,))
    assert claims(world) == []
    assert len(fresh) == len(waiting)
    rest(world)
    assert {record.attempts for record in world.records().values()} == {1}


@pytest.mark.parametrize("at", range(14))
def test_an_end_of_a_pause_that_is_cut_off_at_any_point_loses_nothing(world, at):
    paused_with_three(world)
    world.lift_pause(Plan("crash", at))
    world.check()
    rest(world)
    assert {record.state for record in world.records().values()} == {State.PUBLISHED}
    assert {record.attempts for record in world.records().values()} == {1}


@pytest.mark.requirement("R38")
def test_the_rest_of_what_waited_follows_with_every_tick(world):
    paused_with_three(world)
    with patch.object(resumption.send_waiting, "__defaults__", (1,)):
        world.lift_pause()
        assert len(world.sqs.visible()) == 1
        world.scan(limit=1)
        assert len(world.sqs.visible()) == 2
        world.scan(limit=1)
        assert len(world.sqs.visible()) == 3
        world.scan(limit=1)
        assert len(world.sqs.visible()) == 3
    rest(world)


def test_what_is_deferred_for_another_reason_keeps_its_time_when_the_queue_is_resumed(judging):
    world = judging
    world.submit_repo("tools")
    world.sources.github_is_down = True
    world.deliver()
    deferred = only(world)
    world.pause(24)
    world.lift_pause()
    assert only(world).not_before == deferred.not_before
    assert not world.sqs.visible()
