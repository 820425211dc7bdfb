"""Forms of signed-in pages: an action, then a redirect; or the same page again with the error and what was typed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from functions.html.responses import see_other
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.errors import ConditionFailed, LostLease, RequestError
from shared.web.form_words import in_form_words


class Flash(NamedTuple):
    """The result of an action, shown above the panels."""

    done: str | None = None
    problem: str | None = None
    typed: Mapping[str, str] = {}
    status: int = 200
    secret: str | None = None  # shown once
    webhook_secret: str | None = None  # shown once
    problems: Mapping[str, str] = {}  # by field, shown below it


S = TypeVar("S")


async def run_action(
    request: Request,
    session: S,
    path: str,
    show: Callable[[Request, S, Flash], Awaitable[Answer]],
    action: Callable[[S, dict[str, str]], Awaitable[str]],
) -> Answer:
    """`action` returns a key of the page's messages."""
    form = request.form()
    try:
        done = await action(session, form)
    except RequestError as error:
        flash = Flash(problem=in_form_words(error), typed=form, status=STATUS[type(error)])
        return await show(request, session, flash)
    except (LostLease, ConditionFailed):
        changed = Flash(problem="It was changed by someone else at the same time. Look at it again.", typed=form)
        return await show(request, session, changed._replace(status=409))
    return see_other(f"{path}{'&' if '?' in path else '?'}done={done}")
