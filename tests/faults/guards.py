"""Every guard of the platform with a way to switch it off, for tests alone: nothing in production knows of these.

A guard is switched off by replacing the name it goes by. Whoever then runs the model, or the tests named here, must
see it fail: a guard whose removal nobody notices is not tested. `mattered` names a function and says of its answer
whether the guard stood in somebody's way, so that a run can count how often it did.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

import msgspec

from tests.faults.switches import (
    Anything,
    all_states,
    always,
    always_due,
    always_later,
    any_move,
    due_without_lease,
    expecting,
    ignoring_not_before,
    instead,
    keeping_all,
    keeping_attempts,
    keeping_the_newer_origin,
    module_level,
    one_try,
    same_seq,
    silent_queue,
    taking_nothing,
    untimed,
    without,
)

MODEL = "tests/faults/test_recovery_model.py::"


@dataclass(frozen=True)
class Guard:
    name: str
    off: dict[str, Callable[[Any], Any]]  # "module:attribute" -> what replaces it, made from the original
    tests: Sequence[str] = ()  # that must fail; none: the state machine must
    mattered: tuple[str, Callable[[Any], bool]] | None = None
    hangs: bool = False  # without it, a test waits for ever
    refused: str = ""  # or: the refused writes that are its own, as the store in memory counts them

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, change in self.off.items():
                stack.enter_context(_replaced(target, change))
            yield


@contextmanager
def counted(guards: Sequence[Guard], counter: Counter[str]) -> Iterator[None]:
    """Within, `counter` learns how often each guard mattered."""
    with ExitStack() as stack:
        for guard in guards:
            if guard.mattered:
                target, is_so = guard.mattered
                stack.enter_context(_replaced(target, _counting(guard.name, is_so, counter)))
        yield


def _replaced(target: str, change: Callable[[Any], Any]):
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner = import_module(module)
    for step in owners:
        owner = getattr(owner, step)
    return patch.object(owner, name, change(getattr(owner, name)))


def _counting(name: str, is_so: Callable[[Any], bool], counter: Counter[str]):
    def change(original):
        @wraps(original)
        def call(*args, **kwargs):
            answer = original(*args, **kwargs)
            counter[name] += bool(is_so(answer))
            return answer

        @wraps(original)
        async def call_later(*args, **kwargs):
            answer = await original(*args, **kwargs)
            counter[name] += bool(is_so(answer))
            return answer

        return call_later if inspect.iscoroutinefunction(original) else call

    return change


NOBODY = instead(None)
STORE = "shared.submission_store:"
PIPELINE = "tests/unit/test_pipeline.py::"
RECOVERY = "tests/unit/test_recovery.py::"
BLOCKING = "tests/unit/test_blocking.py::"
VERIFICATION = "tests/integration/test_verification.py::"

GUARDS = [
    Guard(
        "a record is written only as it was read", {f"{STORE}_record_put": expecting(lambda _: None)}, refused="sub."
    ),
    Guard(
        "version compared", {f"{STORE}_record_put": without("version")}, [f"{MODEL}test_r09_each"], refused="version"
    ),
    Guard("state compared", {f"{STORE}_record_put": without("state")}, [f"{MODEL}test_r09_each"], refused="state"),
    Guard("fence compared", {f"{STORE}_record_put": without("fence")}, [f"{MODEL}test_r09_each"], refused="fence"),
    Guard(
        "own token read back",
        {"shared.dynamo_kv:DynamoKV._stored_attempt": always_later(None)},
        [f"{MODEL}test_r18"],
        ("shared.dynamo_kv:DynamoKV._stored_attempt", lambda stored: stored is not None),
    ),
    Guard("one identity, one record", {f"{STORE}ABSENT": NOBODY}, refused="unique."),
    Guard("an identity found late is unique too", {"shared.verification:ABSENT": NOBODY}, [f"{MODEL}test_i7"]),
    Guard(
        "a live lease is left alone by workers",
        {"shared.submissions:Submission.has_live_lease": always(False)},
        [f"{MODEL}test_r06"],
        ("shared.submissions:Submission.has_live_lease", bool),
    ),
    Guard(
        "a live lease is left alone by the scan",
        {"shared.submissions:due_at": always_due, f"{STORE}due_at": always_due},
        [f"{MODEL}test_r08"],
    ),
    Guard(
        "the lease counts beside the threshold",
        {"shared.submissions:due_at": due_without_lease},
        ["tests/unit/test_submissions.py::test_due_is_the_latest_of_all_waits"],
    ),
    Guard(
        "a message that failed is kept",
        {"functions.consumer:failures_of": always({"batchItemFailures": []})},
        (),
        ("functions.consumer:failures_of", lambda answer: bool(answer["batchItemFailures"])),
    ),
    Guard("a batch never answers None", {"functions.consumer:failures_of": always(None)}),
    Guard(
        "what is finished is not claimed",
        {"shared.pipeline:ACTIVE_STATES": all_states},
        [f"{PIPELINE}test_r03_a_duplicate_delivery_has_one_effect_however_late"],
    ),
    Guard("only legal moves", {"shared.submissions:LEGAL_MOVES": any_move}),
    Guard(
        "attempts have a budget",
        {f"shared.{module}:MAX_ATTEMPTS": instead(99) for module in ("pipeline", "recovery", "submissions")},
        [f"{MODEL}test_r01_three"],
    ),
    Guard(
        "a resend has its period",
        {"shared.submissions:RESEND_PERIOD": lambda period: 0 * period},
        [f"{RECOVERY}test_a_waiting_one_is_sent_at_most_once_in_fifteen_minutes_and_never_gives_up"],
    ),
    Guard("counters in the transaction", {f"{STORE}count_change": always([])}),
    Guard("history has a place for every move", {f"{STORE}move": same_seq, "shared.verification:move": same_seq}),
    Guard(
        "a pause stops workers",
        {"shared.pipeline:pause_of": always(None)},
        [f"{MODEL}test_r34"],
        ("shared.pipeline:pause_of", lambda pause: pause is not None),
    ),
    Guard(
        "a pause stops resends",
        {"shared.recovery:find_pause": always_later(None)},
        [f"{RECOVERY}test_r11_during_a_pause_waiting_rows_are_not_read_and_lost_leases_are_rescued"],
        ("shared.recovery:find_pause", lambda pause: pause is not None),
    ),
    Guard(
        "poison is stored",
        {"functions.consumer:store_dead_letter": always_later(None)},
        (),
        ("functions.consumer:store_dead_letter", lambda _: True),
    ),
    Guard(
        "what is published is what was scanned",
        {"shared.skill_store:content_hash_of": lambda original: lambda files: Anything()},
        [f"{MODEL}test_what_is_published"],
    ),
    Guard(
        "the blocklist is asked",
        {"shared.verification:worst_entry": always(None), "shared.pipeline:find_block": always_later(None)},
        [f"{VERIFICATION}test_the_blocklist_is_scoped_and_stops_an_approval"],
    ),
    Guard(
        "an approval is for its content",
        {
            f"shared.{module}:clearance_key": lambda original: lambda content_hash: original("any")
            for module in ("verification", "receipt_store")
        }
        | {"shared.receipt_store:Clearance.covers": always(True)},
        [f"{VERIFICATION}test_approving_publishes_once_and_one_changed_byte_is_held_again"],
    ),
    Guard(
        "an approval holds when newer rules look again",
        {"shared.receipt_store:Clearance.covers": always(False)},
        ["tests/integration/test_rescan.py::test_an_admins_unblock_holds_for_this_content_under_these_rules"],
    ),
    Guard(
        "a block takes back what it made alone",
        {"shared.blocklist:_sharpened": keeping_the_newer_origin},
        [f"{BLOCKING}test_an_entry_that_a_person_made_outlives_the_block_of_the_same_thing"],
    ),
    Guard(
        "no entry is made behind a decision's back",
        {"shared.blocking:_absent": always([])},
        [f"{BLOCKING}test_an_entry_made_at_the_moment_of_an_unblock_keeps_the_skill_out"],
    ),
    Guard(
        "a name belongs to its first skill",
        {"shared.verification:_refuse_taken_name": always(None)},
        [f"{VERIFICATION}test_a_second_path_with_the_same_slug_is_rejected"],
    ),
    Guard("an env is its batch's", {"shared.worker_context:worker_env_storage": module_level}),
    Guard(
        "a retry waits for its time",
        {"shared.pipeline:_early_until": ignoring_not_before},
        [f"{PIPELINE}test_r04_a_message_that_comes_too_early_gets_a_successor"],
        ("shared.pipeline:_early_until", lambda until: until is not None),
    ),
    Guard(
        "lists read again what is active or just changed",
        {"shared.submission_list:get_submissions_fresh": always_later(((), (), ()))},
        [f"{MODEL}test_r20"],
    ),
    Guard(
        "a version exists once",
        {"shared.skill_store:ABSENT": NOBODY},
        ["tests/unit/test_skill_store.py::test_publishing_is_all_or_nothing"],
    ),
    Guard(
        "a dead letter is stored once",
        {"shared.dead_letter_store:ABSENT": NOBODY},
        ["tests/unit/test_dead_letter_store.py::test_a_message_delivered_ten_times_at_once_is_one_dead_letter"],
        refused="dead-letter.",
    ),
    Guard(
        "what was decided is finished from its receipt",
        {"shared.recovery:find_receipt": always_later(None)},
        [f"{MODEL}test_r01_three"],
    ),
    Guard(
        "a copy has no successor",
        {"shared.pipeline:is_copy": always(False)},
        [f"{MODEL}test_r34"],
        ("shared.pipeline:is_copy", bool),
    ),
    Guard(
        "a message that is back is no copy",
        {"shared.pipeline:is_copy": lambda _: lambda submission, delivery: delivery.turn < submission.turn},
        [f"{PIPELINE}test_r02"],
    ),
    Guard("a successor is sent", {"shared.pipeline:get_queue": silent_queue}, [f"{MODEL}test_r34"]),
    Guard(
        "a deferral gives the attempt back", {"shared.verification:Held.move": keeping_attempts}, [f"{MODEL}test_r34"]
    ),
    Guard(
        "a reopen starts with all attempts", {"shared.intake:reopen": keeping_all, "shared.admin:reopen": keeping_all}
    ),
    Guard(
        "an expired row counts as absent",
        {"shared.dynamo_kv:DynamoKV._is_alive": always(True)},
        ["tests/integration/test_kv_contract.py::test_r33_an_expired_row_counts_as_absent_everywhere"],
    ),
    Guard(
        "the store asks again",
        {"shared.dynamo_kv:attempts_within": one_try},
        [f"{MODEL}test_r15", f"{MODEL}test_r18"],
    ),
    Guard(
        "a batch read takes 100 keys",
        {"shared.dynamo_kv:KEYS_PER_BATCH": instead(1000)},
        ["tests/integration/test_reads.py"],
    ),
    Guard(
        "a record has its time",
        {"shared.pipeline:asyncio": untimed},
        [f"{PIPELINE}test_r23_one_record_hangs_and_its_siblings_finish"],
        hangs=True,
    ),
    Guard("a request is answered once", {"shared.intake:_find_earlier": always_later(None)}, [f"{MODEL}test_r31"]),
    Guard(
        "of two requests with one key one wins",
        {"shared.idempotency:ABSENT": NOBODY},
        ["tests/unit/test_intake.py::test_R31_parallel_requests_for_two_skills_with_one_key_make_one_of_them"],
    ),
    Guard(
        "several skills are one request",
        {"shared.intake:take_key": taking_nothing},
        ["tests/unit/test_batches.py::test_R31_of_two_parallel_batches_with_one_key_one_is_refused_whole"],
    ),
    Guard(
        "what could not be read is told",
        {f"{STORE}_ids": always([])},
        [f"{RECOVERY}test_r12_an_unreadable_record_is_reported_and_the_others_are_rescued"],
    ),
    Guard(
        "a full tick says so",
        {f"{STORE}Stuck": lambda stuck: lambda submissions, failed, more: stuck(submissions, failed, False)},
        [f"{RECOVERY}test_r14_a_full_tick_says_so_and_the_rest_is_next"],
    ),
    Guard(
        "a failed resend is due at once",
        {"shared.recovery:Unavailable": instead(())},
        [f"{RECOVERY}test_r02_a_resend_that_fails_is_made_up_for_by_the_very_next_tick"],
    ),
    Guard(
        "who lost a record looks again",
        {"shared.pipeline:_after_losing": always_later(import_module("shared.pipeline").DONE)},
        ["tests/faults/test_found.py"],
        ("shared.pipeline:_after_losing", lambda settled: settled.come_back_in is not None),
    ),
    Guard(
        "a row is cut to its size", {f"{STORE}_fitting": lambda _: lambda row, field: row}, ["tests/unit/test_sizes.py"]
    ),
    Guard(
        "newer senders are understood",
        {
            "shared.queue:Message": lambda message: msgspec.defstruct(
                "Message", [("id", str), ("schema", int)], forbid_unknown_fields=True
            )
        },
        ["tests/unit/test_queue.py"],
    ),
    Guard(
        "an outage of GitHub is no verdict",
        {"shared.github_http:GitHubHttp.down": lambda _: lambda self, why: import_module("shared.errors").Refused(why)},
        ["tests/integration/test_github_http.py::test_R27_an_outage_defers_and_never_outlasts_its_time"],
    ),
]
