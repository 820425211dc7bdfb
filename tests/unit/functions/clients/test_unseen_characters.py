"""What an older release kept of control and invisible characters in a description reaches no client."""

import json
import unicodedata

import pytest

from tests.support.client_skills import put_installable, some_files
from tests.support.memory import memory_env
from tests.support.route_calls import call

UNSEEN = "Sum\x1b[2J up\u202e, \u2066then\u200b \x07mail."
SHOWN = "Sum[2J up, then mail."
CLAWHUB = "/clawhub/api/v1"
PDF = {"owner": "acme", "repo": "tools", "skill": "pdf"}
SURFACES = {
    "index": ("GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json", "/x", PDF),
    "repository": ("GET /{owner}/{repo}/.well-known/agent-skills/index.json", "/x", PDF),
    "marketplace": ("GET /marketplace.json", "/x", {}),
    "npm": ("GET /npm/{proxy+}", "/x", {"proxy": "@acme/tools--pdf"}),
    "clawhub search": (f"GET {CLAWHUB}/search", "/x?q=pdf", {}),
    "clawhub list": (f"GET {CLAWHUB}/skills", "/x", {}),
    "clawhub show": (f"GET {CLAWHUB}/skills/{{slug}}", "/x", {"slug": "tools--pdf"}),
}


async def asked(env, method: str, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return (await call(env, "POST /mcp", body=body, headers={"content-type": "application/json"})).json["result"]


def unseen_in(value) -> set[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return {letter for item in value for letter in unseen_in(item)}
    letters = value if isinstance(value, str) else ""
    return {letter for letter in letters if unicodedata.category(letter) in ("Cc", "Cf")} - {"\n"}


@pytest.fixture
async def env():
    env = memory_env()
    await put_installable(env, description=UNSEEN)
    return env


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_list_of_clients_shows_the_description_without_them(env, surface):
    route, path, parts = SURFACES[surface]
    answer = await call(env, route, path, **parts)
    assert (answer.status, unseen_in(answer.json)) == (200, set())
    assert SHOWN in answer.text


async def test_mcp_shows_the_description_without_them(env):
    resources = await asked(env, "resources/list")
    found = await asked(env, "tools/call", name="search_skills", arguments={"query": "pdf"})
    assert SHOWN in json.dumps(resources)
    assert SHOWN in json.dumps(found)
    assert unseen_in([resources, found]) == set()


async def test_mcp_does_not_list_what_has_them_in_its_front_matter():
    """It is sent as it is written."""
    env = memory_env()
    await put_installable(env, files=some_files(more='metadata:\n  "hint": "go\\u202e"\n'))
    assert (await asked(env, "skills/list"))["skills"] == []
    [found] = (await asked(env, "tools/call", name="search_skills", arguments={"query": "pdf"}))["structuredContent"][
        "skills"
    ]
    assert found["uri"] is None
    await put_installable(env, "acme/tools/two", some_files("two", more="compatibility: |\n  Two\n  lines.\n"))
    assert len((await asked(env, "skills/list"))["skills"]) == 1
