"""View models: what the page of a submission says while a service is down, and the filter of the queue."""

from datetime import UTC, datetime, timedelta

from shared.records.submissions import HistoryEntry, State, Submission
from shared.submissions.counters import Stats
from shared.web.views import deferral_of, filters, stages_of, tries_of

AT = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
DOWN = "deferred: We could not reach GitHub (quota used up)."


def history(*moves):
    return [
        HistoryEntry(
            seq=n + 1,
            timestamp=AT + timedelta(minutes=n),
            from_state=None,
            to_state=to,
            reason=DOWN if n and to is State.RECEIVED else None,
            actor="worker",
        )
        for n, to in enumerate(moves)
    ]


def a_submission(**fields):
    known = {"id": "sub_1", "source": "s", "skill_path": ".", "skill_name": "a/b/c", "state": State.RECEIVED}
    return Submission(**known, created_at=AT, updated_at=AT, **fields)


TRY = (State.TIER1_SCANNING, State.RECEIVED)
JUDGED = (State.TIER1_SCANNING, State.TIER2_SCANNING, State.RECEIVED)


def test_tries_during_an_outage_are_one_stage_with_their_number():
    stages = stages_of(history(State.RECEIVED, *TRY * 8))
    assert [stage.state for stage in stages] == [State.RECEIVED, State.TIER1_SCANNING, State.RECEIVED]
    assert stages[-1].reason == "GitHub unreachable (quota used up), tried 8 times"


def test_tries_that_end_at_the_judge_are_one_stage_too_and_what_follows_is_shown():
    stages = stages_of(history(State.RECEIVED, *JUDGED * 3, State.TIER1_SCANNING, State.TIER1_FAILED))
    states = [State.RECEIVED, State.TIER1_SCANNING, State.TIER2_SCANNING, State.RECEIVED]
    assert [stage.state for stage in stages] == [*states, State.TIER1_SCANNING, State.TIER1_FAILED]


def test_a_deferred_submission_says_what_is_down_how_often_it_was_tried_and_when_the_next_try_is():
    deferred = a_submission(reason=DOWN, not_before=AT + timedelta(minutes=2))
    tries = tries_of(history(State.RECEIVED, *TRY * 8))
    said = "Waiting: GitHub unreachable (quota used up), tried 8 times, next try in 2 min."
    assert deferral_of(deferred, tries, AT) == said
    old = a_submission(reason=f"{DOWN} The next try is at 14:05 UTC.", not_before=AT + timedelta(minutes=2))
    assert deferral_of(old, tries, AT) == said
    assert "next try soon" in deferral_of(deferred, 1, AT + timedelta(hours=1))
    assert deferral_of(a_submission(reason=None), 0, AT) is None


def test_a_list_can_be_limited_to_the_state_that_is_shown_even_if_nothing_is_in_it():
    counts = {State.PUBLISHED: 3, State.TIER1_FAILED: 2, State.REJECTED: 1}
    stats = Stats(
        total=6,
        active=0,
        published=3,
        rejected=3,
        blocked=0,
        on_hold=0,
        by_state=counts,
        generated_at=datetime(2026, 1, 1, tzinfo=UTC),
        degraded=False,
    )
    shown = filters(stats, "RECEIVED")
    assert dict(shown["States"]) == {
        "RECEIVED": "Queued (0)",
        "PUBLISHED": "Published (3)",
        "TIER1_FAILED": "Rejected by the scan (2)",
        "REJECTED": "Rejected, other reason (1)",
    }
    assert ("rejected", "Rejected (3)") in shown["Categories"]
