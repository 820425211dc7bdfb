"""What a submission is and how it may move. Pure: no clock, no store, no I/O."""

import hashlib
import re
import secrets
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from shared.errors import IllegalMove
from shared.timing import MAX_ATTEMPTS, RESEND_PERIOD
from shared.timing import STUCK_THRESHOLD as STUCK_THRESHOLD


class State(StrEnum):
    RECEIVED = "RECEIVED"
    TIER1_SCANNING = "TIER1_SCANNING"
    TIER2_SCANNING = "TIER2_SCANNING"
    AUTO_APPROVED = "AUTO_APPROVED"
    PUBLISHED = "PUBLISHED"
    VENDOR_APPROVED = "VENDOR_APPROVED"
    TIER1_FAILED = "TIER1_FAILED"
    REJECTED = "REJECTED"
    DEQUEUED = "DEQUEUED"
    BLOCKED = "BLOCKED"
    ON_HOLD = "ON_HOLD"
    RESCAN_REQUIRED = "RESCAN_REQUIRED"


S = State

# One definition for every card, filter and page. Each state is in exactly one category, so the total is their sum.
CATEGORIES: dict[str, tuple[State, ...]] = {
    "active": (S.RECEIVED, S.TIER1_SCANNING, S.TIER2_SCANNING, S.AUTO_APPROVED),
    "published": (S.PUBLISHED, S.VENDOR_APPROVED),
    "rejected": (S.REJECTED, S.TIER1_FAILED, S.DEQUEUED),
    "blocked": (S.BLOCKED,),
    "onHold": (S.ON_HOLD, S.RESCAN_REQUIRED),
}
CATEGORY_OF = {state: category for category, states in CATEGORIES.items() for state in states}
ACTIVE_STATES = frozenset(CATEGORIES["active"])
STUCK_STATES = ACTIVE_STATES
TERMINAL_STATES = frozenset(CATEGORIES["published"] + CATEGORIES["rejected"])
PARKED_STATES = frozenset(CATEGORIES["blocked"] + CATEGORIES["onHold"])
LEASED_STATES = ACTIVE_STATES - {S.RECEIVED}

_PARKED_MOVES = frozenset({S.RECEIVED, S.AUTO_APPROVED, S.REJECTED, S.BLOCKED, S.DEQUEUED})
_REJECTED_MOVES = frozenset({S.RECEIVED, S.AUTO_APPROVED})
_PUBLISHED_MOVES = frozenset({S.RECEIVED, S.BLOCKED})
_TIER2_MOVES = frozenset({S.AUTO_APPROVED, S.REJECTED, S.BLOCKED, S.DEQUEUED, S.ON_HOLD, S.RECEIVED})

