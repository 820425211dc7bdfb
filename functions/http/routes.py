"""From an event to its route and back to a response. Errors become status codes here and nowhere else.

The gateway has already matched the route (`routeKey`), so the routes of a function are a dictionary. Bodies are JSON,
except those of pages and assets, which are bytes.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from functions.http.answer import Answer, Problem, json_of, problem_of, response_of
from functions.http.request import Request, cookies_of, request_of
from shared import errors, runtime, telemetry

Route = Callable[[Request], Awaitable[Answer]]
Explain = Callable[[Problem, Mapping[str, str]], Answer]  # a problem and the client's cookies


def http_handler(
    routes: Mapping[str, Route], explain: Explain | None = None
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """`explain` renders an error as a page. Under /api/ errors are JSON."""

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        _refuse_other_events(event)
        time_left = runtime.time_left(context)
        try:
            return runtime.run(lambda: answer_event(event, routes, explain, time_left), time_left)
        finally:
            telemetry.flush()

    return handler


def _refuse_other_events(event: Mapping[str, Any]) -> None:
    if event.get("version") != "2.0" or "routeKey" not in event:
        raise ValueError("This function handles HTTP API events only.")


async def answer_event(
    event: dict[str, Any], routes: Mapping[str, Route], explain: Explain | None, time_left: timedelta
) -> dict[str, Any]:
    try:
        _refuse_other_methods(event, routes)
        # A response is sent whatever hangs: shortly after store calls time out, which may leave a partial result.
        async with asyncio.timeout((time_left + runtime.ANSWER_MARGIN / 2).total_seconds()):
            answer = await routes[event["routeKey"]](request_of(event))
    except Exception as error:  # noqa: BLE001 - the edge: the client gets a request id, the log gets the rest
        problem = problem_of(error, event)
        is_api = event["rawPath"].startswith("/api/")
        answer = explain(problem, cookies_of(event)) if explain and not is_api else json_of(problem)
        answer = answer._replace(headers={**answer.headers, **problem.headers})
    response = response_of(answer, event["headers"])
    is_head = event["requestContext"]["http"]["method"] == "HEAD" and answer.status < 400
    return response | {"body": "", "isBase64Encoded": False} if is_head else response


def _refuse_other_methods(event: Mapping[str, Any], routes: Mapping[str, Route]) -> None:
    """The gateway matches GET /things/new, where only POST exists, to GET /things/{id}."""
    path = event["rawPath"]
    methods = sorted(route.partition(" ")[0] for route in routes if route.endswith(f" {path}"))
    if methods and event["routeKey"] != "$default" and event["routeKey"].partition(" ")[2] != path:
        raise wrong_method(event["requestContext"]["http"]["method"], methods)


def no_such_address() -> errors.NotFound:
    return errors.NotFound("There is nothing at this address.")


def wrong_method(method: str, allowed: list[str]) -> errors.WrongMethod:
    return errors.WrongMethod(f"This address supports {' and '.join(allowed)}, not {method[:20]}.", allowed)


def methods_at(path: str, routes: Iterable[str]) -> list[str]:
    """Of the route with exactly this path if there is one, else of the routes whose parameters match it."""
    known = [route.split(" ", 1) for route in routes if " " in route]
    exact = {method for method, address in known if address == path}
    return sorted(exact or {method for method, address in known if is_at(address, path)})


def is_at(address: str, path: str) -> bool:
    return _pattern(address).fullmatch(path) is not None


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\+?\})", path)
    return re.compile("".join(_of_part(part) for part in parts))


def _of_part(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith("+}") else "[^/]+"
