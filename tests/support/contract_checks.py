"""Requests whose responses are checked against the contract: a documented status and a body that fits its schema."""

import json
from functools import cache
from typing import Any
from urllib.parse import urlencode

import jsonschema

from functions.api.contract import contract
from tests.support.route_calls import Response, call


async def ask(
    env,
    route: str,
    query: Any = "",
    body: Any = None,
    headers: dict | None = None,
    path: str | None = None,
    **parts: str,
) -> Response:
    """`path` is the documented one where the gateway's route says less; `parts` fill it."""
    method, _, gateway_path = route.partition(" ")
    documented = path or gateway_path
    sent = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent.setdefault("content-type", "application/json")
    text = query if isinstance(query, str) else urlencode(query)
    filled = documented.format(**parts)
    parameters = {"proxy": filled.removeprefix("/api/v1/skills/")} if "{proxy+}" in route else parts
    answer = await call(
        env, route, f"{filled}?{text}" if text else filled, body=body or b"", headers=sent, **parameters
    )
    assert_keeps(answer, method, documented)
    return answer


def assert_keeps(answer: Response, method: str, path: str) -> None:
    """The contract: whatever else is wrong with an answer, its form is not."""
    described = contract()["paths"][path][method.lower()]
    documented = _resolved(described["responses"][str(answer.status)])
    media_type = answer.headers["content-type"].partition(";")[0]
    assert answer.status == 304 or media_type in documented["content"], f"{media_type} is not documented"
    if answer.status != 304 and media_type == "application/json":
        _validator(json.dumps(documented["content"][media_type]["schema"])).validate(answer.json)


def _resolved(response: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in response:
        return response
    found: dict[str, Any] = contract()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return found


@cache
def _validator(schema: str) -> jsonschema.protocols.Validator:
    whole = {**json.loads(schema), "components": contract()["components"]}
    return jsonschema.Draft202012Validator(whole, format_checker=jsonschema.FormatChecker())
