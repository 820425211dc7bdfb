"""HTTP API events, and a function's routes called with them inside an environment in memory."""

import base64
import gzip
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from functions import (
    admin_api,
    admin_pages,
    owner_api,
    owner_pages,
    pages,
    registry,
    skills_api,
    submissions_api,
    webhooks,
)
from functions.html.responses import error_page
from functions.http.routes import answer_event
from tests.support.guarded_kv import GuardedKV
from tests.support.memory import within

FUNCTIONS = (submissions_api, skills_api, admin_api, owner_api, owner_pages, webhooks, pages, admin_pages, registry)


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    cookies: list[str]
    text: str
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def an_event(route: str, path: str, parameters: dict, body: bytes, headers: dict, cookies: list[str]) -> dict:
    parts = urlsplit(path)
    return {
        "version": "2.0",
        "routeKey": route,
        "rawPath": parts.path,
        "rawQueryString": parts.query,
        "headers": {"accept-encoding": "gzip", **headers},
        "cookies": cookies,
        "pathParameters": parameters,
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
        "requestContext": {"requestId": "r-1", "http": {"method": "", "sourceIp": "192.0.2.1"}},
    }


async def call(
    env,
    route: str,
    path: str | None = None,
    form=None,
    body=b"",
    headers=None,
    cookies=(),
    method="",
    source_ip="192.0.2.1",
    **parameters,
):
    """One request: the function that has the route answers it, errors and compression and all."""
    path = path or route.partition(" ")[2]
    headers = dict(headers or {})
    if form is not None:
        body, headers = urlencode(form).encode(), {"content-type": "application/x-www-form-urlencoded", **headers}
    event = an_event(route, path, parameters, body, headers, list(cookies))
    event["requestContext"]["http"] |= {"method": method or route.partition(" ")[0], "sourceIp": source_ip}
    function = next(function for function in FUNCTIONS if route in function.ROUTES)
    explain = error_page if function in (pages, admin_pages, owner_pages) else None
    guarded = GuardedKV(env.kv, function.__name__)
    asking = replace(env, kv=guarded)
    answer = await within(asking, lambda: answer_event(event, function.ROUTES, explain, timedelta(seconds=30)))
    assert not guarded.refused
    raw = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
    packed = answer["headers"].get("content-encoding") == "gzip"
    body = gzip.decompress(raw) if packed else raw
    return Response(
        answer["statusCode"], answer["headers"], answer["cookies"], body.decode(errors="surrogateescape"), body
    )


def multipart(fields: dict[str, str], files: dict[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A form with files, as browsers send it: the body and its headers."""
    parts = [f'--b\r\ncontent-disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    for name, content in files.items():
        head = f'--b\r\ncontent-disposition: form-data; name="files"; filename="{name}"\r\n'
        parts.append(head.encode() + b"content-type: application/octet-stream\r\n\r\n" + content + b"\r\n")
    return b"".join([*parts, b"--b--\r\n"]), {"content-type": "multipart/form-data; boundary=b"}
