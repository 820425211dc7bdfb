"""What changed, in the order it changed, for pages that stay open.

A position in the feed is a feed key, `updatedAt#id#version`, or a bare time. Every response starts ten seconds before
the position it continues, because a transaction may become visible a little after the time it carries: a reader that
drops repeats by (id, version) misses nothing.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shared.errors import InvalidRequest
from shared.records.submissions import SubmissionRow
from shared.storage.documents import stamp
from shared.submissions.feed_store import feed_position, get_feed
from shared.timing import FEED_TTL

OVERLAP = timedelta(seconds=10)  # longer than any transaction is retried with one time
LONGEST_WINDOW = timedelta(minutes=5)
MAX_EVENTS = 500
POSITION_PATTERN = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)(?:#sub_[a-z0-9]{26}#[0-9]{1,9})?"
)
_POSITION = re.compile(POSITION_PATTERN)


class FeedEvent(NamedTuple):
    position: str
    row: SubmissionRow


class FeedPage(NamedTuple):
    events: list[FeedEvent]
    last_id: str  # where the next response continues
    is_reset: bool = False  # the position is older than the feed: load the list again
    has_more: bool = False  # the response is full: request the next at once


async def get_events(since: str | None, at: datetime) -> FeedPage:
    """Everything after `since` and what its last ten seconds repeat: at most five minutes, or 500 new events."""
    if since is None:
        return FeedPage([], stamp(at))
    position, time = _read_position(since)
    if time < at - FEED_TTL:
        return FeedPage([], stamp(at), is_reset=True)
    end = min(at, time + LONGEST_WINDOW)
    events = [FeedEvent(feed_position(row), row) for row in await get_feed(time - OVERLAP, end)]
    repeated = [event for event in events if event.position <= position]
    new = [event for event in events if event.position > position]
    is_cut = len(new) > MAX_EVENTS
    last_id = new[MAX_EVENTS - 1].position if is_cut else max(stamp(end), position)
    return FeedPage([*_newest_of_each(repeated), *new[:MAX_EVENTS]], last_id, has_more=is_cut or end < at)


def _read_position(text: str) -> tuple[str, datetime]:
    match = _POSITION.fullmatch(text)
    try:
        if match is None:
            raise ValueError("not a position")  # noqa: TRY301 - one error for both
        time = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidRequest(
            "`since` is the `lastEventId` of the previous response; omit it to start from now.", code="invalid_since"
        ) from None
    return text, time


def _newest_of_each(events: list[FeedEvent]) -> list[FeedEvent]:
    """Of a repeat only the newest state matters: a later version of a record includes the earlier ones."""
    by_id = {event.row.id: event for event in events}
    return sorted(by_id.values(), key=lambda event: event.position)
