"""Calls of JSON-RPC that are none: each is answered in its terms, and none is an error of ours."""

import json

import pytest

from tests.support.client_skills import NAME, put_installable
from tests.support.memory import memory_env
from tests.support.route_calls import call

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
VALUES = [None, True, 7, -1.5, "x", [], {}, [{}], {"uri": {}}, 10**30]


@pytest.fixture(scope="module")
def env():
    return memory_env()


async def post(env, sent):
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return await call(env, "POST /mcp", body=body, headers={"content-type": "application/json"})


def a_call(method: str, params=None, **more) -> dict:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}} | more


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{", PARSE_ERROR),
        (b"", PARSE_ERROR),
        (b"\xff", PARSE_ERROR),
        ([a_call("ping")], INVALID_REQUEST),
        ([], INVALID_REQUEST),
        (7, INVALID_REQUEST),
        (a_call("ping", jsonrpc="1.0"), INVALID_REQUEST),
        (a_call("ping") | {"method": 7}, INVALID_REQUEST),
        (a_call("ping") | {"params": [1]}, INVALID_REQUEST),
        (a_call("ping", id={}), INVALID_REQUEST),
        (a_call("ping", id=None), INVALID_REQUEST),
        (a_call("ping", id=True), INVALID_REQUEST),
        (a_call("ping", id=1.5), INVALID_REQUEST),
        (a_call("none"), NO_METHOD),
        (a_call("skills/get", {"uri": 7}), INVALID_PARAMS),
        (a_call("skills/get", {"uri": "skill://a/b/c/x.md"}), INVALID_PARAMS),
        (a_call("skills/list", {"cursor": "?"}), INVALID_PARAMS),
        (a_call("skills/list", {"cursor": 5}), INVALID_PARAMS),
        (a_call("tools/call", {"name": "rm"}), INVALID_PARAMS),
        (a_call("tools/call", {"name": "search_skills", "arguments": "x"}), INVALID_PARAMS),
        (a_call("tools/call", {"name": "search_skills", "arguments": {"query": "x", "limit": True}}), INVALID_PARAMS),
    ],
)
async def test_a_bad_call_is_answered_in_json_rpc(env, sent, code):
    answer = await post(env, sent)
    assert (answer.status, answer.json["error"]["code"]) == (200, code)
    has_id = isinstance(sent, dict) and sent["id"] == 1 and sent["id"] is not True
    assert answer.json["id"] == (1 if has_id else None)


@pytest.mark.requirement("S41")
@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/read", "tools/call", "initialize"])
async def test_no_value_of_any_parameter_is_an_error_of_ours(env, method):
    for value in VALUES:
        for name in ("uri", "cursor", "name", "arguments", "protocolVersion"):
            answer = await post(env, a_call(method, {"name": "search_skills", name: value}))
            assert answer.status == 200, (name, value)
            assert answer.json["id"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "skills/list"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
async def test_a_notification_or_a_response_gets_no_body(env, sent):
    answer = await post(env, sent)
    assert (answer.status, answer.text) == (202, "")


@pytest.mark.parametrize("id_", [0, -7, 2**80, "", "x" * 3000])
async def test_an_id_is_repeated_as_it_was_sent(env, id_):
    assert (await post(env, a_call("ping", id=id_))).json == {"jsonrpc": "2.0", "id": id_, "result": {}}


async def test_an_address_with_encoded_slashes_names_no_other_skill():
    env = memory_env()
    await put_installable(env)
    for uri in (NAME.replace("/", "%2F"), f"{NAME}%2FSKILL.md", f"acme%2Ftools/x/{NAME.rpartition('/')[2]}"):
        assert (await post(env, a_call("skills/get", {"uri": f"skill://{uri}/SKILL.md"}))).json["error"]