LEGAL_MOVES: dict[State, frozenset[State]] = {
    S.RECEIVED: frozenset({S.TIER1_SCANNING, S.BLOCKED, S.DEQUEUED, S.REJECTED, S.ON_HOLD}),
    S.TIER1_SCANNING: _TIER2_MOVES | {S.TIER2_SCANNING, S.TIER1_FAILED},
    S.TIER2_SCANNING: _TIER2_MOVES,
    S.AUTO_APPROVED: frozenset({S.PUBLISHED, S.VENDOR_APPROVED, S.RESCAN_REQUIRED, S.BLOCKED, S.ON_HOLD, S.RECEIVED}),
    S.BLOCKED: _PARKED_MOVES,
    S.ON_HOLD: _PARKED_MOVES,
    S.RESCAN_REQUIRED: _PARKED_MOVES,
    S.REJECTED: _REJECTED_MOVES,
    S.TIER1_FAILED: _REJECTED_MOVES,
    S.DEQUEUED: _REJECTED_MOVES,
    S.PUBLISHED: _PUBLISHED_MOVES,
    S.VENDOR_APPROVED: _PUBLISHED_MOVES,
}
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # letters that are hard to confuse
ID_PATTERN = f"sub_[{_ALPHABET}]{{26}}"
REASON_IN_ROW = 160
LARGEST_ROW = 700  # bytes, as JSON
_NEW_RUN: dict[str, Any] = {
    "attempts": 0,
    "error": None,
    "not_before": None,
    "resent_at": None,
    "deferred_for": timedelta(),
    **dict.fromkeys(("commit", "scanned_commit", "rule_set", "verdict", "score", "judged", "judge_score")),
    **dict.fromkeys(("has_own_findings", "has_own_receipt"), False),
}
_NEEDS_REASON = PARKED_STATES | set(CATEGORIES["rejected"])


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that a worker received. The queue may deliver it again, and may have copies of it."""

    message_id: str
    receives: int = 1
    generation: int = msgspec.field(default=0, name="turn")  # of the record when the message was sent


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True, rename={"from_state": "from", "to_state": "to"}):
    seq: int
    timestamp: datetime
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str  # system | worker | recovery | uploader | admin:<name> | owner:<owner>/<repo>


class Submission(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: str
    source: str  # "https://github.com/owner/repo" in lower case, or "uploads/anonymous"
    skill_path: str
    skill_name: str
    state: State
    created_at: datetime
    updated_at: datetime
    repo_url: str | None = None
    sent_by: str | None = None  # what the client calls itself, like "cli"
    reason: str | None = None
    error: str | None = None  # of the last failed attempt
    version: int = 1  # rises with every write
    fence: int = 0  # rises with every claim: a holder of an older one changes nothing
    seq: int = 1  # of the newest history entry
    unwritten: tuple[HistoryEntry, ...] = ()  # the newest entries, stored with those of the next move
    run: int = 0  # which of its runs this is; 0: an older release accepted it, and only the history shows it
    run_at: datetime | None = None  # when this run began; None for the first, which began when it was created
    run_seq: int = 1  # of the history entry that began this run; evidence that runs do not share is stored under it
    # Rises with every claim and every wait: messages of an earlier generation are superseded.
    generation: int = msgspec.field(default=0, name="turn")
    claimed_delivery: Delivery | None = msgspec.field(default=None, name="takenOnBy")
    attempts: int = 0
    lease_owner: str | None = None
    lease_until: datetime | None = None
    not_before: datetime | None = None
    paused_until: datetime | None = None  # equal to `not_before` if nothing but a pause of the queue delays it
    resent_at: datetime | None = None
    content_hash: str | None = None
    # A fingerprint of what no scan could read beside the content.
    unscanned: str = msgspec.field(default="", name="unseen")
    commit: str | None = None
    has_own_findings: bool = False  # about this skill, not about its content: stored apart from the receipt
    has_own_receipt: bool = False  # its scan was stopped: the next scan of this content must not replace the evidence
    copy_of: str | None = None  # the skill that published exactly this content here first
    scanned_commit: str | None = None  # the commit that content, verdict and score are of
    ref: str | None = None  # None: the head of the default branch, or an upload
    repo_id: int | None = None
    rule_set: str | None = None  # of the receipt that decided
    verdict: str | None = None
    judged: str | None = None
    judge_score: int | None = None
    cert_tier: str | None = None
    publish_as: State = State.PUBLISHED
    deferred_for: timedelta = timedelta()  # how long it has waited for what was down, pauses not counted
    score: int | None = None
    published_version: str | None = None
    upload_token_hash: str | None = None
    upload_token_number: int = 0  # rises when the token is replaced
    held_by: str | None = None  # while active: the holder whose share of the queue it takes; None: no holder
    parked_by: str | None = None  # rule | judge | blocklist | person | faults | source: decides who may reopen it
    transferred_to: str | None = None  # the name under which new versions of its skill appear

    def has_live_lease(self, now: datetime) -> bool:
        return self.state in LEASED_STATES and self.lease_until is not None and now < self.lease_until


class SubmissionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a list shows. At most LARGEST_ROW bytes: all that list indexes carry."""

    id: str
    skill_name: str
    repo_url: str | None
    state: State
    reason: str | None
    score: int | None
    created_at: datetime
    updated_at: datetime
    version: int


