"""A route of the API, declared once: the declaration guards it, reads what was sent, and describes it to strangers.

    @operation("Stuck submissions, and what the scan would do with each", gives=StuckList, role="reviewer")
    async def list_stuck(request: Request, by: AdminToken) -> Answer: ...

What a route function takes besides the request says what is read before it runs: `query` and `body` are msgspec
structs that refuse what they do not know, `by` is the token of whoever asks, `provider` the scanner that signed. The
order is fixed: limits first (before any other store read), then who it is, then what was sent.
"""

import inspect
import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from functions.http.answer import Answer
from functions.http.request import Request, fit
from shared.access.auth import authorize
from shared.access.limits import take_from_limit
from shared.access.webhook_auth import authenticate
from shared.errors import InvalidRequest


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """It takes no query parameters."""


@dataclass(frozen=True)
class Operation:
    run: Callable[..., Awaitable[Answer]]
    summary: str
    gives: Mapping[int, Any]  # status -> the type of its JSON, or a media type, or several of them
    refuses: tuple[int, ...] = ()  # beside what follows from the rest of the declaration
    role: str | None = None  # of the bearer token; None: for everybody
    signed: str | None = None  # "METHOD /path", where scanners elsewhere sign what they send
    limit: str | None = None  # a name in shared/access/limits.py
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    details: str = ""
    tag: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # that a client may send, and what for
    path: Mapping[str, Any] = field(default_factory=dict)  # types of path parameters that are more than a text
    cached: bool = False  # its answers have an ETag: whoever has one already gets 304

    async def __call__(self, request: Request) -> Answer:
        limit = await take_from_limit(self.limit, request.source_ip) if self.limit else {}
        given: dict[str, Any] = {}
        if self.signed:
            given["provider"] = await authenticate(self.signed, request.headers, request.body)
        if self.role:
            given["by"] = await authorize(request.headers.get("authorization"), self.role, request.source_ip)
        query = read_query(request, self.query)
        if self.query is not NoQuery:
            given["query"] = query
        if self.body is not None:
            given["body"] = _read_body(request, self.body)
        takes = inspect.signature(self.run).parameters
        answer = await self.run(request, **{name: value for name, value in given.items() if name in takes})
        return answer._replace(headers={**answer.headers, **limit}) if limit else answer


def operation(
    summary: str, *, gives: Any, refuses: tuple[int, ...] = (), **declared: Any
) -> Callable[[Callable[..., Awaitable[Answer]]], Operation]:
    """`gives` is one type for 200, or a type per status. The docstring of the route is what the contract adds."""

    def declare(run: Callable[..., Awaitable[Answer]]) -> Operation:
        hints = get_type_hints(run)
        read = {name: hints[name] for name in ("query", "body") if name in hints}
        answers = gives if isinstance(gives, Mapping) else {200: gives}
        return Operation(run, summary, answers, refuses, details=inspect.getdoc(run) or "", **read, **declared)

    return declare


def read_query(request: Request, type_: type[msgspec.Struct]) -> Any:
    """Each parameter by itself, so that a refusal names the one that does not fit."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    request.allow_query(*fields)
    missing = [name for name, known in fields.items() if known.required and name not in request.query]
    if missing:
        raise InvalidRequest(f"The query parameter `{missing[0]}` is needed.", code="missing_parameter")
    return type_(
        **{fields[sent].name: _converted(sent, text, fields[sent].type) for sent, text in request.query.items()}
    )


def _read_body(request: Request, type_: Any) -> Any:
    if get_origin(type_) not in (Union, types.UnionType):
        return request.json(type_)
    sent = request.json(dict[str, Any])
    return fit(sent, _shape_of(sent, get_args(type_)))


def _shape_of(sent: Mapping[str, Any], shapes: tuple[Any, ...]) -> Any:
    """The shape with the most of its own fields in what was sent: its refusal says the most."""
    fitting = [shape for shape in shapes if required_fields(shape) <= sent.keys()]
    if fitting:
        return max(fitting, key=lambda shape: len(required_fields(shape)))
    wanted = (" and ".join(f"`{name}`" for name in sorted(required_fields(shape))) for shape in shapes)
    raise InvalidRequest(f"Send an object with {', or '.join(wanted)}.", code="invalid_body")


def required_fields(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape) if field.required}


def _converted(name: str, text: str, type_: Any) -> Any:
    plain, meta = _parts(type_)
    try:
        return msgspec.convert(_number(text) if plain is int else text, type_)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidRequest(f"`{name}` {_must(plain, meta)}.", code=f"invalid_{name}") from error


def _number(text: str) -> int:
    """Digits and nothing else: `int` also reads signs, spaces, underscores and other scripts."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(text)
    return int(text)


def _parts(type_: Any) -> tuple[Any, msgspec.Meta]:
    """`Annotated[int, Meta(...)] | None` is an int with a Meta."""
    if get_origin(type_) in (Union, types.UnionType):
        return _parts(next(part for part in get_args(type_) if part is not type(None)))
    if get_origin(type_) is Annotated:
        return get_args(type_)[0], get_args(type_)[1]
    return type_, msgspec.Meta()


def _must(plain: Any, meta: msgspec.Meta) -> str:
    """What a parameter must be, in words."""
    if get_origin(plain) is Literal:
        return f"must be one of {', '.join(get_args(plain))}"
    if plain is int:
        return f"must be a whole number from {meta.ge} to {meta.le}"
    return f"must have {meta.min_length or 0} to {meta.max_length} characters"
