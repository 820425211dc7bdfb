"""A declared route: what is checked before it runs, in which order, and what a refusal says."""

import dataclasses
import json
from datetime import timedelta
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.http.answer import Answer, Problem, json_of, response_of
from functions.http.operations import operation
from functions.http.request import Request
from shared.errors import InvalidRequest, TooManyRequests, Unauthorized
from shared.settings import Limit
from shared.storage.secret_store import AdminToken
from tests.support.gateway_events import reads_like_a_limit
from tests.support.memory import ADMIN_TOKEN, within


class Query(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    sort_dir: Literal["asc", "desc"] = "desc"
    q: Annotated[str, msgspec.Meta(min_length=1, max_length=5)] | None = None
    page: Annotated[int, msgspec.Meta(ge=1, le=9)] | None = None


class Body(msgspec.Struct, forbid_unknown_fields=True):
    why: str


@operation("Look", gives=dict)
async def look(request: Request, query: Query) -> Answer:
    return Answer(query)


@operation("Act", gives=dict, role="admin", limit="submit")
async def act(request: Request, body: Body, by: AdminToken) -> Answer:
    return Answer({"by": by.name, "why": body.why})


def a_request(query=None, headers=None, body=b""):
    return Request(query or {}, {}, headers or {}, body, source_ip="192.0.2.1")


AS_ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}-admin", "content-type": "application/json"}


async def test_what_was_sent_is_read_and_what_was_not_has_its_default(env):
    answer = await within(env, lambda: look(a_request({"limit": "7", "sortDir": "asc"})))
    assert answer.body == Query(7, "asc")


@pytest.mark.requirement("S08")
@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"limit": "0"}, "invalid_limit", "`limit` must be a whole number from 1 to 100."),
        ({"limit": "\u0661"}, "invalid_limit", "whole number"),
        ({"limit": "5_0"}, "invalid_limit", "whole number"),
        ({"limit": " 5"}, "invalid_limit", "whole number"),
        ({"limit": "+5"}, "invalid_limit", "whole number"),
        ({"limit": "1e1"}, "invalid_limit", "whole number"),
        ({"limit": "5.0"}, "invalid_limit", "whole number"),
        ({"limit": "9" * 400}, "invalid_limit", "whole number"),
        ({"limit": "null"}, "invalid_limit", "whole number"),
        ({"limit": ""}, "invalid_limit", "whole number"),
        ({"page": "x"}, "invalid_page", "`page` must be a whole number from 1 to 9."),
        ({"sortDir": "up"}, "invalid_sortDir", "`sortDir` must be one of asc, desc."),
        ({"q": "123456"}, "invalid_q", "`q` must have 1 to 5 characters."),
        ({"sort_dir": "asc"}, "unknown_parameter", "Supported: limit, sortDir, q, page."),
    ],
    ids=str,
)
async def test_a_parameter_that_does_not_fit_is_named(env, query, code, words):
    with pytest.raises(InvalidRequest) as refusal:
        await within(env, lambda: look(a_request(query)))
    assert refusal.value.code == code
    assert words in str(refusal.value)


async def test_a_route_function_is_inspected_when_it_is_declared_not_per_request(env, monkeypatch):
    monkeypatch.setattr("inspect.signature", None)
    assert (await within(env, lambda: look(a_request()))).body == Query()


async def test_the_word_null_is_a_word(env):
    answer = await within(env, lambda: look(a_request({"q": "null"})))
    assert answer.body.q == "null"


async def test_limits_come_first_then_who_then_what(env):
    limits = {"submit": Limit(2, timedelta(hours=1))}
    limited = dataclasses.replace(env, settings=dataclasses.replace(env.settings, limits=limits))
    with pytest.raises(Unauthorized):
        await within(limited, lambda: act(a_request(body=b"{}")))
    answer = await within(limited, lambda: act(a_request(headers=AS_ADMIN, body=b'{"why": "so"}')))
    assert answer.body == {"by": "admin", "why": "so"}
    assert answer.headers["ratelimit-remaining"] == "0"
    with pytest.raises(TooManyRequests):
        await within(limited, lambda: act(a_request(headers=AS_ADMIN, body=b"not even JSON")))


