"""HTTP API payload 2.0 as on AWS: routing, events, responses."""

import base64
import json
from typing import Any

import pytest

from local.http_events import BadResponseError, Match, Request, Response, Routes, make_event, read_response
from local.template import Route

ROUTES = Routes(
    [
        (Route("ANY", "$default"), "else"),
        (Route("GET", "/a/{proxy+}"), "greedy"),
        (Route("GET", "/a/b/{proxy+}"), "longer greedy"),
        (Route("ANY", "/a/{id}"), "any"),
        (Route("GET", "/a/{id}"), "one"),
        (Route("GET", "/a/list"), "exact"),
        (Route("POST", "/a/{id}/parts/{part}"), "parts"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "function", "parameters"),
    [
        ("GET", "/a/list", "exact", {}),
        ("GET", "/a/7", "one", {"id": "7"}),
        ("PUT", "/a/list", "any", {"id": "list"}),
        ("HEAD", "/a/list", "any", {"id": "list"}),
        ("GET", "/a/7/8", "greedy", {"proxy": "7/8"}),
        ("GET", "/a/b/8", "longer greedy", {"proxy": "8"}),
        ("POST", "/a/7/parts/wing", "parts", {"id": "7", "part": "wing"}),
        ("GET", "/a/", "else", {}),
        ("GET", "/a", "else", {}),
        ("GET", "/a/list/", "greedy", {"proxy": "list/"}),
        ("OPTIONS", "/b", "else", {}),
    ],
)
def test_the_most_specific_route_wins(method: str, path: str, function: str, parameters: dict[str, str]) -> None:
    match = ROUTES.find(method, path)
    assert match is not None
    assert (match.function, match.parameters) == (function, parameters)


def test_without_a_default_route_nothing_is_found() -> None:
    assert Routes([(Route("GET", "/a"), "a")]).find("POST", "/a") is None


def event_of(
    method: str = "GET", target: str = "/", headers: list[tuple[str, str]] | None = None, body: bytes = b""
) -> dict[str, Any]:
    request = Request(method, target, headers or [], body, "127.0.0.1")
    return make_event(request, Match("f", Route("ANY", "/{proxy+}"), {"proxy": "x"}), "id-1", now=1794803705.8)


def test_an_event_has_the_fields_of_format_2() -> None:
    event = event_of(
        "POST", "/a%2Fb/%C3%A9?x=1&y=&x=2%20", [("Host", "h:1"), ("User-Agent", "t"), ("X-A", "1"), ("x-a", "2")]
    )
    assert event["version"] == "2.0"
    assert event["routeKey"] == event["requestContext"]["routeKey"] == "ANY /{proxy+}"
    assert event["rawPath"] == event["requestContext"]["http"]["path"] == "/a/b/é"
    assert event["rawQueryString"] == "x=1&y=&x=2%20"
    assert event["queryStringParameters"] == {"x": "1,2 ", "y": ""}
    assert event["pathParameters"] == {"proxy": "x"}
    assert event["headers"]["x-a"] == "1,2"
    assert event["requestContext"]["http"]["sourceIp"] == "127.0.0.1"
    assert event["requestContext"]["http"]["userAgent"] == "t"
    assert event["requestContext"]["requestId"] == "id-1"
    assert event["requestContext"]["stage"] == "$default"
    assert event["requestContext"]["time"] == "16/Nov/2026:04:35:05 +0000"
    assert event["requestContext"]["timeEpoch"] == 1794803705800


def test_what_is_empty_is_left_out() -> None:
    event = make_event(Request("GET", "/", [], b"", "::1"), Match("f", Route("ANY", "$default"), {}))
    assert not {"cookies", "queryStringParameters", "pathParameters", "body"} & event.keys()
    assert event["isBase64Encoded"] is False


def test_cookies_leave_the_headers() -> None:
    event = event_of(headers=[("Cookie", "a=1; b=2")])
    assert event["cookies"] == ["a=1", "b=2"]
    assert "cookie" not in event["headers"]


def test_a_client_cannot_claim_another_address() -> None:
    event = event_of(headers=[("X-Forwarded-For", "8.8.8.8")])
    assert event["headers"]["x-forwarded-for"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("content_type", "body", "encoded"),
    [
        ("application/json; charset=utf-8", b"{}", False),
        ("text/markdown", "é".encode(), False),
        ("application/x-www-form-urlencoded", b"a=1", True),
        ("application/octet-stream", b"\xff", True),
        ("text/plain", b"\xff\xfe", True),
        (None, b"{}", True),
    ],
)
def test_only_text_types_arrive_as_text(content_type: str | None, body: bytes, encoded: bool) -> None:
    event = event_of("POST", headers=[("Content-Type", content_type)] if content_type else [], body=body)
    assert event["isBase64Encoded"] is encoded
    assert (base64.b64decode(event["body"]) if encoded else event["body"].encode()) == body


def response_of(value: Any) -> Response:
    return read_response(json.dumps(value).encode())


@pytest.mark.parametrize(("value", "body"), [({"a": 1}, b'{"a": 1}'), ("hi", b"hi"), ([1], b"[1]"), (None, b"null")])
def test_without_a_status_code_the_response_is_inferred(value: Any, body: bytes) -> None:
    assert response_of(value) == Response(200, [("content-type", "application/json")], body)


def test_a_response_keeps_status_headers_cookies_and_bytes() -> None:
    value = {"statusCode": "201", "headers": {"X-N": 1, "X-B": True, "Content-Type": "a/b"}, "cookies": ["a=1", "b=2"]}
    headers = [("x-n", "1"), ("x-b", "true"), ("content-type", "a/b"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    assert response_of(value | {"body": "AAH/", "isBase64Encoded": True}) == Response(201, headers, b"\x00\x01\xff")


def test_text_without_a_type_is_plain_text() -> None:
    answer = response_of({"statusCode": 200, "body": "é"})
    assert answer.headers == [("content-type", "text/plain;charset=UTF-8")]
    assert answer.body == "é".encode()


@pytest.mark.parametrize(
    "value",
    [
        {"statusCode": "abc"},
        {"statusCode": None},
        {"statusCode": 99},
        {"statusCode": 200, "body": {"a": 1}},
        {"statusCode": 200, "headers": ["a"]},
        {"statusCode": 200, "headers": {"a": "1\r\nset-cookie: x"}},
        {"statusCode": 200, "headers": {"bad name": "1"}},
        {"statusCode": 200, "cookies": "a=1"},
        {"statusCode": 200, "body": "%%%", "isBase64Encoded": True},
    ],
)
def test_a_malformed_response_is_refused(value: Any) -> None:
    with pytest.raises(BadResponseError):
        response_of(value)


def test_a_response_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadResponseError, match="not JSON"):
        read_response(b"<html>")
