"""HTTP for the functions behind the gateway: a request in, an answer out, errors to status codes in one table.

The gateway has matched the route already (`routeKey`), so a function's routes are a dictionary. Answers are JSON
unless their body is bytes; pages and assets are.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
import orjson

from shared import errors, runtime, telemetry
from shared.telemetry import logger

STATUS = {
    errors.InvalidRequest: 400,
    errors.Unauthorized: 401,
    errors.BadSignature: 401,
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
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_HEADERS = {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "strict-transport-security": "max-age=31536000",  # browsers heed it on https only
}

T = TypeVar("T")


class Request(NamedTuple):
    query: Mapping[str, str]
    path: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    cookies: Mapping[str, str] = {}
    url_path: str = ""
    source_ip: str = ""
    method: str = ""

    @property
    def is_https(self) -> bool:
        return self.headers.get("x-forwarded-proto") == "https"

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def form(self) -> dict[str, str]:
        """The fields of a form without files. Each may be there once."""
        if self.media_type != "application/x-www-form-urlencoded":
            raise errors.WrongMediaType("Send this form as `application/x-www-form-urlencoded`.")
        try:
            pairs = parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=200, errors="strict")
        except ValueError as error:
            raise errors.InvalidRequest("The form cannot be read.", code="invalid_body") from error
        if len(dict(pairs)) != len(pairs):
            raise errors.InvalidRequest("Each field of the form may be given once.", code="invalid_body")
        return dict(pairs)

    def json(self, type_: type[T]) -> T:
        if self.media_type != "application/json":
            raise errors.WrongMediaType("Send JSON, with the header `Content-Type: application/json`.")
        return fit(_strict_json(self.body), type_)

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
    body: Any  # bytes go out as they are, under a content-type of their own; everything else as JSON
    status: int = 200
    headers: Mapping[str, str] = {}
    cookies: tuple[str, ...] = ()
    cache: str = ""  # how long others may keep it; it then has an ETag, and whoever has it already gets a 304


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    code: Annotated[str, msgspec.Meta(description="Stable: decide by this, not by the message.")]
    message: str
    details: dict[str, Any] | None = None
    request_id: Annotated[str, msgspec.Meta(description="Quote it when you ask about this.")]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """What every refusal and failure looks like. `message` is there twice, for older clients."""

    error: ErrorBody
    message: str


class Problem(NamedTuple):
    """What went wrong, in words for whoever asked."""

    status: int
    code: str
    message: str
    request_id: str
    details: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}


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
            return runtime.run(lambda: _answer(event, routes, explain, time_left), time_left)
        finally:
            telemetry.flush()

    return handler


def _refuse_other_events(event: Mapping[str, Any]) -> None:
    if event.get("version") != "2.0" or "routeKey" not in event:
        raise ValueError("This function answers HTTP API events only.")


async def _answer(
    event: dict[str, Any], routes: Mapping[str, Route], explain: Explain | None, time_left: timedelta
) -> dict[str, Any]:
    try:
        _refuse_other_methods(event, routes)
        # Whatever hangs, an answer goes out; a little after store calls end, which may still give half an answer.
        async with asyncio.timeout((time_left + runtime.ANSWER_MARGIN / 2).total_seconds()):
            answer = await routes[event["routeKey"]](_request(event))
    except Exception as error:  # noqa: BLE001 - the edge: a stranger gets a request id, the log gets the rest
        problem = _problem_of(error, event)
        is_for_people = explain is not None and not event["rawPath"].startswith("/api/")
        answer = explain(problem, cookies_of(event)) if explain and is_for_people else _json_of(problem)
        answer = answer._replace(headers={**answer.headers, **problem.headers})
    return _response(answer, event["headers"])


def _refuse_other_methods(event: Mapping[str, Any], routes: Mapping[str, Route]) -> None:
    """To the gateway, GET of an address that takes POST only is an address with a parameter: /things/{id}."""
    path = event["rawPath"]
    methods = sorted(route.partition(" ")[0] for route in routes if route.endswith(f" {path}"))
    if methods and event["routeKey"] != "$default" and event["routeKey"].partition(" ")[2] != path:
        raise wrong_method(event["requestContext"]["http"]["method"], methods)


def wrong_method(method: str, allowed: list[str]) -> errors.WrongMethod:
    return errors.WrongMethod(f"This address takes {' and '.join(allowed)}, not {method[:20]}.", allowed)


def cookies_of(event: Mapping[str, Any]) -> dict[str, str]:
    pairs = (cookie.partition("=") for cookie in event.get("cookies", ()))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _request(event: dict[str, Any]) -> Request:
    pairs = parse_qsl(event.get("rawQueryString", ""), keep_blank_values=True)
    query = dict(pairs)
    if len(query) != len(pairs):
        raise errors.InvalidRequest("Each query parameter may be given once.", code="repeated_parameter")
    body = event.get("body") or ""
    raw = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(errors="surrogatepass")
    if len(raw) > MAX_BODY:
        raise errors.TooLarge("The request is larger than 6 MB.")
    path = event.get("pathParameters") or {}
    # The gateway alone knows who asks: a header that says so is anybody's word.
    http = event["requestContext"]["http"]
    return Request(
        query,
        path,
        event["headers"],
        raw,
        cookies_of(event),
        event.get("rawPath", ""),
        http["sourceIp"],
        http["method"],
    )


def fit(sent: Any, type_: type[T]) -> T:
    try:
        return msgspec.convert(sent, type_)
    except msgspec.ValidationError as error:
        raise errors.InvalidRequest(f"The body does not fit: {error}.", code="invalid_body") from error


def _strict_json(raw: bytes) -> Any:
    """JSON that every parser reads the same way: no NaN, lone surrogates, repeated keys or bottomless nesting."""
    try:
        orjson.loads(raw)
        return json.loads(raw, object_pairs_hook=_once_each, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidRequest(f"The body is not usable JSON: {error}.", code="invalid_json") from error


def _number(text: str) -> int | float:
    """5.0 is a whole number to JSON Schema, and so to whoever reads the contract."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _problem_of(error: Exception, event: Mapping[str, Any]) -> Problem:
    request_id = event["requestContext"]["requestId"]
    if isinstance(error, errors.RequestError):
        return _refusal(error, request_id)
    if isinstance(error, errors.Unavailable | TimeoutError):
        return _unavailable(error, request_id)
    if isinstance(error, errors.LostLease | errors.ConditionFailed):
        message = "Somebody else changed this at the same moment. Look at it again, then decide."
        return Problem(409, "changed_meanwhile", message, request_id)
    logger.error("request failed", exc_info=error, extra={"route": event["routeKey"], "request": request_id})
    return Problem(500, "internal_error", "Something went wrong here. It has been logged.", request_id)