class Change(NamedTuple):
    """A record before and after one transaction, and the history it adds. Before is None at creation."""

    before: Submission | None
    after: Submission
    entries: tuple[HistoryEntry, ...]


def new_id(now: datetime) -> str:
    """Sorts by time: 48 bits of milliseconds, then 80 random bits."""
    number = (int(now.timestamp() * 1000) << 80) | secrets.randbits(80)
    return "sub_" + "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def time_of(submission_id: str) -> datetime:
    """When the id was made, a moment before its record was."""
    number = 0
    for letter in submission_id.removeprefix("sub_"):
        number = number << 5 | _ALPHABET.index(letter)
    return datetime.fromtimestamp((number >> 80) / 1000, UTC)


def is_id(text: str) -> bool:
    return re.fullmatch(ID_PATTERN, text) is not None


def created(submission: Submission) -> Change:
    entry = HistoryEntry(
        seq=1,
        timestamp=submission.created_at,
        from_state=None,
        to_state=submission.state,
        reason=submission.reason,
        actor="system",
    )
    return Change(None, submission, (entry,))


def move(
    submission: Submission, to: State, actor: str, now: datetime, reason: str | None = None, **set_: Any
) -> Change:
    if to not in LEGAL_MOVES[submission.state]:
        raise IllegalMove(f"{submission.id} cannot go from {submission.state} to {to}.")
    if to in _NEEDS_REASON and not reason:
        raise IllegalMove(f"{submission.id} cannot go to {to} without a reason its author can act on.")
    seq = submission.seq + 1
    kept: dict[str, Any] = {"unwritten": ()}
    if to not in LEASED_STATES:
        kept |= {"lease_owner": None, "lease_until": None}
    if to not in ACTIVE_STATES:
        kept["held_by"] = None  # its share is free again
    after = _next(submission, state=to, reason=reason, seq=seq, updated_at=now, **(kept | set_))
    entry = HistoryEntry(seq=seq, timestamp=now, from_state=submission.state, to_state=to, reason=reason, actor=actor)
    return Change(submission, after, (entry,))


def claim(
    submission: Submission, owner: str, now: datetime, lease_until: datetime, by: Delivery | None = None
) -> Change:
    """A waiting record is claimed, and its entry stored with what the worker does next. One whose worker died is taken
    over, which leaves two entries in its history."""
    before = submission
    if submission.state in LEASED_STATES:
        gone = "the worker that held it is gone"
        recovered = move(submission, S.RECEIVED, "recovery", now, gone, error=gone)
        submission = recovered.after
    claimed = move(
        submission,
        S.TIER1_SCANNING,
        "worker",
        now,
        lease_owner=owner,
        lease_until=lease_until,
        fence=submission.fence + 1,
        attempts=submission.attempts + 1,
        not_before=None,
        **({} if by is None else claimed_by(submission, by)),
    )
    if before is not submission:
        return in_one(recovered, claimed)
    return claimed._replace(after=msgspec.structs.replace(claimed.after, unwritten=claimed.entries))


def in_one(first: Change, second: Change) -> Change:
    """Two moves, one after the other, in one transaction: both are in the history."""
    assert first.before is not None
    after = msgspec.structs.replace(second.after, version=first.before.version + 1)
    return Change(first.before, after, first.entries + second.entries)


def reopen(submission: Submission, actor: str, now: datetime, reason: str, **set_: Any) -> Change:
    """Back to the start with a full set of attempts: a new run, which shows no evidence of the one before."""
    numbers = {"run": submission.run and submission.run + 1, "run_seq": submission.seq + 1, "run_at": now}
    return move(submission, S.RECEIVED, actor, now, reason, **(_NEW_RUN | numbers | set_))


