"""/docs: the API reference, rendered from the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from functions.api.contract import contract
from functions.html.responses import page
from functions.http.answer import Answer
from functions.http.error_codes import CODES
from functions.http.request import Request
from shared.db import now

_SAMPLE_DEPTH = 3


async def show(request: Request) -> Answer:
    request.allow_query()
    document = contract()
    return page(
        request,
        "docs.html",
        now(),
        about=document["info"]["description"].split("\n\n"),
        version=document["info"]["version"],
        groups=[_group(tag["name"], document) for tag in document["tags"]],
        schemas=[_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())],
        codes=CODES,
    )


def _group(tag: str, document: Mapping[str, Any]) -> dict[str, Any]:
    operations = [
        _operation(method.upper(), path, described, document)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if described["tags"] == [tag]
    ]
    return {"name": tag, "id": re.sub(r"\W+", "-", tag.lower()), "operations": operations}


def _operation(method: str, path: str, described: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": described["operationId"],
        "method": method,
        "path": path,
        "summary": described["summary"],
        "description": described.get("description", "").split("\n\n"),
        "parameters": [
            _parameter(parameter) for parameter in [*described["parameters"], *_signed(described, document)]
        ],
        "bodies": _body_types(described),
        "answers": [_answer(status, answer, document) for status, answer in described["responses"].items()],
        "example": _curl(method, path, described, document),
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    schema = parameter["schema"]
    return {
        "name": parameter["name"],
        "where": parameter["in"],
        "required": parameter["required"],
        "type": type_of(schema),
        "about": parameter.get("description", ""),
        "default": schema.get("default"),
    }


def _body_types(described: Mapping[str, Any]) -> list[dict[str, str]]:
    if "requestBody" not in described:
        return []
    return type_of(described["requestBody"]["content"]["application/json"]["schema"])


def _answer(status: str, answer: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    is_error = "$ref" in answer
    answer = document["components"]["responses"][_name_in(answer["$ref"])] if is_error else answer
    content = answer.get("content", {})
    return {
        "status": status,
        "is_error": is_error,
        "about": answer["description"].partition(". Codes")[0],
        "types": [(media, type_of(what["schema"]) if "schema" in what else []) for media, what in content.items()],
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
        name = _name_in(schema["$ref"])
        return [{"text": name, "schema": name}]
    if "anyOf" in schema:
        pieces = [type_of(part) for part in schema["anyOf"]]
        return [piece for n, part in enumerate(pieces) for piece in [*([_text(" or ")] if n else []), *part]]
    if "enum" in schema:
        return [_text(", ".join(map(str, schema["enum"])))]
    if schema.get("type") == "array":
        return [_text("list of "), *type_of(schema.get("items", {}))]
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


def _name_in(ref: str) -> str:
    return ref.rpartition("/")[2]


def _curl(method: str, path: str, described: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    required = {p["name"]: _filled_in(p, document) for p in described["parameters"] if p["required"]}
    filled = re.sub(r"\{(\w+)\+?\}", lambda match: required[match[1]], path)
    query = "&".join(
        f"{p['name']}={required[p['name']]}" for p in described["parameters"] if p["in"] == "query" and p["required"]
    )
    parts = [f'curl -s "$URL{filled}{"?" + query if query else ""}"']
    parts += [] if method in ("GET", "POST") and ("requestBody" in described or method == "GET") else [f"-X {method}"]
    if described["security"]:
        scheme = described["security"][0]
        parts += ['-H "Authorization: Bearer $ADMIN_TOKEN"'] if "bearer" in scheme else _signature(document)
    if "requestBody" in described:
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(sample_of(schema, document), ensure_ascii=False).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
    return " \\\n  ".join(parts)


def _filled_in(parameter: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """An example, or a shell variable for the reader to set."""
    sample = sample_of(parameter["schema"], document)
    return f"${parameter['name'].upper()}" if sample == "…" else quote(str(sample), safe="/")


def _signature(document: Mapping[str, Any]) -> list[str]:
    return [f'-H "{scheme["name"]}: …"' for scheme in _signature_schemes(document)]


def _signed(described: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The signature headers, listed like other parameters."""
    if not described["security"] or "bearer" in described["security"][0]:
        return []
    header = {"in": "header", "required": True, "schema": {"type": "string"}}
    return [{**scheme, **header} for scheme in _signature_schemes(document)]


def _signature_schemes(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    schemes = document["components"]["securitySchemes"].values()
    return [scheme for scheme in schemes if scheme["type"] == "apiKey"]


def sample_of(schema: Mapping[str, Any], document: Mapping[str, Any], depth: int = 0) -> Any:
    """A valid value: the schema's example, otherwise a minimal one with required fields only."""
    if "$ref" in schema:
        return sample_of(document["components"]["schemas"][_name_in(schema["$ref"])], document, depth)
    if "anyOf" in schema:
        return sample_of(schema["anyOf"][0], document, depth)
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    return _plain_sample(schema, document, depth + 1)


def _plain_sample(schema: Mapping[str, Any], document: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ()) if depth <= _SAMPLE_DEPTH else ()
        return {name: sample_of(schema["properties"][name], document, depth) for name in required}
    if kind == "array":
        return [sample_of(schema.get("items", {}), document, depth)] if depth <= _SAMPLE_DEPTH else []
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": True, "null": None}.get(str(kind), "…")
