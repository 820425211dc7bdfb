"""The supported lists of submissions: the same query parameters in the API and on /queue."""

from functions.http.request import Request
from shared.errors import InvalidRequest
from shared.records.submissions import CATEGORIES, State
from shared.submissions.submission_list import ListQuery

SERVED = (
    "Supported: no filter, sorted by createdAt (default) or updatedAt; `state` (a state or category), sorted by"
    " updatedAt; `q`, alone or with `state`, without sort; `repoUrl` alone."
)


def read_list_query(request: Request, limit: int) -> ListQuery:
    sort = request.one_of("sort", ("createdAt", "updatedAt"), "") if "sort" in request.query else None
    return list_query(request.query.get("state"), sort, request.one_of("sortDir", ("asc", "desc"), "desc"), limit)


def list_query(state: str | None, sort: str | None, direction: str, limit: int) -> ListQuery:
    states = states_of(state)
    if states and sort == "createdAt":
        raise not_served("A list by state cannot be sorted by createdAt.")
    by_update = sort == "updatedAt" or (sort is None and bool(states))
    return ListQuery(states, by_update=by_update, descending=direction == "desc", limit=limit)


def not_served(problem: str) -> InvalidRequest:
    return InvalidRequest(f"{problem} {SERVED}", code="combination_not_served")


def filter_of(query: ListQuery) -> str:
    """A cursor of this list is bound to this text."""
    return f"submissions {query.states} {query.by_update} {query.descending}"


def states_of(text: str | None) -> tuple[State, ...]:
    if text is None:
        return ()
    if text in CATEGORIES:
        return CATEGORIES[text]
    if text in State.__members__:
        return (State(text),)
    known = ", ".join([*CATEGORIES, *State])
    raise InvalidRequest(f"`state` must be one of {known}.", code="invalid_state")
