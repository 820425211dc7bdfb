"""S35: an Idempotency-Key belongs to the address or token that used it, and so does the response."""

import json

import pytest

from shared.access.idempotency import Idempotency, caller_of, response_put
from shared.storage.kv import Key, Put
from tests.support.builders import a_bundle
from tests.support.memory import ADMIN_TOKEN, memory_env, within
from tests.support.route_calls import call

KEY = "a-key-that-a-stranger-may-know"
MINE, STRANGERS = "192.0.2.1", "198.51.100.7"
TOKEN = {"authorization": f"Bearer {ADMIN_TOKEN}-reviewer"}


@pytest.fixture
def env():
    return memory_env()


async def submit(env, source_ip=MINE, name="greeter", **headers):
    bundle = a_bundle(name)
    files = [{"path": path, "content": content} for path, content in bundle["files"]]
    body = json.dumps({"bundle": {"name": name, "files": files}}).encode()
    sent = {"content-type": "application/json", "idempotency-key": KEY, **headers}
    return await call(env, "POST /api/v1/submissions", body=body, headers=sent, source_ip=source_ip)


@pytest.mark.requirement("S35")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (MINE, STRANGERS),
        ("2001:db8:0:1::5", "2001:db8:0:2::5"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),
    ],
)
async def test_the_token_of_an_upload_is_never_returned_to_another_address(env, first, second):
    mine = await submit(env, first)
    assert mine.status == 201
    assert mine.json["uploadToken"]
    again = await submit(env, second)
    assert again.status == 200
    assert again.json["duplicate"] is True
    assert "uploadToken" not in again.json


@pytest.mark.requirement("S35")
@pytest.mark.parametrize(
    ("first", "second"), [(MINE, MINE), (MINE, "::ffff:192.0.2.1"), ("2001:db8:0:1::5", "2001:db8:0:1:9::7")]
)
async def test_a_repeated_request_of_the_same_caller_gets_its_response_again(env, first, second):
    mine = await submit(env, first)
    assert (await submit(env, second)).json == mine.json


@pytest.mark.requirement("S35")
async def test_a_known_key_of_another_caller_is_simply_another_key(env):
    await submit(env)
    other = await submit(env, STRANGERS, name="another")
    assert other.status == 201
    assert other.json["uploadToken"]


@pytest.mark.requirement("S35")
async def test_a_caller_with_a_token_keeps_its_key_at_any_address_and_no_other_caller_gets_it(env):
    mine = await submit(env, **TOKEN)
    assert (await submit(env, STRANGERS, **TOKEN)).json == mine.json
    assert "uploadToken" not in (await submit(env)).json
    assert "uploadToken" not in (await submit(env, authorization=f"Bearer {ADMIN_TOKEN}-admin")).json


@pytest.mark.requirement("S35")
@pytest.mark.parametrize("placeholder", ["Bearer undefined", "Bearer ", "Basic Og==", "Bearer\u00e9"])
async def test_an_unknown_token_does_not_distinguish_callers(env, placeholder):
    mine = await submit(env, authorization=placeholder)
    assert (await submit(env, authorization=placeholder)).json == mine.json
    assert "uploadToken" not in (await submit(env, STRANGERS, authorization=placeholder)).json


@pytest.mark.requirement("S35")
async def test_a_key_stored_before_callers_were_known_belongs_to_no_caller(env):
    mine = await submit(env)
    [stored] = [item for key, item in env.kv.items.items() if key.pk.startswith("idem:")]
    for key in [key for key in env.kv.items if key.pk.startswith("idem:")]:
        del env.kv.items[key]
    await env.kv.put(Put(Key(f"idem:{KEY}", "."), stored.doc, stored.attrs))
    assert "uploadToken" in mine.json
    assert "uploadToken" not in (await submit(env)).json
    assert "uploadToken" not in (await submit(env, STRANGERS)).json


@pytest.mark.requirement("S35")
async def test_what_is_stored_reveals_neither_address_nor_token(env):
    callers = [await within(env, lambda ip=ip: caller_of(None, ip)) for ip in (MINE, STRANGERS)]
    put = await within(env, lambda: _put(Idempotency(KEY, "hash", caller=callers[0])))
    assert MINE not in put.key.pk
    assert len(set(callers)) == 2
    assert all(len(caller) == 64 for caller in callers)


async def _put(idempotency):
    return response_put(idempotency, "sub_1")
