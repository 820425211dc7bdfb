"""The API reference, rendered from the OpenAPI document: /docs for the public, /docs/admin for operators. Each
operation is on one of the two pages, once, under its longest address."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from functions.api.contract import contract, operations
from functions.html.responses import page
from functions.http.answer import Answer
from functions.http.error_codes import CODES
from functions.http.field_docs import name_in, sample_of
from functions.http.request import Request
from shared.db import now

OpenApi = Mapping[str, Any]


ADMIN = "Admin"  # the tag of what operators call
TOKENS = {"bearer": "ADMIN_TOKEN", "ownerToken": "OWNER_TOKEN"}  # by security scheme


async def show(request: Request) -> Answer:
    return _show(request, is_admin=False)


async def show_admin(request: Request) -> Answer:
    return _show(request, is_admin=True)


def _show(request: Request, is_admin: bool) -> Answer:
    request.allow_query()
    document = contract()
    groups = [group for group in _groups() if (group["name"] == ADMIN) == is_admin]
    return page(
        request,
        "docs.html",
        now(),
        about=document["info"]["description"].split("\n\n"),
        version=document["info"]["version"],
        is_admin=is_admin,
        groups=groups,
        schemas=[_schema(name, document["components"]["schemas"][name]) for name in _schemas_of(groups, document)],
        codes=CODES,
    )


def _schemas_of(groups: list[dict[str, Any]], document: OpenApi) -> list[str]:
    """What the operations of a page refer to, directly or through another schema."""
    schemas = document["components"]["schemas"]
    shown = [operation for group in groups for operation in group["operations"]]
    wanted = [document["paths"][operation["path"]][operation["method"].lower()] for operation in shown]
    waiting = ["ErrorAnswer", *_references(wanted)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return sorted(found)


def _references(described: Any) -> list[str]:
    return re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(described))


@cache
def _groups() -> list[dict[str, Any]]:
    """Operations by tag. Several addresses of one operation are one entry: the first one, and `also` the others."""
    document = contract()
    addresses: dict[int, list[tuple[str, str]]] = {}
    for method, path, declared in operations():
        addresses.setdefault(id(declared), []).append((method, path))
    shown = [_operation(method, path, also, document) for (method, path), *also in addresses.values()]
    return [
        {"name": tag["name"], "id": slug_of(tag["name"]), "operations": [o for o in shown if o["tag"] == tag["name"]]}
        for tag in document["tags"]
    ]


def slug_of(tag: str) -> str:
    return re.sub(r"\W+", "-", tag.lower())


def _operation(method: str, path: str, also: list[tuple[str, str]], document: OpenApi) -> dict[str, Any]:
    described = document["paths"][path][method.lower()]
    return {
        "id": described["operationId"],
        "tag": described["tags"][0],
        "method": method,
        "path": path,
        "also": [other for _, other in also],
        "summary": described["summary"],
        "description": described.get("description", "").split("\n\n"),
        "parameters": [
            _parameter(parameter, document) for parameter in [*described["parameters"], *_signed(described, document)]
        ],
        "auth": _auth(described),
        "bodies": _body_types(described),
        "body": _body_example(described),
        "answers": [_answer(status, answer, document) for status, answer in described["responses"].items()],
        "example": _curl(method, path, described, document),
    }


def _parameter(parameter: Mapping[str, Any], document: OpenApi) -> dict[str, Any]:
    schema = parameter["schema"]
    return {
        "name": parameter["name"],
        "where": parameter["in"],
        "required": parameter["required"],
        "type": type_of(schema),
        "about": parameter.get("description", ""),
        "default": schema.get("default"),
        "example": _known_example(schema, document) if parameter["required"] else "",
        "choices": schema.get("enum", []),
    }


def _known_example(schema: Mapping[str, Any], document: OpenApi) -> str:
    sample = str(sample_of(schema, document["components"]["schemas"]))
    return "" if sample == "…" else sample


def _auth(described: Mapping[str, Any]) -> str:
    if not described["security"]:
        return ""
    scheme = next(iter(described["security"][0]))
    return TOKENS.get(scheme, "signed")


def _body_types(described: Mapping[str, Any]) -> list[dict[str, str]]:
    if "requestBody" not in described:
        return []
    return type_of(described["requestBody"]["content"]["application/json"]["schema"])


def _body_example(described: Mapping[str, Any]) -> str:
    if "requestBody" not in described:
        return ""
    return _pretty(described["requestBody"]["content"]["application/json"]["example"])


def _pretty(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=1, ensure_ascii=False)


def _answer(status: str, answer: Mapping[str, Any], document: OpenApi) -> dict[str, Any]:
    is_error = "$ref" in answer
    answer = document["components"]["responses"][name_in(answer["$ref"])] if is_error else answer
    content = answer.get("content", {})
    return {
        "status": status,
        "is_error": is_error,
        "about": answer["description"].partition(". Codes")[0],
        "types": [(media, type_of(what["schema"]) if "schema" in what else []) for media, what in content.items()],
        "examples": [(media, _pretty(what["example"])) for media, what in content.items() if "example" in what],
        "headers": list(answer.get("headers", {})),
    }


def _schema(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        "name": name,
        "about": schema.get("description", ""),
        "values": schema.get("enum", []),
        "fields": [
            {"name": field, "type": type_of(of), "required": field in required, "about": of.get("description", "")}
            for field, of in schema.get("properties", {}).items()
        ],
    }


def type_of(schema: Mapping[str, Any]) -> list[dict[str, str]]:
    """A type as text, in pieces: those with `schema` link to that schema."""
    if "$ref" in schema:
        name = name_in(schema["$ref"])
        return [{"text": name, "schema": name}]
    if "anyOf" in schema:
        pieces = [type_of(part) for part in schema["anyOf"]]
        return [piece for n, part in enumerate(pieces) for piece in [*([_text(" or ")] if n else []), *part]]
    if "enum" in schema:
        return [_text(", ".join(map(str, schema["enum"])))]
    if schema.get("type") == "array":
        return [_text("list of "), *type_of(schema.get("items", {}))]
    if schema.get("type") == "object" and schema.get("additionalProperties"):
        return [_text("map to "), *type_of(schema["additionalProperties"])]
    return [_text(_WORDS.get(schema.get("format", ""), str(schema.get("type", "anything"))) + _bounds(schema))]


_WORDS = {"date-time": "time"}


def _text(text: str) -> dict[str, str]:
    return {"text": text}


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    if high is None:
        return ""
    if schema.get("type") != "string":
        return f", {low or 0} to {high}"
    return f", {high if low == high else f'{low} to {high}' if low else f'at most {high}'} characters"


def _curl(method: str, path: str, described: Mapping[str, Any], document: OpenApi) -> str:
    required = {p["name"]: _filled_in(p, document) for p in described["parameters"] if p["required"]}
    filled = re.sub(r"\{(\w+)\+?\}", lambda match: required[match[1]], path)
    query = "&".join(
        f"{p['name']}={required[p['name']]}" for p in described["parameters"] if p["in"] == "query" and p["required"]
    )
    parts = [f'curl -s "$URL{filled}{"?" + query if query else ""}"']
    parts += [] if method in ("GET", "POST") and ("requestBody" in described or method == "GET") else [f"-X {method}"]
    if auth := _auth(described):
        parts += _signature(document) if auth == "signed" else [f'-H "Authorization: Bearer ${auth}"']
    if "requestBody" in described:
        sample = described["requestBody"]["content"]["application/json"]["example"]
        body = json.dumps(sample, ensure_ascii=False).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
    return " \\\n  ".join(parts)


def _filled_in(parameter: Mapping[str, Any], document: OpenApi) -> str:
    """An example, or a shell variable for the reader to set."""
    example = _known_example(parameter["schema"], document)
    return quote(example, safe="/") if example else f"${parameter['name'].upper()}"


def _signature(document: OpenApi) -> list[str]:
    return [f'-H "{scheme["name"]}: …"' for scheme in _signature_schemes(document)]


def _signed(described: Mapping[str, Any], document: OpenApi) -> list[dict[str, Any]]:
    """The signature headers, listed like other parameters."""
    if _auth(described) != "signed":
        return []
    header = {"in": "header", "required": True, "schema": {"type": "string"}}
    return [{**scheme, **header} for scheme in _signature_schemes(document)]


def _signature_schemes(document: OpenApi) -> list[dict[str, Any]]:
    schemes = document["components"]["securitySchemes"].values()
    return [scheme for scheme in schemes if scheme["type"] == "apiKey"]
