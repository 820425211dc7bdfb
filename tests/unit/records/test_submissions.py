"""States and moves: DOMAIN's tables, row by row."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import IllegalMove
from shared.records.submissions import (
    CATEGORIES,
    LEGAL_MOVES,
    MAX_ATTEMPTS,
    PARKED_STATES,
    STUCK_STATES,
    STUCK_THRESHOLD,
    TERMINAL_STATES,
    Rescue,
    State,
    Submission,
    claim,
    created,
    due_at,
    is_id,
    move,
    new_id,
    reopen,
    rescue_of,
    time_of,
    touch,
)

AT = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
LEASE = timedelta(seconds=135)

MOVES = """
RECEIVED -> TIER1_SCANNING BLOCKED DEQUEUED REJECTED ON_HOLD
TIER1_SCANNING -> TIER2_SCANNING AUTO_APPROVED TIER1_FAILED REJECTED BLOCKED DEQUEUED ON_HOLD RECEIVED
TIER2_SCANNING -> AUTO_APPROVED REJECTED BLOCKED DEQUEUED ON_HOLD RECEIVED
AUTO_APPROVED -> PUBLISHED VENDOR_APPROVED RESCAN_REQUIRED BLOCKED ON_HOLD RECEIVED
BLOCKED -> RECEIVED AUTO_APPROVED REJECTED BLOCKED DEQUEUED
ON_HOLD -> RECEIVED AUTO_APPROVED REJECTED BLOCKED DEQUEUED
RESCAN_REQUIRED -> RECEIVED AUTO_APPROVED REJECTED BLOCKED DEQUEUED
REJECTED -> RECEIVED AUTO_APPROVED
TIER1_FAILED -> RECEIVED AUTO_APPROVED
DEQUEUED -> RECEIVED AUTO_APPROVED
PUBLISHED -> RECEIVED BLOCKED
VENDOR_APPROVED -> RECEIVED BLOCKED
"""


def a_submission(state: State = State.RECEIVED, **set_) -> Submission:
    return Submission(
        id=new_id(AT),
        source="uploads/anonymous",
        skill_path="x",
        skill_name="uploads/anonymous/x",
        state=state,
        created_at=AT,
        updated_at=AT,
        **set_,
    )


def test_the_legal_moves_are_those_of_the_domain():
    lines = [line.split(" -> ") for line in MOVES.strip().splitlines()]
    assert {State(start): frozenset(map(State, ends.split())) for start, ends in lines} == LEGAL_MOVES


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("end", State)
def test_a_move_is_made_or_refused_as_the_table_says(start, end):
    submission = a_submission(start)
    if end not in LEGAL_MOVES[start]:
        with pytest.raises(IllegalMove):
            move(submission, end, "system", AT, "a reason")
        return
    change = move(submission, end, "system", AT + timedelta(seconds=1), "a reason")
    assert (change.before, change.after.state, change.after.version) == (submission, end, 2)
    [entry] = change.entries
    assert (entry.seq, entry.from_state, entry.to_state, entry.reason) == (2, start, end, "a reason")


def test_every_state_is_in_exactly_one_category():
    counted = [state for states in CATEGORIES.values() for state in states]
    assert sorted(counted) == sorted(State)
    assert set(State) == STUCK_STATES | TERMINAL_STATES | PARKED_STATES


@pytest.mark.parametrize("end", [*CATEGORIES["rejected"], *CATEGORIES["blocked"], *CATEGORIES["onHold"]])
def test_no_rejection_block_or_hold_without_a_reason(end):
    start = next(state for state in State if end in LEGAL_MOVES[state])
    for reason in (None, ""):
        with pytest.raises(IllegalMove):
            move(a_submission(start), end, "system", AT, reason)


def test_a_claim_takes_the_lease_and_counts_the_attempt():
    change = claim(a_submission(attempts=1, fence=4), "me", AT, AT + LEASE)
    after = change.after
    assert (after.state, after.attempts, after.fence) == (State.TIER1_SCANNING, 2, 5)
    assert (after.lease_owner, after.lease_until, after.version) == ("me", AT + LEASE, 2)
    assert after.has_live_lease(AT)
    assert not after.has_live_lease(AT + LEASE)


@pytest.mark.parametrize("state", sorted(STUCK_STATES - {State.RECEIVED}))
def test_taking_over_a_dead_lease_leaves_two_entries_and_one_version(state):
    dead = a_submission(state, lease_until=AT - timedelta(seconds=1), attempts=1, fence=1, seq=5, version=9)
    change = claim(dead, "me", AT, AT + LEASE)
    steps = [(entry.seq, entry.from_state, entry.to_state, entry.actor) for entry in change.entries]
    assert steps == [
        (6, state, State.RECEIVED, "recovery"),
        (7, State.RECEIVED, State.TIER1_SCANNING, "worker"),
    ]
    assert (change.after.version, change.after.fence, change.after.attempts) == (10, 2, 2)


@pytest.mark.parametrize("end", sorted(set(State) - STUCK_STATES))
def test_leaving_the_worker_ends_the_lease(end):
    start = next(s for s in (State.TIER1_SCANNING, State.AUTO_APPROVED) if end in LEGAL_MOVES[s])
    after = move(a_submission(start, lease_until=AT + LEASE, lease_owner="me"), end, "worker", AT, "why").after
    assert (after.lease_until, after.lease_owner) == (None, None)


def test_a_reopened_submission_starts_with_all_its_attempts():
    failed = a_submission(State.ON_HOLD, attempts=3, error="it broke", not_before=AT, resent_at=AT)
    after = reopen(failed, "admin:eve", AT, "try again").after
    assert (after.state, after.attempts, after.error, after.not_before, after.resent_at) == (
        State.RECEIVED,
        0,
        None,
        None,
        None,
    )


def test_a_touch_leaves_no_history():
    change = touch(a_submission(), not_before=AT)
    assert (change.entries, change.after.version, change.after.updated_at) == ((), 2, AT)


def test_creation_is_the_only_entry_without_a_start():
    [entry] = created(a_submission()).entries
    assert (entry.seq, entry.from_state, entry.to_state) == (1, None, State.RECEIVED)


DUE = {
    "untouched": (a_submission(), STUCK_THRESHOLD),
    "retried later": (a_submission(not_before=AT + timedelta(hours=1)), timedelta(hours=1) + STUCK_THRESHOLD),
    "sent again": (a_submission(resent_at=AT + timedelta(minutes=6)), timedelta(minutes=21)),
    "leased": (a_submission(State.TIER1_SCANNING, lease_until=AT + timedelta(minutes=9)), timedelta(minutes=9)),
    "leased shortly": (a_submission(State.AUTO_APPROVED, lease_until=AT + LEASE), STUCK_THRESHOLD),
}


@pytest.mark.parametrize("name", DUE)
def test_due_is_the_latest_of_all_waits(name):
    submission, wait = DUE[name]
    assert due_at(submission) == AT + wait
    assert rescue_of(submission, AT + wait - timedelta(microseconds=1)) is Rescue.LEAVE
    assert rescue_of(submission, AT + wait) is not Rescue.LEAVE


@pytest.mark.parametrize("state", sorted(set(State) - STUCK_STATES))
def test_nothing_finished_or_parked_is_ever_due(state):
    assert due_at(a_submission(state)) is None
    assert rescue_of(a_submission(state), AT + timedelta(days=9)) is Rescue.LEAVE


def test_a_waiting_one_is_sent_again_and_a_lost_one_requeued_until_its_attempts_are_used_up():
    late = AT + timedelta(hours=1)
    assert rescue_of(a_submission(attempts=2), late) is Rescue.SEND_AGAIN
    for attempts in range(1, MAX_ATTEMPTS):
        assert rescue_of(a_submission(State.TIER1_SCANNING, attempts=attempts), late) is Rescue.REQUEUE
    assert rescue_of(a_submission(State.TIER1_SCANNING, attempts=MAX_ATTEMPTS), late) is Rescue.GIVE_UP


@given(st.integers(0, 2**41).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC)))
def test_ids_are_valid_and_sort_by_time(at):
    earlier, later = new_id(at), new_id(at + timedelta(milliseconds=2))
    assert is_id(earlier)
    assert earlier < later
    assert new_id(at) != new_id(at)
    assert abs(time_of(earlier) - at) <= timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text", ["", "sub_", "sub_" + "0" * 25, "sub_" + "u" * 26, "SUB_" + "0" * 26, "x", "sub_" + "0" * 26 + "\n"]
)
def test_what_is_no_id_is_known_as_such(text):
    assert not is_id(text)
