"""How the platform speaks to people: states, durations and ages in plain words."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shared.records.submissions import State

S = State


class Look(NamedTuple):
    """A state is always colour and icon and word."""

    label: str
    hue: str
    icon: str


class Next(NamedTuple):
    """What happens now, and who has to act."""

    actor: str
    text: str


LOOKS = {
    S.RECEIVED: Look("Waiting", "active", "clock"),
    S.TIER1_SCANNING: Look("Scanning", "active", "scan"),
    S.TIER2_SCANNING: Look("Judging", "active", "scan"),
    S.AUTO_APPROVED: Look("Publishing", "active", "upload"),
    S.PUBLISHED: Look("Published", "published", "check"),
    S.VENDOR_APPROVED: Look("Published, vendor", "published", "check"),
    S.TIER1_FAILED: Look("Failed scan", "rejected", "cross"),
    S.REJECTED: Look("Rejected", "rejected", "cross"),
    S.DEQUEUED: Look("Taken out", "rejected", "cross"),
    S.BLOCKED: Look("Blocked", "blocked", "lock"),
    S.ON_HOLD: Look("On hold", "onHold", "hold"),
    S.RESCAN_REQUIRED: Look("Needs a new scan", "onHold", "hold"),
}
CATEGORY_LABELS = {
    "total": "Total",
    "active": "Active",
    "published": "Published",
    "rejected": "Rejected",
    "blocked": "Blocked",
    "onHold": "On hold",
}
NEXT = {
    S.RECEIVED: Next("Nobody", "A worker takes it as soon as one is free. You can leave; it keeps its place."),
    S.TIER1_SCANNING: Next("Nobody", "A worker reads the files and checks them against the rules. This takes seconds."),
    S.TIER2_SCANNING: Next("Nobody", "The judge reads the skill as a whole. This takes up to a minute."),
    S.AUTO_APPROVED: Next("Nobody", "It is approved and being published."),
    S.PUBLISHED: Next("Nobody", "It is in the marketplace. Submit it again when you have a new version."),
    S.VENDOR_APPROVED: Next("Nobody", "It is in the marketplace, from an owner this platform trusts."),
    S.TIER1_FAILED: Next("The author", "Remove what the findings name, then submit it again."),
    S.REJECTED: Next("The author", "Fix what the reason names, then submit it again."),
    S.DEQUEUED: Next("An admin", "It was taken out of the queue. Only an admin can put it back."),
    S.BLOCKED: Next("A reviewer", "Nothing is published until a reviewer has looked at it."),
    S.ON_HOLD: Next("A reviewer", "A reviewer looks at it and approves, rejects or queues it again."),
    S.RESCAN_REQUIRED: Next("A reviewer", "The content changed after the scan, so it must be scanned again."),
}
VERDICTS = {"published": "Published", "rejected": "Rejected", "blocked": "Blocked", "onHold": "Held"}
ACTORS = {"system": "the platform", "worker": "a worker", "recovery": "the stuck scan"}
CAPABILITIES = {
    "shell": "Runs shell commands",
    "network": "Talks to the network",
    "files": "Writes files",
    "credentials": "Reads credentials",
    "persistence": "Stays after it has run",
    "agent memory": "Changes what the agent remembers",
}
EXTERNAL = {  # verdicts and states of scanners elsewhere
    "PASS": "nothing to report",
    "CONCERNS": "concerns",
    "FAIL": "harmful",
    "PENDING": "asked, not started",
    "RUNNING": "looking at it now",
    "COMPLETED": "done",
    "FAILED": "could not look",
    "TIMED_OUT": "did not answer",
}
REPORT_TYPES = {
    "malicious": "It does harm",
    "misleading": "It is not what it says",
    "broken": "It does not work",
    "spam": "It is spam",
    "license": "It is somebody else's work",
    "other": "Something else",
}
REPO_HEALTH = {"ONLINE": "Reachable", "OFFLINE": "Not there any more", "STALE": "Reachable, no commit for a year"}
UNKNOWN = "—"


def look_of(state: State) -> Look:
    return LOOKS[state]


def counter_name(name: str) -> str:
    """A state, or what else is counted: skills, versions."""
    return LOOKS[State(name)].label if name in State.__members__ else name.capitalize()


def actor_name(actor: str) -> str:
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
    for size, unit, small, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def age(span: timedelta) -> str:
    """One unit is enough for an age; ages tick, so they must not flicker."""
    seconds = int(max(0.0, span.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def ago(then: datetime, now: datetime) -> str:
    return "just now" if now - then < timedelta(seconds=5) else f"{age(now - then)} ago"


def exact(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%H:%M")


def number(value: int | None) -> str:
    """Thousands apart; unknown is never 0."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def size(count: int) -> str:
    return (
        f"{count} B" if count < 1024 else f"{count / 1024:.1f} KB" if count < 1024**2 else f"{count / 1024**2:.1f} MB"
    )


def counted(n: int, one: str, many: str | None = None) -> str:
    return f"{number(n)} {one if n == 1 else many or one + 's'}"
