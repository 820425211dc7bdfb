"""HTTP API, payload format 2.0, as pure functions: the route of a request, its event, and the response."""

import base64
import json
import re
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from local.cloudformation import ACCOUNT
from local.template import Route

# As measured on AWS: only these arrive as text. A form, and a body without a type, arrive as base64.
TEXT_TYPES = {"application/json", "application/xml", "application/javascript"}
PARAMETER = re.compile(r"\{([^}+]+)(\+?)\}")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
API_ID = "local"


class BadResponseError(Exception):
    """The function returned an invalid HTTP response; the client gets 500."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    source_ip: str
    protocol: str = "HTTP/1.1"
    scheme: str = "http"

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


@dataclass(frozen=True)
class Match:
    function: str
    route: Route
    parameters: dict[str, str]


@dataclass(frozen=True)
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Routes:
    """Exact paths first, then those with a {parameter}, then {proxy+}, then $default; a method before ANY."""

    def __init__(self, routes: list[tuple[Route, str]]) -> None:
        self._routes = sorted(routes, key=lambda entry: _precedence(entry[0]))

    def find(self, method: str, path: str) -> Match | None:
        for route, function in self._routes:
            parameters = _parameters(route, method, path)
            if parameters is not None:
                return Match(function, route, parameters)
        return None


def make_event(
    request: Request, match: Match, request_id: str | None = None, now: float | None = None
) -> dict[str, Any]:
    """Empty parts are left out, as AWS does."""
    cookies = [part for name, value in request.headers if name.lower() == "cookie" for part in value.split("; ")]
    query = _joined(parse_qsl(request.query, keep_blank_values=True))
    event = {
        "version": "2.0",
        "routeKey": match.route.key,
        "rawPath": request.path,
        "rawQueryString": request.query,
        "cookies": cookies,
        "headers": _event_headers(request),
        "queryStringParameters": query,
        "pathParameters": match.parameters,
        "requestContext": _context(
            request, match, request_id or str(uuid.uuid4()), time.time() if now is None else now
        ),
    }
    optional = ("cookies", "queryStringParameters", "pathParameters")
    return {key: value for key, value in event.items() if value or key not in optional} | _event_body(request)


def read_response(payload: bytes) -> Response:
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise BadResponseError("the function returned something that is not JSON") from error
    if not isinstance(value, dict) or "statusCode" not in value:
        text = value if isinstance(value, str) else json.dumps(value)
        return Response(200, [("content-type", "application/json")], text.encode())
    headers = _response_headers(value)
    return Response(_status(value["statusCode"]), headers, _response_body(value))


def _precedence(route: Route) -> tuple[Any, ...]:
    segments = route.path.split("/")
    greedy = route.path.endswith("+}")
    kinds = tuple(1 if PARAMETER.fullmatch(segment) else 0 for segment in segments)
    return route.path == "$default", greedy, -len(segments) if greedy else 0, kinds, route.method == "ANY"


def _parameters(route: Route, method: str, path: str) -> dict[str, str] | None:
    if route.path == "$default":
        return {}
    if route.method not in (method, "ANY"):
        return None
    match = re.fullmatch(_pattern(route.path), path, re.DOTALL)
    return match.groupdict() if match else None


def _pattern(path: str) -> str:
    parts, position = [], 0
    for parameter in PARAMETER.finditer(path):
        name, greedy = parameter.groups()
        parts += [re.escape(path[position : parameter.start()]), f"(?P<{name}>{'.+' if greedy else '[^/]+'})"]
        position = parameter.end()
    return "".join([*parts, re.escape(path[position:])])


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _event_headers(request: Request) -> dict[str, str]:
    sent = [(name.lower(), value) for name, value in request.headers if name.lower() != "cookie"]
    added = {
        "x-forwarded-for": request.source_ip,
        "x-forwarded-port": _port(request),
        "x-forwarded-proto": request.scheme,
        "x-amzn-trace-id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]}",
    }
    # Headers that only AWS may set must not come from the client.
    return _joined([(name, value) for name, value in sent if name not in added]) | added


def _port(request: Request) -> str:
    host = next((value for name, value in request.headers if name.lower() == "host"), "")
    return host.rpartition(":")[2] if ":" in host else "80"


def _context(request: Request, match: Match, request_id: str, now: float) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in request.headers}
    domain = headers.get("host", "").partition(":")[0]
    return {
        "accountId": ACCOUNT,
        "apiId": API_ID,
        "domainName": domain,
        "domainPrefix": domain.partition(".")[0],
        "http": {
            "method": request.method,
            "path": request.path,
            "protocol": request.protocol,
            "sourceIp": request.source_ip,
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": request_id,
        "routeKey": match.route.key,
        "stage": "$default",
        "time": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "timeEpoch": int(now * 1000),
    }


def _event_body(request: Request) -> dict[str, Any]:
    if not request.body:
        return {"isBase64Encoded": False}
    if _is_text(request):
        try:
            return {"body": request.body.decode(), "isBase64Encoded": False}
        except UnicodeDecodeError:
            pass  # a text type with other bytes: base64 keeps them
    return {"body": base64.b64encode(request.body).decode(), "isBase64Encoded": True}


def _is_text(request: Request) -> bool:
    types = [value for name, value in request.headers if name.lower() == "content-type"]
    kind = types[0].partition(";")[0].strip().lower() if types else ""
    return kind in TEXT_TYPES or kind.startswith("text/")


def _status(value: Any) -> int:
    try:
        status = int(value)
    except (TypeError, ValueError) as error:
        raise BadResponseError(f"the function returned the statusCode {value!r}") from error
    if not 200 <= status <= 599:
        raise BadResponseError(f"the function returned the statusCode {status}")
    return status


def _response_headers(value: dict[str, Any]) -> list[tuple[str, str]]:
    given = value.get("headers") or {}
    cookies = value.get("cookies") or []
    if not isinstance(given, dict) or not isinstance(cookies, list):
        raise BadResponseError("the function returned headers that are not a map, or cookies that are not a list")
    if not all(HEADER_NAME.fullmatch(str(name)) for name in given):
        raise BadResponseError("the function returned a header whose name is not allowed")
    headers = [(str(name).lower(), _header_text(text)) for name, text in given.items()]
    if not any(name == "content-type" for name, _ in headers):
        headers.append(("content-type", "text/plain;charset=UTF-8"))
    return headers + [("set-cookie", _header_text(cookie)) for cookie in cookies]


def _header_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if any(character in text for character in "\r\n\0"):
        raise BadResponseError("the function returned a header with a line break")
    return text


def _response_body(value: dict[str, Any]) -> bytes:
    body = value.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise BadResponseError(f"the function returned a body of type {type(body).__name__}; it must be text")
    if not value.get("isBase64Encoded"):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:
        raise BadResponseError("the function returned a body that is not base64") from error
