"""The runs of a submission. A run is one pass from RECEIVED to its end, and what people decide about it afterwards; new
content, a retry and a reopening begin the next one. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from shared.records.submissions import ACTIVE_STATES, Change, HistoryEntry, State


class RunHistory(NamedTuple):
    number: int
    entries: Sequence[HistoryEntry]  # at least one

    @property
    def state(self) -> State:
        return self.entries[-1].to_state

    @property
    def last_seq(self) -> int:
        return self.entries[-1].seq

    @property
    def started_at(self) -> datetime:
        return self.entries[0].timestamp

    @property
    def ended_at(self) -> datetime | None:
        """None: it is still in progress."""
        return None if self.state in ACTIVE_STATES else self.entries[-1].timestamp

    @property
    def attempts(self) -> int:
        return sum(entry.to_state is State.TIER1_SCANNING for entry in self.entries)


def split_runs(history: Sequence[HistoryEntry]) -> list[RunHistory]:
    """The oldest first. Also of what an older release stored: every history shows where a run begins."""
    starts = [n for n, entry in enumerate(history) if _begins_run(entry)]
    ends = [*starts[1:], len(history)]
    return [RunHistory(n, history[start:end]) for n, (start, end) in enumerate(zip(starts, ends, strict=True), 1)]


def ends_run(change: Change) -> bool:
    """Whether the record before this change is the last of a run."""
    before = change.before
    return before is not None and before.state not in ACTIVE_STATES and change.after.state is State.RECEIVED


def _begins_run(entry: HistoryEntry) -> bool:
    """A retry within a run returns to RECEIVED too, but from an active state."""
    return entry.to_state is State.RECEIVED and entry.from_state not in ACTIVE_STATES
