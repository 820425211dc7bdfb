"""An answer as a route gives it, and the gateway's response made of it: JSON, ETag, compression, errors."""

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from shared import errors, telemetry
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
COMPRESS_FROM = 1024
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_HEADERS = {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "strict-transport-security": "max-age=31536000",  # browsers heed it on https only
}


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


def problem_of(error: Exception, event: Mapping[str, Any]) -> Problem:
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


def json_of(problem: Problem) -> Answer:
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


def response_of(answer: Answer, asked: Mapping[str, str]) -> dict[str, Any]:
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