def test_a_client_that_has_the_current_answer_gets_304_and_a_changed_one_is_sent():
    first = response_of(Answer({"n": 1}, cache="public, max-age=60"), {})
    etag = first["headers"]["etag"]
    for known in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        again = response_of(Answer({"n": 1}, cache="public, max-age=60"), {"if-none-match": known})
        assert (again["statusCode"], again["body"], again["headers"]["etag"]) == (304, "", etag)
    changed = response_of(Answer({"n": 2}, cache="public, max-age=60"), {"if-none-match": etag})
    assert changed["statusCode"] == 200
    assert response_of(Answer({"n": 1}), {"if-none-match": etag})["statusCode"] == 200, (
        "only what may be kept is compared"
    )


class Needed(msgspec.Struct, forbid_unknown_fields=True):
    ids: str


@operation("Find", gives=dict)
async def find(request: Request, query: Needed) -> Answer:
    return Answer(query)


async def test_a_parameter_that_is_needed_and_missing_is_named(env):
    with pytest.raises(InvalidRequest, match="`ids` is required") as refusal:
        await within(env, lambda: find(a_request()))
    assert refusal.value.code == "missing_parameter"


class ByName(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Several(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    others: list[str]


class ByNumber(msgspec.Struct, forbid_unknown_fields=True):
    number: int


@operation("Take", gives=dict)
async def take(request: Request, body: ByName | Several | ByNumber) -> Answer:
    return Answer(body)


async def sent(env, body: bytes):
    return await within(env, lambda: take(a_request(headers={"content-type": "application/json"}, body=body)))


async def test_of_several_shapes_the_one_that_was_sent_is_read(env):
    assert (await sent(env, b'{"name": "a"}')).body == ByName("a")
    assert (await sent(env, b'{"name": "a", "others": []}')).body == Several("a", [])
    assert (await sent(env, b'{"number": 1}')).body == ByNumber(1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "Send an object with `name`, or `name` and `others`, or `number`."),
        (b"[]", "Expected `object`"),
        (b'{"name": 1}', r"Expected `str`, got `int` - at `$.name`"),
        (b'{"name": "a", "others": 1}', "$.others"),
        (b'{"name": "a", "number": 1}', "unknown field"),
    ],
    ids=str,
)
async def test_a_body_of_the_wrong_shape_is_refused_with_what_would_fit(env, body, words):
    with pytest.raises(InvalidRequest) as refusal:
        await sent(env, body)
    assert refusal.value.code == "invalid_body"
    assert words in str(refusal.value)


def test_neither_errors_nor_degraded_answers_are_ever_kept():
    class Degradable(msgspec.Struct):
        degraded: bool

    for answer in (Answer({}, 404, cache="public"), Answer(Degradable(degraded=True), cache="public")):
        headers = response_of(answer, {"if-none-match": "*"})["headers"]
        assert (headers["cache-control"], "etag" in headers) == ("no-store", False)
    assert response_of(Answer(Degradable(degraded=False), cache="public"), {})["headers"]["cache-control"] == "public"


@pytest.mark.parametrize(("text", "read"), [(b"5.0", 5), (b"5e0", 5), (b"-0.0", 0)])
async def test_a_whole_number_may_be_written_with_a_point(env, text, read):
    assert (await sent(env, b'{"number": ' + text + b"}")).body == ByNumber(read)


@pytest.mark.parametrize("text", [b"5.5", b"1e400", b"1e300", b'"5"', b"true"])
async def test_what_is_no_whole_number_is_refused(env, text):
    with pytest.raises(InvalidRequest):
        await sent(env, b'{"number": ' + text + b"}")


LIKE_LIMITS = ["separated", "RATE", "Rate", "v429", "4299", "\rate", "\rATE", '\\"rate 429', "\x0429", "ratrate\x1429"]
texts = st.lists(st.text(max_size=4) | st.sampled_from(LIKE_LIMITS), max_size=6).map("".join)
texts = texts.map(lambda text: text.encode(errors="replace").decode())


@given(texts, texts)
@example("separated 429", "RATE")
def test_an_error_reads_like_a_limit_only_if_it_is_one_and_its_text_is_never_changed(message, name):
    problem = Problem(422, "several_skills", message, f"request-429-{name}", {"skills": [name], name: True})
    body = json_of(problem).body
    assert not reads_like_a_limit(body.decode())
    assert json.loads(body) == {
        "error": {
            "code": problem.code,
            "message": message,
            "details": problem.details,
            "requestId": problem.request_id,
        },
        "message": message,
    }
    limit = json_of(problem._replace(status=429)).body
    assert reads_like_a_limit(limit.decode())
    assert json.loads(limit) == json.loads(body)


def test_numbers_in_details_are_left_alone():
    assert (
        json.loads(json_of(Problem(409, "conflict", "No.", "r", {"size": 429})).body)["error"]["details"]["size"] == 429
    )
