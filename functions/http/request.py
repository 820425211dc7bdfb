"""A request as routes see it, parsed strictly from an HTTP API event: nothing unknown is ignored."""

import base64
import json
import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
import orjson

from shared import errors
from shared.access.signing import is_same

MAX_BODY = 6 * 1024 * 1024 - 64 * 1024  # Lambda accepts 6 MB, including the event around the body
SHORTEST_KEY = 32  # of the edge: anyone could send an empty one

T = TypeVar("T")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")


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
    def site(self) -> str:
        """The address that the client used, for links that must be absolute."""
        host = self.headers.get("host", "")
        return f"{'https' if self.is_https else 'http'}://{host if _HOST.fullmatch(host) else 'localhost'}"

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def form(self) -> dict[str, str]:
        """The fields of a form without files. Each may occur once."""
        if self.media_type != "application/x-www-form-urlencoded":
            raise errors.WrongMediaType("Send this form as `application/x-www-form-urlencoded`.")
        try:
            pairs = parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=200, errors="strict")
        except ValueError as error:
            raise errors.InvalidRequest("The form cannot be read.", code="invalid_body") from error
        if len(dict(pairs)) != len(pairs):
            raise errors.InvalidRequest("Each form field may be sent only once.", code="invalid_body")
        return dict(pairs)

    def json(self, type_: type[T]) -> T:
        if self.media_type != "application/json":
            raise errors.WrongMediaType("Send JSON, with the header `Content-Type: application/json`.")
        return fit(_strict_json(self.body), type_)

    def allow_query(self, *names: str) -> None:
        unknown = sorted(set(self.query) - set(names))
        if unknown:
            known = f"Supported: {', '.join(names)}." if names else "None is supported here."
            raise errors.InvalidRequest(
                f"Unknown query parameter {unknown[0][:40]!r}. {known}", code="unknown_parameter"
            )

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.query.get(name, default)
        if value not in allowed:
            raise errors.InvalidRequest(f"`{name}` must be one of {', '.join(allowed)}.", code=f"invalid_{name}")
        return value


def request_of(event: dict[str, Any]) -> Request:
    pairs = parse_qsl(event.get("rawQueryString", ""), keep_blank_values=True)
    query = dict(pairs)
    if len(query) != len(pairs):
        raise errors.InvalidRequest("Each query parameter may be sent only once.", code="repeated_parameter")
    body = event.get("body") or ""
    raw = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(errors="surrogatepass")
    if len(raw) > MAX_BODY:
        raise errors.TooLarge("The request is larger than 6 MB.")
    path = event.get("pathParameters") or {}
    http = event["requestContext"]["http"]
    headers, address = _as_the_edge_saw_it(event["headers"], http["sourceIp"])
    return Request(
        query,
        path,
        headers,
        raw,
        cookies_of(event),
        event.get("rawPath", ""),
        address,
        http["method"],
    )


def _as_the_edge_saw_it(headers: Mapping[str, str], source_ip: str) -> tuple[Mapping[str, str], str]:
    """The client's address comes from the gateway, never from a header, which the client could forge: only from
    CloudFront's, beside the key that only it has. Then the gateway sees CloudFront instead of the client."""
    key, shown = os.environ.get("EDGE_KEY", ""), headers.get("x-edge-key", "")
    if len(key) < SHORTEST_KEY or not is_same(key, shown):
        return headers, source_ip
    try:
        address = str(ip_address(headers.get("x-viewer-address", "")))
    except ValueError:
        address = source_ip
    return {**headers, "host": headers.get("x-viewer-host") or headers.get("host", "")}, address


def fit(sent: Any, type_: type[T]) -> T:
    try:
        return msgspec.convert(sent, type_)
    except msgspec.ValidationError as error:
        raise errors.InvalidRequest(f"The body is invalid: {error}.", code="invalid_body") from error


def _strict_json(raw: bytes) -> Any:
    """JSON that every parser reads the same way: no NaN, lone surrogates, repeated keys or endless nesting."""
    try:
        orjson.loads(raw)
        return json.loads(raw, object_pairs_hook=_once_each, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidRequest(f"The body is not valid JSON: {error}.", code="invalid_json") from error


def _number(text: str) -> int | float:
    """To JSON Schema, and so to the API contract, 5.0 is an integer."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def cookies_of(event: Mapping[str, Any]) -> dict[str, str]:
    pairs = (cookie.partition("=") for cookie in event.get("cookies", ()))
    return {name.strip(): value.strip() for name, _, value in pairs}
