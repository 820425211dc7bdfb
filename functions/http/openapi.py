"""OpenAPI 3.1 generated from the declarations that guard the routes: what is documented is what is enforced."""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from functions.http.answer import ErrorAnswer
from functions.http.error_codes import CODES
from functions.http.field_docs import FieldDocs, add_field_docs
from functions.http.operations import NoQuery, Operation, alternatives, without_none
from shared.access.webhook_auth import PROVIDER, SIGNATURE, TIMESTAMP

VERSION = "1.0.0"  # of the contract: a new major version means that clients must change
PARAMETER = re.compile(r"\{(\w+)\+?\}")
_REF = "#/components/schemas/{name}"
_TAGS = {
    "submissions": "Submissions",
    "queue": "Submissions",
    "skills": "Skills",
    "blocklist": "Blocklist",
    "owners": "Owners",
    "owner": "Owners",
    "admin": "Admin",
    "webhooks": "External scanners",
    "internal": "External scanners",
}
_DESCRIPTION = """Submit a skill, track its verification, and read what is published and the evidence for it.

JSON in camelCase. Unknown fields and parameters are rejected, never ignored. Values that could not be read are null and
`degraded` is true; if the store is not reachable the status is 503, never an empty list. All errors have one format and
stable codes.

In the examples, `$URL` is the address of this platform and `$ADMIN_TOKEN` an operator's token (`make admin-token`),
`$OWNER_TOKEN` the token of a proven repository (`POST /api/v1/owners/proofs`); set the other `$` variables yourself.
Only Owners, Admin and External scanners require a token or a signature."""


Described = tuple[str, str, Operation]  # method, path, declaration


def describe(operations: Sequence[Described], docs: FieldDocs | None = None) -> dict[str, Any]:
    schemas = _Schemas([declared for _, _, declared in operations])
    paths: dict[str, Any] = {}
    for method, path, declared in operations:
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, declared, schemas)
    described = {
        "openapi": "3.1.0",
        "info": {"title": "vskill platform", "version": VERSION, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(tag_of(path, o) for _, path, o in operations)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {f"E{status}": _refusal(status, schemas) for status in CODES} | {"E431": _BY_THE_GATEWAY},
            "headers": _HEADERS,
            "securitySchemes": _SECURITY,
        },
    }
    document = dict(msgspec.json.decode(msgspec.json.encode(described)))  # plain JSON: defaults may be tuples or enums
    add_field_docs(document, docs or FieldDocs())
    return document


def tag_of(path: str, declared: Operation) -> str:
    return declared.tag or _TAGS.get(path.removeprefix("/api/v1/").partition("/")[0], "Platform")


