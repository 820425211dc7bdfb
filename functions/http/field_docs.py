"""Descriptions and examples merged into an OpenAPI document, and the example responses made of them. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Docs = dict[str, Any]  # field -> its description, or (description, example)
SchemaDocs = dict[str, Docs]
Schema = dict[str, Any]
UNKNOWN = "…"  # in an example: no value is known
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DEEPEST = 6


@dataclass(frozen=True)
class FieldDocs:
    fields: SchemaDocs = field(default_factory=dict)
    any_field: Docs = field(default_factory=dict)  # what means the same in every schema
    parameters: Docs = field(default_factory=dict)  # by name, or by the segment before it: `submissions/{id}`
    media: Mapping[str, Any] = field(default_factory=dict)  # an example per media type that no schema describes
    operations: Mapping[str, Any] = field(default_factory=dict)  # an example per route that returns free JSON


def add_field_docs(document: dict[str, Any], docs: FieldDocs) -> None:
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for key, described in schema.get("properties", {}).items():
            own = docs.fields.get(name, {})
            _add(described, own[key] if key in own else docs.any_field.get(key))
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            for parameter in described["parameters"]:
                _describe_parameter(parameter, path, docs.parameters)
            _add_examples(f"{method.upper()} {path}", described, docs, schemas)


def sample_of(schema: Mapping[str, Any], schemas: Mapping[str, Schema], depth: int = 0) -> Any:
    """A value of this schema: its example, otherwise made of the examples of what it consists of."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return sample_of(schemas[name_in(schema["$ref"])], schemas, depth)
    if "anyOf" in schema:
        return sample_of(schema["anyOf"][0], schemas, depth)
    if "enum" in schema:
        return schema["enum"][0]
    return _plain_sample(schema, schemas, depth + 1)


def name_in(ref: str) -> str:
    return ref.rpartition("/")[2]


def find_undescribed(document: Mapping[str, Any]) -> Iterator[str]:
    """Fields and parameters without a description, each with what to write."""
    for name, schema in document["components"]["schemas"].items():
        for key, described in schema.get("properties", {}).items():
            if not described.get("description"):
                entry = f'`"{key}": ("what it means", example)`'
                yield f'{name}.{key}: add {entry} to "{name}" in a table of functions/api/field_docs'
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            for parameter in described["parameters"]:
                if not parameter.get("description"):
                    key = _parameter_keys(parameter["name"], path)[0]
                    where = "PARAMETERS in functions/api/field_docs/responses.py"
                    yield f'{method.upper()} {path} {parameter["name"]}: add `"{key}": "…"` to {where}'


def _add(described: Schema, doc: Any) -> None:
    text, *example = doc if isinstance(doc, tuple) else (doc,)
    if text:
        described.setdefault("description", text)
    if example:
        described.setdefault("examples", example)
        _mark_time(described, example[0])


def _mark_time(described: Schema, example: Any) -> None:
    """msgspec leaves the format out, because a datetime without a zone has another one; ours always have one."""
    if described.get("type") == "string" and isinstance(example, str) and _TIME.fullmatch(example):
        described.setdefault("format", "date-time")


def _describe_parameter(parameter: Schema, path: str, docs: Docs) -> None:
    for key in _parameter_keys(parameter["name"], path):
        if key in docs:
            text, *example = docs[key] if isinstance(docs[key], tuple) else (docs[key],)
            parameter.setdefault("description", text)
            if example and "examples" not in parameter["schema"]:
                parameter["schema"]["examples"] = example
            return


def _parameter_keys(name: str, path: str) -> list[str]:
    before = re.search(rf"([^/]+/)\{{{name}\+?\}}", path)
    return [f"{before[1]}{{{name}}}", name] if before else [name]


def _add_examples(route: str, described: Schema, docs: FieldDocs, schemas: Mapping[str, Schema]) -> None:
    if "requestBody" in described:
        content = described["requestBody"]["content"]["application/json"]
        content["example"] = sample_of(content["schema"], schemas)
    for status, answer in described["responses"].items():
        for media, content in answer.get("content", {}).items() if status.startswith("2") else ():
            content["example"] = _answer_example(route, media, content, docs, schemas)


def _answer_example(route: str, media: str, content: Schema, docs: FieldDocs, schemas: Mapping[str, Schema]) -> Any:
    if media != "application/json":
        return docs.media.get(media, UNKNOWN)
    free = {key.replace("{owner}/{repo}/{skill}", "{name}"): value for key, value in docs.operations.items()}
    return {**free, **docs.operations}.get(route) or sample_of(content["schema"], schemas)


def _plain_sample(schema: Mapping[str, Any], schemas: Mapping[str, Schema], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        known = schema.get("properties", {})
        required = set(schema.get("required", ()))
        shown = [name for name, described in known.items() if name in required or "examples" in described]
        return {name: sample_of(known[name], schemas, depth) for name in shown} if depth <= _DEEPEST else {}
    if kind == "array":
        return [sample_of(schema.get("items", {}), schemas, depth)] if depth <= _DEEPEST else []
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": False, "null": None}.get(str(kind), UNKNOWN)
