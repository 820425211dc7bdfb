"""From an event to a route and back to a response, with errors turned into status codes at one place.

The gateway has matched the route already (`routeKey`), so a function's routes are a dictionary. Answers are JSON
unless their body is bytes; pages and assets are.
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
Explain = Callable[[Problem, Mapping[str, str]], Answer]  # a problem and the visitor's cookies


def http_handler(
    routes: Mapping[str, Route], explain: Explain | None = None
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """`explain` makes the page that tells a person of a problem. Programs, under /api/, get JSON."""

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
        raise ValueError("This function answers HTTP API events only.")


async def answer_event(
    event: dict[str, Any], routes: Mapping[str, Route], explain: Explain | None, time_left: timedelta
) -> dict[str, Any]:
    try:
        _refuse_other_methods(event, routes)
        # Whatever hangs, an answer goes out; a little after store calls end, which may still give half an answer.
        async with asyncio.timeout((time_left + runtime.ANSWER_MARGIN / 2).total_seconds()):
            answer = await routes[event["routeKey"]](request_of(event))
    except Exception as error:  # noqa: BLE001 - the edge: a stranger gets a request id, the log gets the rest
        problem = problem_of(error, event)
        is_for_people = explain is not None and not event["rawPath"].startswith("/api/")
        answer = explain(problem, cookies_of(event)) if explain and is_for_people else json_of(problem)
        answer = answer._replace(headers={**answer.headers, **problem.headers})
    return response_of(answer, event["headers"])


def _refuse_other_methods(event: Mapping[str, Any], routes: Mapping[str, Route]) -> None:
    """To the gateway, GET of an address that takes POST only is an address with a parameter: /things/{id}."""
    path = event["rawPath"]
    methods = sorted(route.partition(" ")[0] for route in routes if route.endswith(f" {path}"))
    if methods and event["routeKey"] != "$default" and event["routeKey"].partition(" ")[2] != path:
        raise wrong_method(event["requestContext"]["http"]["method"], methods)


def wrong_method(method: str, allowed: list[str]) -> errors.WrongMethod:
    return errors.WrongMethod(f"This address takes {' and '.join(allowed)}, not {method[:20]}.", allowed)


def methods_at(path: str, routes: Iterable[str]) -> list[str]:
    """Of the address itself where there is one; else of those with parameters that fit."""
    known = [route.split(" ", 1) for route in routes if " " in route]
    exact = {method for method, address in known if address == path}
    return sorted(exact or {method for method, address in known if is_at(address, path)})


def is_at(address: str, path: str) -> bool:
    """Whether a path is one of this address, which may have parameters."""
    return _pattern(address).fullmatch(path) is not None


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\+?\})", path)
    return re.compile("".join(_of_part(part) for part in parts))


def _of_part(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith("+}") else "[^/]+"
