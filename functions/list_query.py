"""Which lists of submissions can be asked for: the same words in the API and on /queue."""

from functions.http import Request
from shared.errors import InvalidRequest
from shared.submission_list import ListQuery
from shared.submissions import CATEGORIES, State

SERVED = (
    "Served are: no filter, sort createdAt (default) or updatedAt; `state` (a state or category), sort updatedAt;"
    " `repoUrl` without sort."
)


def read_list_query(request: Request, limit: int) -> ListQuery:
    states = _states(request.query.get("state"))
    sort = request.one_of("sort", ("createdAt", "updatedAt"), "updatedAt" if states else "createdAt")
    if states and sort == "createdAt":
        raise InvalidRequest(f"A list by state cannot be sorted by createdAt. {SERVED}", code="combination_not_served")
    direction = request.one_of("sortDir", ("asc", "desc"), "desc")
    return ListQuery(states, by_update=sort == "updatedAt", descending=direction == "desc", limit=limit)


def filter_of(query: ListQuery) -> str:
    """What a cursor of this list is bound to."""
    return f"submissions {query.states} {query.by_update} {query.descending}"


def _states(text: str | None) -> tuple[State, ...]:
    if text is None:
        return ()
    if text in CATEGORIES:
        return CATEGORIES[text]
    if text in State.__members__:
        return (State(text),)
    known = ", ".join([*CATEGORIES, *State])
    raise InvalidRequest(f"`state` must be one of {known}.", code="invalid_state")
