"""Parameters of programs that others write: unlike in our own API, what is unknown or too large is no error."""

from functions.http.request import Request
from functions.http.routes import no_such_address
from shared.settings import find_whole_number

LONGEST = 200


def text_of(request: Request, name: str) -> str | None:
    return request.query.get(name, "").strip()[:LONGEST] or None


def repository_of(request: Request, repo: str) -> str:
    """owner/repo, if the two can be one: longer ones fit no key."""
    name = f"{request.path['owner']}/{repo}"
    if len(name) > LONGEST or not name.isprintable():
        raise no_such_address()
    return name


def limit_of(request: Request, default: int, most: int) -> int:
    sent = find_whole_number(request.query.get("limit", ""))
    return default if sent is None else min(max(sent, 1), most)
