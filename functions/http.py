"""HTTP for the functions behind the gateway: a request in, an answer out, errors to status codes in one table.

The gateway has matched the route already (`routeKey`), so a function's routes are a dictionary.
"""

import asyncio
import base64
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
import orjson

from shared import errors, runtime, telemetry
from shared.telemetry import logger

STATUS = {
    errors.InvalidRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.WrongMethod: 405,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.WrongMediaType: 415,
    errors.Unprocessable: 422,
    errors.TooManyRequests: 429,
    errors.BadGateway: 502,
}
MAX_BODY = 6 * 1024 * 1024 - 64 * 1024  # Lambda takes 6 MB, with the event around it
COMPRESS_FROM = 1024
_HEADERS = {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}

T = TypeVar("T")


class Request(NamedTuple):
    query: Mapping[str, str]
    path: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self, type_: type[T]) -> T:
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise errors.WrongMediaType("Send JSON, with the header `Content-Type: application/json`.")
        try:
            return msgspec.convert(_strict_json(self.body), type_)
        except msgspec.ValidationError as error:
            raise errors.InvalidRequest(f"The body does not fit: {error}.", code="invalid_body") from error

    def allow_query(self, *names: str) -> None:
        """Nothing is ever ignored in silence."""
        unknown = sorted(set(self.query) - set(names))
        if unknown:
            known = f"It takes {', '.join(names)}." if names else "It takes none."
            raise errors.InvalidRequest(
                f"Unknown query parameter {unknown[0][:40]!r}. {known}", code="unknown_parameter"
            )

    def whole_number(self, name: str, default: int, lowest: int, highest: int) -> int:
        text = self.query.get(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) <= 9 and lowest <= int(text) <= highest:
            return int(text)
        raise errors.InvalidRequest(
            f"`{name}` must be a whole number from {lowest} to {highest}.", code=f"invalid_{name}"
        )

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.query.get(name, default)
        if value not in allowed:
            raise errors.InvalidRequest(f"`{name}` must be one of {', '.join(allowed)}.", code=f"invalid_{name}")
        return value


class Answer(NamedTuple):
    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


Route = Callable[[Request], Awaitable[Answer]]


def http_handler(routes: Mapping[str, Route]) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        if event.get("version") != "2.0" or "routeKey" not in event:
            raise ValueError("This function answers HTTP API events only.")
        time_left = runtime.time_left(context)
        try:
            return runtime.run(lambda: _answer(event, routes, time_left), time_left)
        finally:
            telemetry.flush()

    return handler


async def _answer(event: dict[str, Any], routes: Mapping[str, Route], time_left: timedelta) -> dict[str, Any]:
    request_id = event["requestContext"]["requestId"]
    try:
        # Whatever hangs, an answer goes out; a little after store calls end, which may still give half an answer.
        async with asyncio.timeout((time_left + runtime.ANSWER_MARGIN / 2).total_seconds()):
            answer = await routes[event["routeKey"]](_request(event))
    except errors.RequestError as error:
        answer = _refusal(error, request_id)
    except (errors.Unavailable, TimeoutError) as error:
        answer = _unavailable(error, request_id)
    except (errors.LostLease, errors.ConditionFailed):
        message = "Somebody else changed this at the same moment. Look at it again, then decide."
        answer = _error_answer(409, "changed_meanwhile", message, request_id)
    except Exception:  # noqa: BLE001 - the edge: a stranger gets a request id, the log gets the rest
        logger.exception("request failed", extra={"route": event["routeKey"], "request": request_id})
        answer = _error_answer(500, "internal_error", "Something went wrong here. It has been logged.", request_id)
    return _response(answer, event["headers"].get("accept-encoding", ""))


def _request(event: dict[str, Any]) -> Request:
    pairs = parse_qsl(event.get("rawQueryString", ""), keep_blank_values=True)
    query = dict(pairs)
    if len(query) != len(pairs):
        raise errors.InvalidRequest("Each query parameter may be given once.", code="repeated_parameter")
    body = event.get("body") or ""
    raw = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(errors="surrogatepass")
    if len(raw) > MAX_BODY:
        raise errors.TooLarge("The request is larger than 6 MB.")
    return Request(query, event.get("pathParameters") or {}, event["headers"], raw)


def _strict_json(raw: bytes) -> Any:
    """JSON that every parser reads the same way: no NaN, lone surrogates, repeated keys or bottomless nesting."""
    try:
        orjson.loads(raw)
        return json.loads(raw, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidRequest(f"The body is not usable JSON: {error}.", code="invalid_json") from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refusal(error: errors.RequestError, request_id: str) -> Answer:
    answer = _error_answer(STATUS[type(error)], error.code, str(error), request_id, error.details)
    if isinstance(error, errors.TooManyRequests):
        return answer._replace(headers={"retry-after": str(error.retry_after)})
    if isinstance(error, errors.Unauthorized):
        return answer._replace(headers={"www-authenticate": "Bearer"})
    return answer


def _unavailable(error: Exception, request_id: str) -> Answer:
    logger.error("dependency unavailable", exc_info=error, extra={"request": request_id})
    telemetry.count("Unavailable")
    message = "We cannot answer at the moment. Nothing is lost; please try again in a few seconds."
    answer = _error_answer(503, errors.Unavailable.code, message, request_id)
    return answer._replace(headers={"retry-after": str(errors.Unavailable.retry_after)})


def _error_answer(
    status: int, code: str, message: str, request_id: str, details: Mapping[str, Any] | None = None
) -> Answer:
    if status != 429:
        message = _never_about_limits(message)
    error: dict[str, Any] = {"code": code, "message": message, "requestId": request_id}
    if details:
        error["details"] = details
    return Answer({"error": error, "message": message}, status)


def _never_about_limits(message: str) -> str:
    """A client takes the letters of "rate" for a limit that it ran into, and a message may repeat what was sent."""
    return re.sub(r"(?i)r(?=ate)", lambda r: f"{r[0]}*", message)


def _response(answer: Answer, accepted_encodings: str) -> dict[str, Any]:
    body = msgspec.json.encode(answer.body)
    headers = {**_HEADERS, **answer.headers}
    if len(body) < COMPRESS_FROM or "gzip" not in accepted_encodings:
        return {"statusCode": answer.status, "headers": headers, "body": body.decode(), "isBase64Encoded": False}
    packed = base64.b64encode(gzip.compress(body, compresslevel=5, mtime=0)).decode()
    headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    return {"statusCode": answer.status, "headers": headers, "body": packed, "isBase64Encoded": True}
