"""Previous and Next of a list. Cursors lead forward only, so those of the pages before are kept in the address."""

from functions.html.responses import url_with
from functions.http.request import Request
from shared.settings import find_whole_number

PARAMETERS = ("cursor", "back", "from")
PAGES_KEPT = 20  # from a later page than these, Previous leads to the first one


def first_row(request: Request) -> int:
    """The number of the first row of this page."""
    return find_whole_number(request.query.get("from")) or 1 if request.query.get("cursor") else 1


def next_url(request: Request, cursor: str | None, rows: int) -> str | None:
    if cursor is None:
        return None
    current = request.query.get("cursor")
    before = [*_pages_before(request), current] if current else []
    start = str(first_row(request) + rows)
    return url_with(request, cursor=cursor, back=",".join(before[-PAGES_KEPT:]), **{"from": start})


def previous_url(request: Request, rows: int) -> str | None:
    """`rows`: of a full page."""
    if not request.query.get("cursor"):
        return None
    before = _pages_before(request)
    start = str(max(1, first_row(request) - rows)) if before else None
    return url_with(request, cursor=before[-1] if before else None, back=",".join(before[:-1]), **{"from": start})


def _pages_before(request: Request) -> list[str]:
    return [cursor for cursor in request.query.get("back", "").split(",") if cursor]
