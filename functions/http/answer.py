"""What a route returns, and the gateway response made from it: JSON, ETag, compression, errors."""

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
    errors.ShareUsedUp: 429,
    errors.BadGateway: 502,
    errors.DamagedArtifact: 502,
}
COMPRESS_FROM = 1024
# Sent as they are: archives are compressed, and the bytes of files may be anything.
OPAQUE = ("application/gzip", "application/zip", "application/octet-stream", "text/plain", "image/x-icon")
AT_EDGE = "public, max-age=0, s-maxage=2"  # lists and counts: a cache for many callers asks every two seconds
REVALIDATE = "public, no-cache"  # caches must revalidate, so that a blocked skill disappears at once
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_READS_LIKE_A_LIMIT = re.compile(rb"(?i)(?<=r)a(?=te)|(?<=42)9")
_HEADERS = {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "strict-transport-security": "max-age=31536000",  # browsers ignore it on plain http
}


class Answer(NamedTuple):
    body: Any  # bytes are sent unchanged, with a content-type of their own; everything else as JSON
    status: int = 200
    headers: Mapping[str, str] = {}
    cookies: tuple[str, ...] = ()
    cache: str = ""  # the Cache-Control; if set, the response has an ETag and If-None-Match is honoured
    etag: str = ""  # where the body has a name of its own; else it is made of the body


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    code: Annotated[str, msgspec.Meta(description="Stable: branch on this, not on the message.")]
    message: str
    details: dict[str, Any] | None = None
    request_id: Annotated[str, msgspec.Meta(description="Quote it when you report a problem.")]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every error. `message` is repeated at the top level for older clients."""

    error: ErrorBody
    message: str


class Problem(NamedTuple):
    """An error as the client sees it."""

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
        message = "This was changed by someone else at the same time. Reload it and try again."
        return Problem(409, "changed_meanwhile", message, request_id)
    logger.error("request failed", exc_info=error, extra={"route": event["routeKey"], "request": request_id})
    telemetry.count(telemetry.Watched.INTERNAL_ERRORS)
    return Problem(500, "internal_error", "Internal error. It has been logged.", request_id)


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
    message = "Temporarily unavailable. Nothing is lost; try again in a few seconds."
    headers = {"retry-after": str(errors.Unavailable.retry_after)}
    return Problem(503, errors.Unavailable.code, message, request_id, headers=headers)


def json_of(problem: Problem) -> Answer:
    details = dict(problem.details) if problem.details else None
    error = ErrorBody(code=problem.code, message=problem.message, details=details, request_id=problem.request_id)
    body = msgspec.json.encode(ErrorAnswer(error, problem.message))
    return Answer(body if problem.status == 429 else _JSON_STRING.sub(_escape_limits, body), problem.status)


def _escape_limits(text: re.Match[bytes]) -> bytes:
    """A client reports a rate limit for any error whose raw body contains "rate" or "429". As JSON escapes they do not
    match, and every parser still reads the same string."""
    return _READS_LIKE_A_LIMIT.sub(lambda letter: rb"\u%04x" % ord(letter[0]), text[0])


def response_of(answer: Answer, request_headers: Mapping[str, str]) -> dict[str, Any]:
    body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
    headers = {**_HEADERS, **answer.headers}
    response: dict[str, Any] = {"statusCode": answer.status, "headers": headers, "cookies": list(answer.cookies)}
    if answer.cache and _is_cacheable(answer):
        etag = answer.etag or f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers |= {"cache-control": answer.cache, "etag": etag}
        if is_current(request_headers.get("if-none-match", ""), etag):
            return response | {"statusCode": 304, "body": "", "isBase64Encoded": False}
    if headers["content-type"].startswith(OPAQUE):
        return response | {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    if len(body) < COMPRESS_FROM or "gzip" not in request_headers.get("accept-encoding", ""):
        return response | {"body": body.decode(), "isBase64Encoded": False}
    headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    packed = base64.b64encode(gzip.compress(body, compresslevel=5, mtime=0)).decode()
    return response | {"body": packed, "isBase64Encoded": True}


def _is_cacheable(answer: Answer) -> bool:
    """Neither errors nor degraded responses are."""
    return answer.status == 200 and not getattr(answer.body, "degraded", False)


def is_current(if_none_match: str, etag: str) -> bool:
    """Compared weakly: compressed or not, it is the same content."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in known or etag.removeprefix("W/") in known
