"""A route of the API, declared once: the declaration guards it, parses the request and documents it in OpenAPI.

    @operation("Stuck submissions, and what the scan would do with each", gives=StuckList, role="reviewer")
    async def list_stuck(request: Request, by: AdminToken) -> Answer: ...

The parameters of a route function say what it gets besides the request: `query` and `body` are msgspec structs that
refuse unknown fields, `by` is the caller's admin token, `owner` the repository of the owner token (where `owned=True`
is declared), `provider` the scanner that signed the request. The order is fixed: rate limits first (before any other
store read), then authentication, then query and body.
"""

import inspect
import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from functions.http.answer import Answer
from functions.http.request import Request, fit
from shared.access.auth import authorize
from shared.access.limits import take_from_limit
from shared.access.webhook_auth import authenticate
from shared.errors import InvalidRequest
from shared.settings import find_whole_number


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No query parameters."""


@dataclass(frozen=True)
class Operation:
    run: Callable[..., Awaitable[Answer]]
    summary: str
    gives: Mapping[int, Any]  # status -> the type of its JSON, or a media type, or several of them
    takes: tuple[
        str, ...
    ]  # of `query`, `body`, `by`, `owner` and `provider`: the parameters of `run` after the request
    refuses: tuple[int, ...] = ()  # besides the statuses that follow from the rest of the declaration
    role: str | None = None  # of the bearer token; None: public
    owned: bool = False  # requires an owner token
    signed: str | None = None  # "METHOD /path", where external scanners sign their requests
    limit: str | None = None  # a name in shared/access/limits.py
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    details: str = ""
    tag: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # optional request headers and their descriptions
    path: Mapping[str, Any] = field(default_factory=dict)  # types of path parameters that are more than a string
    cached: bool = False  # its responses have an ETag, so a client that has the current one gets 304

    async def __call__(self, request: Request) -> Answer:
        limit = await take_from_limit(self.limit, request.source_ip) if self.limit else {}
        values: dict[str, Any] = {}
        if self.signed:
            values["provider"] = await authenticate(self.signed, request.headers, request.body)
        if self.role:
            values["by"] = await authorize(request.headers.get("authorization"), self.role, request.source_ip)
        if self.owned:
            values["owner"] = await _owner_of(request)
        values["query"] = _read_query(request, self.query)
        if self.body is not None:
            values["body"] = _read_body(request, self.body)
        answer = await self.run(request, **{name: values[name] for name in self.takes})
        return answer._replace(headers={**answer.headers, **limit}) if limit else answer


async def _owner_of(request: Request) -> Any:
    from shared.access.owners import authorize_owner, count_owner_action  # here: the other functions start without it

    owner = await authorize_owner(request.headers.get("authorization"), request.source_ip)
    if request.method == "POST":
        await count_owner_action(owner)
    return owner


def operation(
    summary: str, *, gives: Any, refuses: tuple[int, ...] = (), **declared: Any
) -> Callable[[Callable[..., Awaitable[Answer]]], Operation]:
    """`gives` is one type for 200, or a type per status. The route's docstring becomes its OpenAPI description."""

    def declare(run: Callable[..., Awaitable[Answer]]) -> Operation:
        _, *takes = inspect.signature(run).parameters
        hints = get_type_hints(run)
        types_ = {name: hints[name] for name in ("query", "body") if name in hints}
        answers = gives if isinstance(gives, Mapping) else {200: gives}
        details = inspect.getdoc(run) or ""
        return Operation(run, summary, answers, tuple(takes), refuses, details=details, **types_, **declared)

    return declare


def _read_query(request: Request, type_: type[msgspec.Struct]) -> Any:
    """Each parameter by itself, so that the error names the invalid one."""
    fields = _fields_of(type_)
    request.allow_query(*fields)
    missing = [name for name, known in fields.items() if known.required and name not in request.query]
    if missing:
        raise InvalidRequest(f"The query parameter `{missing[0]}` is required.", code="missing_parameter")
    return type_(
        **{fields[sent].name: _converted(sent, text, fields[sent].type) for sent, text in request.query.items()}
    )


@cache
def _fields_of(type_: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(type_)}


def _read_body(request: Request, type_: Any) -> Any:
    schemas = alternatives(type_)
    if len(schemas) == 1:
        return request.json(type_)
    sent = request.json(dict[str, Any])
    return fit(sent, _schema_of(sent, schemas))


def _schema_of(sent: Mapping[str, Any], schemas: tuple[Any, ...]) -> Any:
    """The most specific schema whose required fields were sent: its validation error says the most."""
    matching = [schema for schema in schemas if _required_fields(schema) <= sent.keys()]
    if matching:
        return max(matching, key=lambda schema: len(_required_fields(schema)))
    expected = (" and ".join(f"`{name}`" for name in sorted(_required_fields(schema))) for schema in schemas)
    raise InvalidRequest(f"Send an object with {', or '.join(expected)}.", code="invalid_body")


def _required_fields(schema: type[msgspec.Struct]) -> set[str]:
    return {name for name, known in _fields_of(schema).items() if known.required}


def _converted(name: str, text: str, type_: Any) -> Any:
    wanted = without_none(type_)
    plain, meta = _parts(wanted)
    try:
        return msgspec.convert(find_whole_number(text) if plain is int else text, wanted)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"`{name}` {_must(plain, meta)}.", code=f"invalid_{name}") from error


def without_none(type_: Any) -> Any:
    """A query parameter is present or absent: null cannot be sent."""
    return next((part for part in alternatives(type_) if part is not types.NoneType), type_)


def alternatives(type_: Any) -> tuple[Any, ...]:
    """The members of a union; msgspec describes unions of structs only where they have a tag, and ours have none."""
    return get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)


def _parts(type_: Any) -> tuple[Any, msgspec.Meta]:
    if get_origin(type_) is Annotated:
        return get_args(type_)[0], get_args(type_)[1]
    return type_, msgspec.Meta()


def _must(plain: Any, meta: msgspec.Meta) -> str:
    if get_origin(plain) is Literal:
        return f"must be one of {', '.join(get_args(plain))}"
    if plain is int:
        return f"must be a whole number from {meta.ge} to {meta.le}"
    return f"must have {meta.min_length or 0} to {meta.max_length} characters"
