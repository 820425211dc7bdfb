"""The same decision about several submissions that a reviewer ticked: each by itself, with its own outcome."""

from collections.abc import Mapping
from typing import NamedTuple

from shared.access.audit import reason_of
from shared.access.auth import require_role
from shared.errors import ConditionFailed, InvalidRequest, LostLease, RequestError
from shared.moderation.submission_decisions import TIME_TO_ANSWER, requeue
from shared.storage.secret_store import AdminToken
from shared.timing import API_TIMEOUT, seconds_left

MOST_AT_ONCE = 50
NO_TIME = "Not tried: this request ran out of time. Requeue it again."
CHANGED = "It has changed since you viewed it. Review it again, then decide."


class BulkOutcome(NamedTuple):
    submission_id: str
    problem: str | None  # None: it was requeued


async def requeue_chosen(seen: Mapping[str, int | None], by: AdminToken, why: str) -> list[BulkOutcome]:
    """`seen`: the version of each that the reviewer looked at."""
    require_role(by, "reviewer")
    reason_of(why)
    if not 1 <= len(seen) <= MOST_AT_ONCE:
        raise InvalidRequest(f"Select 1 to {MOST_AT_ONCE} submissions.", code="invalid_ids")
    return [BulkOutcome(one, await _problem_with(one, version, by, why)) for one, version in seen.items()]


async def _problem_with(submission_id: str, version: int | None, by: AdminToken, why: str) -> str | None:
    if seconds_left(API_TIMEOUT) < TIME_TO_ANSWER.total_seconds():
        return NO_TIME
    try:
        await requeue(submission_id, by, why, version)
    except RequestError as error:
        return str(error)
    except (LostLease, ConditionFailed):
        return CHANGED
    return None