def _refusal(error: errors.RequestError, request_id: str) -> Problem:
    problem = Problem(STATUS[type(error)], error.code, str(error), request_id, error.details)
    if isinstance(error, errors.TooManyRequests):
        return problem._replace(headers={**error.headers, "retry-after": str(error.retry_after)})
    if isinstance(error, errors.Unauthorized):
        return problem._replace(headers={"www-authenticate": error.scheme})
    if isinstance(error, errors.WrongMethod):
        return problem._replace(headers={"allow": ", ".join(error.allowed)})
    return problem


def _unavailable(error: Exception, request_id: str) -> Problem:
    logger.error("dependency unavailable", exc_info=error, extra={"request": request_id})
    telemetry.count("Unavailable")
    message = "We cannot answer at the moment. Nothing is lost; please try again in a few seconds."
    headers = {"retry-after": str(errors.Unavailable.retry_after)}
    return Problem(503, errors.Unavailable.code, message, request_id, headers=headers)


def _json_of(problem: Problem) -> Answer:
    message = problem.message if problem.status == 429 else _never_about_limits(problem.message)
    details = dict(problem.details) if problem.details else None
    error = ErrorBody(code=problem.code, message=message, details=details, request_id=problem.request_id)
    body = msgspec.json.encode(ErrorAnswer(error, message))
    return Answer(body if problem.status == 429 else _JSON_STRING.sub(_escape_limits, body), problem.status)


def _never_about_limits(message: str) -> str:
    """A client takes the letters of "rate" for a limit that it ran into, and a message may repeat what was sent."""
    return re.sub(r"(?i)r(?=ate)", lambda r: f"{r[0]}*", message)


def _escape_limits(text: re.Match[bytes]) -> bytes:
    """The client looks for "rate" and "429" in the whole body, names and request ids too. Escaped, they read the same
    to whoever parses the JSON."""
    return text[0].replace(b"rate", rb"r\u0061te").replace(b"429", rb"42\u0039")


def _response(answer: Answer, asked: Mapping[str, str]) -> dict[str, Any]:
    body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
    headers = {**_HEADERS, **answer.headers}
    response: dict[str, Any] = {"statusCode": answer.status, "headers": headers, "cookies": list(answer.cookies)}
    if answer.cache and _may_be_kept(answer):
        etag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers |= {"cache-control": answer.cache, "etag": etag}
        if _has_already(asked.get("if-none-match", ""), etag):
            return response | {"statusCode": 304, "body": "", "isBase64Encoded": False}
    if len(body) < COMPRESS_FROM or "gzip" not in asked.get("accept-encoding", ""):
        return response | {"body": body.decode(), "isBase64Encoded": False}
    headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    packed = base64.b64encode(gzip.compress(body, compresslevel=5, mtime=0)).decode()
    return response | {"body": packed, "isBase64Encoded": True}


def _may_be_kept(answer: Answer) -> bool:
    """Never an error, and never an answer that says that something is missing from it."""
    return answer.status == 200 and not getattr(answer.body, "degraded", False)


def _has_already(if_none_match: str, etag: str) -> bool:
    """Compared weakly: compressed or not, it is the same answer."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in known or etag.removeprefix("W/") in known
