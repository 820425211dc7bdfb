"""The vocabulary of the pages, in one place: states, categories, verdicts, durations and ages."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shared.records.submissions import State
from shared.scanner.front_matter import NO_FIELDS, NOT_YAML

S = State


class Look(NamedTuple):
    """A state is always colour and icon and word."""

    label: str
    hue: str
    icon: str


class Next(NamedTuple):
    """What happens next, and who has to act."""

    action: str
    text: str


CATEGORY_LABELS = {
    "total": "Total",
    "active": "Active",
    "published": "Published",
    "rejected": "Rejected",
    "blocked": "Blocked",
    "onHold": "On hold",
}
LOOKS = {
    S.RECEIVED: Look("Queued", "active", "clock"),
    S.TIER1_SCANNING: Look("Scanning", "active", "scan"),
    S.TIER2_SCANNING: Look("Judging", "active", "scan"),
    S.AUTO_APPROVED: Look("Publishing", "active", "upload"),
    S.PUBLISHED: Look("Published", "published", "check"),
    S.VENDOR_APPROVED: Look("Published (vendor)", "published", "check"),
    S.TIER1_FAILED: Look("Rejected", "rejected", "cross"),
    S.REJECTED: Look("Rejected", "rejected", "cross"),
    S.DEQUEUED: Look("Removed", "rejected", "cross"),
    S.BLOCKED: Look("Blocked", "blocked", "lock"),
    S.ON_HOLD: Look("On hold", "onHold", "hold"),
    S.RESCAN_REQUIRED: Look("Rescan required", "onHold", "hold"),
}
APART = {S.TIER1_FAILED: "Rejected by the scan", S.REJECTED: "Rejected, other reason"}
STATE_LABELS = {state: look.label for state, look in LOOKS.items()}
NO_ACTION, AUTHOR, REVIEWER, ADMIN = (
    "No action needed.", "Waiting for the author.", "Waiting for a reviewer.", "Waiting for an admin.",
)  # fmt: skip
NEXT = {
    S.RECEIVED: Next(NO_ACTION, "A worker picks it up as soon as one is free. You can close this page."),
    S.TIER1_SCANNING: Next(NO_ACTION, "Its files are being checked against the rules. This takes a few seconds."),
    S.TIER2_SCANNING: Next(NO_ACTION, "The LLM judge is reviewing the whole skill. This takes up to a minute."),
    S.AUTO_APPROVED: Next(NO_ACTION, "Approved and being published."),
    S.PUBLISHED: Next(NO_ACTION, "Available in the marketplace. Submit again to publish a new version."),
    S.VENDOR_APPROVED: Next(NO_ACTION, "Available in the marketplace, from a trusted vendor."),
    S.TIER1_FAILED: Next(AUTHOR, "Fix the findings below, then submit again."),
    S.REJECTED: Next(AUTHOR, "Fix the problem above, then submit again."),
    S.DEQUEUED: Next(
        ADMIN, "Removed from the queue. An admin can requeue it. If its owner cancelled it, the owner can too."
    ),
    S.BLOCKED: Next(REVIEWER, "Nothing is published until a reviewer has decided."),
    S.ON_HOLD: Next(REVIEWER, "A reviewer will approve, reject or requeue it."),
    S.RESCAN_REQUIRED: Next(REVIEWER, "The content changed after the scan and must be scanned again."),
}
CANCELLED_UPLOAD = Next(AUTHOR, "Upload it again with its upload token to reopen it.")
CANCELLED = Next(AUTHOR, "Cancelled by its owner, who can reopen it.")
SUBMISSION_FLAGS = {
    "accepted": "Submitted",
    "duplicate": "Already submitted",
    "requeued": "Requeued with the new content",
    "alreadyVerified": "Already published with the same content",
    "blocked": "Blocked",
}
SENT_AGAIN = {  # what it means that a submission was there before, by the flag of the response
    "duplicate": "This content was submitted before: this is that submission, and nothing was queued again. Change a "
    "file and submit it once more to have it verified.",
    "requeued": "It was submitted before and is verified again. This page follows it.",
    "alreadyVerified": "Exactly this content is published already, so there is nothing new to verify. Change a file "
    "and submit it once more to publish a new version.",
    "blocked": "This skill is blocked, so your submission was not queued. The reason is below.",
}
SCANS = {  # verdicts of the scanner, the judge and third parties, and the states of a third-party scan
    "PASS": "Passed",
    "CONCERNS": "Concerns",
    "FAIL": "Rejected",
    "PENDING": "Queued",
    "RUNNING": "Scanning",
    "COMPLETED": "Completed",
    "FAILED": "Scan error",
    "TIMED_OUT": "Timed out",
}
ACTORS = {"system": "platform", "recovery": "stuck scan"}
CAPABILITIES = {
    "shell": "Runs shell commands",
    "network": "Accesses the network",
    "files": "Writes files",
    "credentials": "Reads credentials",
    "persistence": "Persists after it has run",
    "agent memory": "Modifies the agent's memory",
}
REPORT_TYPES = {
    "malicious": "Malicious",
    "misleading": "Misleading description",
    "broken": "Does not work",
    "spam": "Spam",
    "license": "License or copyright violation",
    "other": "Other",
}
EVENT_LABELS = {
    "submission.published": "Published",
    "submission.rejected": "Rejected",
    "submission.blocked": "Blocked",
    "submission.held": "On hold",
    "skill.changed_hands": "Changed hands",
    "skill.withdrawn": "Withdrawn",
    "skill.restored": "Restored",
    "skill.blocked": "Blocked",
    "skill.deleted": "Deleted",
    "skill.deprecated": "Deprecated",
    "skill.undeprecated": "No longer deprecated",
    "skill.transferred": "Transferred",
    "version.withdrawn": "Version withdrawn",
    "version.restored": "Version restored",
    "appeal.opened": "Appeal opened",
    "appeal.answered": "Appeal answered",
}
REPO_HEALTH = {"ONLINE": "Online", "OFFLINE": "Unavailable", "STALE": "Online, no commits for a year"}
UNKNOWN = "—"
_DAY = 86400
_AGES = (
    (365.25 * _DAY, "year"), (365.25 / 12 * _DAY, "month"), (_DAY, "day"), (3600, "h"), (60, "min"), (1, "s"),
)  # fmt: skip


def next_of(state: State, last_actor: str, is_appealable: bool) -> Next:
    if state is S.DEQUEUED and last_actor.startswith("owner:"):
        return CANCELLED
    appeal = " If this is wrong, its owner can appeal." if is_appealable else ""
    return NEXT[state]._replace(text=NEXT[state].text + appeal)


def filter_label(state: State) -> str:
    """In a list of states, where two must not share a label."""
    return APART.get(state, LOOKS[state].label)


def look_of(state: State) -> Look:
    return LOOKS[state]


def scan_label(verdict: str | None) -> str:
    return SCANS.get(verdict or "", verdict or "Not recorded")


def counter_name(name: str) -> str:
    """Of a state, or of what else is counted (skills, versions). Several states share a label, so a state is named."""
    return f"{STATE_LABELS[State(name)]} ({name})" if name in State.__members__ else name.capitalize()


def actor_name(actor: str) -> str:
    if actor.startswith("owner:"):
        return f"{actor.removeprefix('owner:')} (owner)"
    name = actor.removeprefix("admin:")
    return f"{name} (admin)" if name != actor else ACTORS.get(actor, actor)


def duration(span: timedelta) -> str:
    """1.4 s, 2 min 10 s, 3 h 5 min, 4 d 2 h."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 0.95:
        return f"{round(seconds * 1000)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small, small_unit in ((_DAY, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def age(span: timedelta) -> str:
    """One unit: 40 s, 5 min, 3 h, 12 days, 10 months, 2 years. The `age` of page.js ticks on from it."""
    seconds = max(0.0, span.total_seconds())
    size, unit = next(((size, unit) for size, unit in _AGES if seconds >= size), _AGES[-1])
    return counted(int(seconds // size), unit, unit if size < _DAY else None)


def ago(then: datetime, now: datetime) -> str:
    return "just now" if now - then < timedelta(seconds=5) else f"{age(now - then)} ago"


def exact(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%H:%M")


def number(value: int | None) -> str:
    """Thousands apart; unknown is never 0."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def file_size(size: int) -> str:
    """310 B, 4.2 KB, 1.5 MB."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} KB" if size < 999_950 else f"{size / 1_000_000:.1f} MB"


BROKEN_YAML = (
    "The front matter of SKILL.md is not valid YAML. It was read line by line here; clients that read it as YAML do not"
    " list this skill. Often a value with a colon or a bracket needs quotes."
)


def yaml_problem(warnings: Iterable[str]) -> str:
    """A sentence for its author, if clients cannot read the front matter at all."""
    return BROKEN_YAML if {NOT_YAML, NO_FIELDS} & {*warnings} else ""


def counted(n: int, one: str, many: str | None = None) -> str:
    return f"{number(n)} {one if n == 1 else many or one + 's'}"