def touch(submission: Submission, **set_: Any) -> Change:
    """A change that is no move: no history, no counter."""
    return Change(submission, _next(submission, **set_), ())


def claimed_by(submission: Submission, by: Delivery) -> dict[str, Any]:
    """From here on its worker is responsible for the record, with the message it received, until it sends another."""
    return {"generation": submission.generation + 1, "claimed_delivery": by}


def is_superseded(submission: Submission, delivery: Delivery) -> bool:
    """The record has another message, so this one may be deleted. Not when this very message was claimed and delivered
    again: then its worker died, possibly before it sent another one."""
    by = submission.claimed_delivery
    was_redelivered = by is not None and by.message_id == delivery.message_id and by.receives < delivery.receives
    return delivery.generation < submission.generation and not was_redelivered


def was_resumed(submission: Submission) -> bool:
    """It waits with the message that was sent at the end of a pause: no worker has received that one yet."""
    return submission.state == S.RECEIVED and submission.generation > 0 and submission.claimed_delivery is None


def is_deferred(submission: Submission, now: datetime) -> bool:
    """It waits for something else than the end of a pause."""
    waits_until = submission.not_before
    return waits_until is not None and now < waits_until and waits_until != submission.paused_until


class Rescue(StrEnum):
    """What the scan does with a submission that no worker holds."""

    LEAVE = "leave"
    SEND_AGAIN = "send again"
    REQUEUE = "requeue"
    GIVE_UP = "give up"


def rescue_of(submission: Submission, now: datetime) -> Rescue:
    """Decided on the record itself, read strongly: an index only says where to look."""
    due = due_at(submission)
    if due is None or now < due:
        return Rescue.LEAVE
    if submission.state == S.RECEIVED:
        return Rescue.SEND_AGAIN
    return Rescue.REQUEUE if submission.attempts < MAX_ATTEMPTS else Rescue.GIVE_UP


def due_at(submission: Submission) -> datetime | None:
    """When the stuck scan should check it, unless it moves before."""
    if submission.state not in STUCK_STATES:
        return None
    waits = [
        submission.updated_at + STUCK_THRESHOLD,
        submission.lease_until,
        submission.not_before and submission.not_before + STUCK_THRESHOLD,
        submission.resent_at and submission.resent_at + RESEND_PERIOD,
    ]
    return max(wait for wait in waits if wait is not None)


def staleness(submission: Submission, now: datetime) -> timedelta | None:
    """How long past due an active submission is."""
    due = due_at(submission)
    return None if due is None else max(timedelta(), now - due)


def row_of(submission: Submission) -> SubmissionRow:
    reason = submission.reason
    row = SubmissionRow(
        id=submission.id,
        skill_name=submission.skill_name,
        repo_url=submission.repo_url,
        state=submission.state,
        reason=reason if reason is None or len(reason) <= REASON_IN_ROW else reason[: REASON_IN_ROW - 1] + "…",
        score=submission.score,
        created_at=submission.created_at,
        updated_at=submission.updated_at,
        version=submission.version,
    )
    # The reason is cut first. The name is shortened only for a reference of hundreds of letters.
    return _fitting(_fitting(row, "reason"), "skill_name")


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _next(submission: Submission, **set_: Any) -> Submission:
    return msgspec.structs.replace(submission, version=submission.version + 1, **set_)


def _fitting(row: SubmissionRow, field: str) -> SubmissionRow:
    """The row with as much of this field as fits. A letter takes up to six bytes, so letters are not counted."""
    over = len(msgspec.json.encode(row)) - LARGEST_ROW
    text = getattr(row, field)
    if over <= 0 or not text:
        return row
    kept, freed = len(text), -len("…".encode())
    while kept and freed < over:
        kept -= 1
        freed += len(msgspec.json.encode(text[kept])) - 2
    return msgspec.structs.replace(row, **{field: text[:kept] + "…"})
