"""Every guard of the platform with a way to switch it off, for tests alone: nothing in production knows of these.

A guard is switched off by replacing it under its name. The tests of its rows in docs/reliability.md and those named
here must then fail; where there are neither, the model must.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module

import msgspec
from msgspec.structs import fields as fields_of

from shared.access import idempotency
from shared.errors import Refused
from shared.records.submissions import LEASED_STATES, State, move
from tests.faults.switches import (
    Equal,
    ModuleLevel,
    Switch,
    always,
    blocking,
    in_result,
    no_effect,
    one_at_a_time,
    one_try,
    replaced,
    unguarded,
    untimed,
    value,
    within,
    without_argument,
)

MODEL = "tests/faults/test_recovery_model.py::"
CONTENT = "tests/faults/test_content_model.py::"
EACH_ALONE = f"{MODEL}test_each_of_version_state_and_fence_alone_refuses_a_write"
THREE_KILLED = f"{MODEL}test_three_killed_workers_leave_it_to_a_person_or_finish_what_was_decided"
BACK_AGAIN = "test_a_worker_that_died_before_it_sent_the_successor_makes_up_for_it_when_its_message_is_back"
TWO_HOURS = f"{MODEL}test_two_hours_of_an_outage_or_a_pause_burn_no_attempt_and_no_message"


@dataclass(frozen=True)
class Guard:
    name: str
    switches: Mapping[str, Switch]  # by "module:attribute"
    tests: Sequence[str] = ()  # that must fail, beside those of its rows
    hangs: bool = False  # without it, a test waits for ever

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, switch in self.switches.items():
                stack.enter_context(replaced(target, switch))
            yield


def _same_seq(original):
    """A history entry that takes the place of the one before."""

    def moved(submission, *args, **kwargs):
        change = original(submission, *args, **kwargs)
        return change._replace(entries=tuple(msgspec.structs.replace(e, seq=submission.seq) for e in change.entries))

    return moved


def _keeping_all(original):
    return lambda submission, actor, now, reason, **set_: move(submission, State.RECEIVED, actor, now, reason, **set_)


def _ignoring_not_before(original):
    return lambda submission, pause, at: pause.until if pause and pause.until > at else None


def _due_at_once(original):
    return lambda submission: submission.created_at if submission.state in LEASED_STATES else original(submission)


def _endless(original):
    return lambda submission, now: submission.state in LEASED_STATES and submission.lease_until is not None


def _due_without(field: str):
    return lambda due_at: lambda submission: due_at(msgspec.structs.replace(submission, **{field: None}))


def _refusing_more(original):
    """Decodes what has the fields of today and no others."""

    def decode(body, type_):
        fields = [(f.name, f.type) if f.required else (f.name, f.type, f.default) for f in fields_of(type_)]
        original(body, type=msgspec.defstruct(type_.__name__, fields, forbid_unknown_fields=True))
        return original(body, type=type_)

    return lambda body, **as_: decode(body, as_["type"])


def _taking_nothing(original):
    """A key that is used, but not taken."""

    async def take_key(key):
        return idempotency.StoredResponse(
            body_hash=key.body_hash, expires_at=idempotency._expires_at(key), is_first=True
        )

    return take_key


def _keeping_the_newer_origin(original):
    """The caller that sharpens an entry of the blocklist becomes its origin."""
    return lambda old, new: msgspec.structs.replace(original(old, new), origin=new.origin)


def _is_undoing_a_note(submission, **set_):
    return "resent_at" in set_ and submission.resent_at not in (None, set_["resent_at"])


STORE = "shared.submissions.submission_store:"
FOUND = "tests/faults/test_found.py::"
PIPELINE = "tests/unit/verification/test_pipeline.py::"
RECOVERY = "tests/unit/verification/test_recovery.py::"
PUBLISHING = "tests/unit/marketplace/test_publishing.py::"
BLOCKING = "tests/unit/marketplace/test_blocking.py::"
VERIFICATION = "tests/integration/test_verification.py::"

GUARDS = [
    Guard("a record is written only as it was read", {f"{STORE}_record_put": unguarded()}),
    Guard("version compared", {f"{STORE}_record_put": unguarded("version")}, [EACH_ALONE]),
    Guard("state compared", {f"{STORE}_record_put": unguarded("state")}, [EACH_ALONE]),
    Guard("fence compared", {f"{STORE}_record_put": unguarded("fence")}),
    Guard("own token read back", {"shared.storage.dynamo_kv:DynamoKV._stored_attempt": always(None)}),
    Guard("one identity, one record", {f"{STORE}ABSENT": unguarded()}),
    Guard(
        "an identity found late is unique too",
        {"shared.verification.verification:identity_put": unguarded()},
        [f"{CONTENT}test_a_skill_that_was_submitted_by_name_and_by_path_is_one_in_the_end"],
    ),
    Guard(
        "a live lease is left alone by workers",
        {"shared.records.submissions:Submission.has_live_lease": always(False)},
    ),
    Guard(
        "a live lease is left alone by the scan",
        {"shared.records.submissions:due_at": _due_at_once, f"{STORE}due_at": _due_at_once},
    ),
    Guard(
        "the lease counts beside the threshold",
        {"shared.records.submissions:due_at": _due_without("lease_until")},
        ["tests/unit/records/test_submissions.py::test_due_is_the_latest_of_all_waits"],
    ),
    Guard(
        "a message that failed is kept", {"functions.http.partial_batch:failures_of": always({"batchItemFailures": []})}
    ),
    Guard("a batch never returns None", {"functions.http.partial_batch:failures_of": always(None)}),
    Guard("what is finished is not claimed", {"shared.verification.pipeline:ACTIVE_STATES": value(frozenset(State))}),
    Guard(
        "only legal moves", {"shared.records.submissions:LEGAL_MOVES": value(dict.fromkeys(State, frozenset(State)))}
    ),
    Guard(
        "attempts have a budget",
        {
            f"shared.{module}:MAX_ATTEMPTS": value(99)
            for module in ("verification.pipeline", "verification.recovery", "records.submissions")
        },
        [THREE_KILLED],
    ),
    Guard(
        "a resend has its period",
        {target: _due_without("resent_at") for target in ("shared.records.submissions:due_at", f"{STORE}due_at")},
        [f"{RECOVERY}test_a_waiting_one_is_sent_at_most_once_in_fifteen_minutes_and_never_gives_up"],
    ),
    Guard("counters in the transaction", {f"{STORE}count_change": always([])}),
    Guard("what an address holds is counted in the transaction", {f"{STORE}count_held": always([])}),
    Guard(
        "history has a place for every move",
        {f"{STORE}move": _same_seq, "shared.verification.verification:move": _same_seq},
    ),
    Guard("a pause stops workers", {"shared.verification.pipeline:pause_of": always(None)}, [TWO_HOURS]),
    Guard("a pause stops resends", {"shared.verification.recovery:find_pause": always(None)}),
    Guard("a resumed queue sends what waited", {"shared.moderation.submission_decisions:send_waiting": always(0)}),
    Guard("a resumed queue supersedes delayed messages", {"shared.verification.pipeline:was_resumed": always(False)}),
    Guard("poison is stored", {"functions.consumer:store_dead_letter": no_effect()}),
    Guard(
        "what is published is what was scanned",
        {"shared.marketplace.publishing:content_hash_of": always(Equal())},
        [f"{CONTENT}test_what_is_published_is_what_was_scanned"],
    ),
    Guard(
        "the blocklist is checked",
        {
            "shared.verification.verification:worst_entry": always(None),
            "shared.verification.pipeline:find_block": always(None),
        },
        [f"{VERIFICATION}test_the_blocklist_is_scoped_and_stops_an_approval"],
    ),
    Guard(
        "an approval is for its content",
        {
            f"shared.{module}:clearance_key": lambda original: lambda name, content_hash: original(name, "any")
            for module in ("verification.clearances", "evidence.receipt_store")
        }
        | {"shared.evidence.receipt_store:Clearance.covers": always(True)},
        [f"{VERIFICATION}test_approving_publishes_once_and_one_changed_byte_is_held_again"],
    ),
    Guard(
        "an approval holds when newer rules look again",
        {"shared.evidence.receipt_store:Clearance.covers": always(False)},
        ["tests/integration/test_rescan.py::test_an_admins_unblock_holds_for_this_content_under_these_rules"],
    ),
    Guard(
        "an unblock removes only the block's own entries",
        {"shared.evidence.blocklist:_merged": _keeping_the_newer_origin},
        [f"{BLOCKING}test_an_entry_that_a_person_made_outlives_the_block_of_the_same_thing"],
    ),
    Guard(
        "no entry is added during a decision",
        {"shared.marketplace.blocking:_absent": always([])},
        [f"{BLOCKING}test_an_entry_made_at_the_moment_of_an_unblock_keeps_the_skill_out"],
    ),
    Guard(
        "a name belongs to its first skill",
        {"shared.verification.verification:_find_name_conflict": always(None)},
        [f"{VERIFICATION}test_a_second_path_with_the_same_slug_is_rejected"],
    ),
    Guard("an env belongs to its batch", {"shared.worker_context:worker_env_storage": ModuleLevel}),
    Guard(
        "a retry waits for its time",
        {"shared.verification.pipeline:_early_until": _ignoring_not_before},
        [f"{PIPELINE}test_a_message_that_comes_too_early_gets_a_successor"],
    ),
    Guard(
        "lists read again what is active or just changed",
        {"shared.submissions.submission_list:get_submissions_fresh": always(((), (), ()))},
    ),
    Guard(
        "a version exists once",
        {"shared.marketplace.skill_store:ABSENT": unguarded()},
        ["tests/unit/marketplace/test_publishing.py::test_publishing_is_all_or_nothing"],
    ),
    Guard(
        "a dead letter is stored once",
        {"shared.submissions.dead_letter_store:ABSENT": unguarded()},
        [
            "tests/unit/submissions/test_dead_letter_store.py::test_a_message_delivered_ten_times_at_once_is_one_dead_letter"
        ],
    ),
    Guard(
        "what was decided is finished from its receipt",
        {"shared.verification.recovery:find_receipt": always(None)},
        [f"{MODEL}test_what_was_decided_in_the_last_attempt_is_finished_without_another"],
    ),
    Guard("a copy has no successor", {"shared.verification.pipeline:is_superseded": always(False)}, [TWO_HOURS]),
    Guard(
        "a redelivered message is no copy",
        {
            "shared.verification.pipeline:is_superseded": lambda _: (
                lambda submission, delivery: delivery.generation < submission.generation
            )
        },
        [f"{PIPELINE}{BACK_AGAIN}"],
    ),
    Guard(
        "a successor is sent",
        {"shared.verification.pipeline:get_queue": in_result(within(send=no_effect()))},
        [TWO_HOURS],
    ),
    Guard(
        "long scans are handed over",
        {"functions.consumer:find_long_scan_queue": always(None)},
        [f"{PIPELINE}test_a_long_scan_is_handed_over_and_keeps_no_worker_from_short_ones"],
    ),
    Guard(
        "a deferral gives the attempt back",
        {"shared.verification.verification:LeasedSubmission.move": without_argument("attempts")},
    ),
    Guard(
        "a reopen starts with all attempts",
        {
            "shared.submissions.intake:reopen": _keeping_all,
            "shared.moderation.submission_decisions:reopen": _keeping_all,
        },
    ),
    Guard("an expired row counts as absent", {"shared.storage.dynamo_kv:DynamoKV._is_alive": always(True)}),
    Guard("the store retries", {"shared.storage.dynamo_kv:attempts_within": one_try}),
    Guard(
        "a publication checks what was blocked lately",
        {"shared.marketplace.publishing:latest_block_keys": always([])},
        [f"{PUBLISHING}test_what_the_blocklist_named_during_the_scan_is_not_published"],
    ),
    Guard(
        "a batch read takes 100 keys",
        {"shared.storage.dynamo_kv:_chunks": lambda _: lambda keys, most: [keys] * bool(keys)},
    ),
    Guard("a record has a time limit", {"shared.verification.pipeline:asyncio": within(timeout=untimed)}, hangs=True),
    Guard("a request is answered once", {"shared.submissions.intake:_find_earlier": always(None)}),
    Guard(
        "of two requests with one key one wins",
        {"shared.access.idempotency:ABSENT": unguarded()},
        ["tests/unit/submissions/test_intake.py::test_parallel_requests_for_two_skills_with_one_key_make_one_of_them"],
    ),
    Guard(
        "several skills are one request",
        {"shared.submissions.intake:take_key": _taking_nothing},
        ["tests/unit/submissions/test_batches.py::test_of_two_parallel_batches_with_one_key_one_is_refused_whole"],
    ),
    Guard("what could not be read is reported", {f"{STORE}_ids": always([])}),
    Guard(
        "a full scan reports more",
        {f"{STORE}Stuck": lambda stuck: lambda submissions, failed, more: stuck(submissions, failed, False)},
    ),
    Guard("the scan resends what waits", {"shared.verification.recovery:_send_again": no_effect()}),
    Guard(
        "a failed resend is due at once",
        {"shared.verification.recovery:touch_submission": no_effect(_is_undoing_a_note)},
        [f"{RECOVERY}test_a_resend_that_fails_is_made_up_for_by_the_very_next_tick"],
    ),
    Guard(
        "a lost lease is recovered",  # by the next delivery or by the scan
        {
            "shared.records.submissions:Submission.has_live_lease": _endless,
            "shared.verification.recovery:_requeue": no_effect(),
        },
    ),
    Guard("a scan does not block the event loop", {"shared.scanner.scan_runner:asyncio": within(to_thread=blocking)}),
    Guard(
        "a scan has a CPU limit",
        {
            "shared.scanner.scan_runner:ScanRequest": lambda request: (
                lambda files, findings, _, most_text: request(files, findings, 1e6, most_text)
            )
        },
        hangs=True,
    ),
    Guard("scans do not wait for each other", {"shared.scanner.scan_runner:ScanProcesses.scan": one_at_a_time}),
    Guard(
        "a scan is limited by its own CPU time",
        {f"shared.scanner.{module}:time": within(thread_time=value(time.monotonic)) for module in ("scan", "matching")},
    ),
    Guard("a stopped scan proves nothing", {"shared.evidence.receipt_store:Receipt.is_reusable": always(True)}),
    Guard("a count is written only as it was read", {"shared.marketplace.community:counted_put": unguarded()}),
    Guard(
        "a worker that lost a record reads it again",
        {"shared.verification.pipeline:_after_losing": always(import_module("shared.verification.pipeline").DONE)},
        [f"{FOUND}test_a_worker_that_lost_its_record_keeps_its_message_while_no_other_worker_has_one"],
    ),
    Guard("a row is cut to its size", {"shared.records.submissions:_fitting": lambda _: lambda row, field: row}),
    Guard("a message is cut to its size", {"shared.submissions.intake:_cut": lambda _: str}),
    Guard(
        "newer senders are understood",
        {"shared.storage.queue:msgspec": within(json=within(decode=_refusing_more))},
    ),
    Guard(
        "a write is answered after its commit",
        {"local.store.database:Database._commit": always(None)},
    ),
    Guard("a commit ends with an fsync", {"local.store.database:SYNCHRONOUS": value("OFF")}),
    Guard(
        "an outage of GitHub is no verdict",
        {"shared.github.http:GitHubHttp.down": lambda _: lambda self, why: Refused(why)},
    ),
]