class _Schemas:
    """The JSON Schemas of all declared types, generated together so that they share components."""

    def __init__(self, declared: list[Operation]) -> None:
        wanted = [ErrorAnswer, *(type_ for operation in declared for type_ in _types_of(operation))]
        described, self.components = msgspec.json.schema_components(wanted, ref_template=_REF)
        self._described = {_key(type_): schema for type_, schema in zip(wanted, described, strict=True)}

    def of(self, type_: Any) -> dict[str, Any]:
        schemas = [self._described[_key(part)] for part in alternatives(type_)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _key(type_: Any) -> str:
    return repr(type_)  # a type with a Meta is not hashable


def _types_of(operation: Operation) -> Iterator[Any]:
    for given in operation.gives.values():
        yield from (type_ for part in _each(given) if not _is_media_type(part) for type_ in alternatives(part))
    if operation.body is not None:
        yield from alternatives(operation.body)
    yield from (without_none(parameter.type) for parameter in msgspec.structs.fields(operation.query))
    yield from operation.path.values()


def _each(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return given if isinstance(given, tuple) else (given,)


def _is_media_type(part: Any) -> bool:
    return isinstance(part, str)


def _operation(method: str, path: str, declared: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _operation_id(method, path),
        "summary": declared.summary,
        "tags": [tag_of(path, declared)],
        "parameters": [*_path_parameters(path, declared, schemas), *_query(declared, schemas), *_headers(declared)],
        "responses": _answers(path, declared, schemas),
        "security": _security(declared),
    }
    needs = f"Requires a token with the role `{declared.role}`." if declared.role else ""
    details = [declared.details, "Requires an owner token." if declared.owned else needs]
    if any(details):
        described["description"] = "\n\n".join(filter(None, details))
    if declared.body is not None:
        content = {"application/json": {"schema": schemas.of(declared.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _operation_id(method: str, path: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", path.removeprefix("/api/v1/"))
    return method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _path_parameters(path: str, declared: Operation, schemas: _Schemas) -> Iterator[dict[str, Any]]:
    for name in PARAMETER.findall(path):
        known = declared.path.get(name)
        schema = dict(schemas.of(known)) if known is not None else {"type": "string", "minLength": 1}
        yield _parameter("path", name, schema, required=True)


def _query(declared: Operation, schemas: _Schemas) -> Iterator[dict[str, Any]]:
    if declared.query is NoQuery:
        return
    for known in msgspec.structs.fields(declared.query):
        schema = dict(schemas.of(without_none(known.type)))
        if known.default not in (None, msgspec.NODEFAULT):
            schema["default"] = known.default
        yield _parameter("query", known.encode_name, schema, required=known.required)


def _headers(declared: Operation) -> Iterator[dict[str, Any]]:
    for name, why in declared.headers.items():
        yield _parameter("header", name, {"type": "string", "description": why}, required=False)
    if declared.cached:
        why = "The ETag of the response you have: 304 without a body if it is still current."
        yield _parameter("header", "If-None-Match", {"type": "string", "description": why}, required=False)


def _parameter(where: str, name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    about = {key: schema.pop(key) for key in ("description",) if key in schema}
    return {"name": name, "in": where, "required": required, **about, "schema": schema}


def _answers(path: str, declared: Operation, schemas: _Schemas) -> dict[str, Any]:
    answers = {str(status): _answer(status, given, declared, schemas) for status, given in declared.gives.items()}
    if declared.cached:
        answers["304"] = {"description": "Not modified.", "headers": _refs("ETag")}
    refused = _refused(path, declared) - declared.gives.keys()
    return answers | {str(status): {"$ref": f"#/components/responses/E{status}"} for status in sorted(refused)}


def _refused(path: str, declared: Operation) -> set[int]:
    refused = {400, 431, 503, *declared.refuses}
    if declared.body is not None:
        refused |= {413, 415}
    if declared.role or declared.owned:
        refused |= {401, 403, 429}  # failed attempts are limited
    if declared.signed:
        refused |= {401}
    if declared.limit:
        refused |= {429}
    return refused | {404} if PARAMETER.search(path) else refused


def _answer(status: int, given: Any, declared: Operation, schemas: _Schemas) -> dict[str, Any]:
    content = {}
    for part in _each(given):
        if _is_media_type(part):
            content[part] = _text_of(part)
        else:
            content["application/json"] = {"schema": schemas.of(part)}
    names = (["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"] if declared.limit else []) + (
        ["ETag", "Cache-Control"] if declared.cached else []
    )
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if content:
        answer["content"] = content
    return answer | ({"headers": _refs(*names)} if names else {})


def _text_of(media_type: str) -> dict[str, Any]:
    if media_type == "text/event-stream":
        return {}  # OpenAPI 3.1 cannot describe events
    return {"schema": {"type": "object" if media_type.endswith("json") else "string"}}


def _refusal(status: int, schemas: _Schemas) -> dict[str, Any]:
    codes = "\n".join(f"- `{code}`: {meaning}" for code, meaning in CODES[status].items())
    more = "\n- `invalid_{name}`: the query parameter of that name is invalid." if status == 400 else ""
    refusal: dict[str, Any] = {
        "description": f"{HTTPStatus(status).phrase}. Codes:\n\n{codes}{more}",
        "content": {"application/json": {"schema": schemas.of(ErrorAnswer)}},
    }
    headers = _HEADERS_OF.get(status)
    return refusal | ({"headers": _refs(*headers)} if headers else {})


def _security(declared: Operation) -> list[dict[str, list[str]]]:
    if declared.role:
        return [{"bearer": []}]
    if declared.owned:
        return [{"ownerToken": []}]
    return [{"scanProvider": [], "scanTimestamp": [], "scanSignature": []}] if declared.signed else []


def _refs(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(description: str, type_: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": type_}}


_HEADERS: Mapping[str, Any] = {
    "RateLimit-Limit": _header(
        "Requests of this kind allowed per IP address and window; absent where limits are off.", "integer"
    ),
    "RateLimit-Remaining": _header("Requests left in this window.", "integer"),
    "RateLimit-Reset": _header("Seconds until the window resets.", "integer"),
    "Retry-After": _header("Seconds to wait before trying again.", "integer"),
    "WWW-Authenticate": _header("The required authentication scheme."),
    "Allow": _header("The methods that this address supports."),
    "ETag": _header("Send it as If-None-Match to get the response only if it changed."),
    "Cache-Control": _header("How long the response may be cached."),
}
_BY_THE_GATEWAY: Mapping[str, Any] = {
    "description": "URL and headers exceed 10 KB together. Sent by the gateway.",
    "content": {"application/json": {"schema": {"type": "object", "properties": {"message": {"type": "string"}}}}},
}
_HEADERS_OF: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_SECURITY: Mapping[str, Any] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An admin token, created with `make admin-token`. A reviewer's also gets blocked content.",
    },
    "ownerToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "An owner token, from `POST /api/v1/owners/proofs`. It is for one repository.",
    },
    "scanProvider": {"type": "apiKey", "in": "header", "name": PROVIDER, "description": "The name of the scanner."},
    "scanTimestamp": {
        "type": "apiKey",
        "in": "header",
        "name": TIMESTAMP,
        "description": "Unix time in seconds, at most five minutes off.",
    },
    "scanSignature": {
        "type": "apiKey",
        "in": "header",
        "name": SIGNATURE,
        "description": "Hex of HMAC-SHA256 under the scanner's secret over method LF path LF timestamp LF raw body.",
    },
}
