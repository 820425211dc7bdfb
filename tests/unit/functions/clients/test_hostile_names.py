"""Hostile names and contents through every surface: nothing leads out of a folder, into a header, to another skill."""

import asyncio
import json
from urllib.parse import urlencode

import pytest

from functions import registry
from tests.support.client_skills import NAME, put_installable, some_files
from tests.support.memory import memory_env
from tests.support.route_calls import call

NAMES = [
    "..",
    "../../etc/passwd",
    "%2e%2e",
    "a\r\nset-cookie: x=1",
    "a\nb",
    "\0",
    "a b",
    "ä",
    "🙂",
    "-" * 300,
    "--",
    "@",
    "@a/@b--c",
    "@acme/../tools--pdf",
    "@ACME/TOOLS--PDF ",
    "a" * 5000,
    "{owner}",
    "<script>alert(1)</script>",
    "' OR 1=1 --",
]
RIGHT = {
    "owner": "acme",
    "repo": "tools",
    "skill": "pdf",
    "version": "1.0.0",
    "slug": "tools--pdf",
    "file": "acme.json",
    "proxy": "@acme/tools--pdf",
}
PARAMETERS = ("owner", "repo", "skill", "version", "file", "slug", "proxy")


REFUSED = {400, 403, 404, 409}
LISTS = {  # of no name, so they are answered
    *("/.well-known/clawhub.json", "/api/search", "/marketplace.json"),
    *("/clawhub/api/v1/search", "/clawhub/api/v1/skills"),
}


@pytest.fixture(scope="module")
def env():
    env = memory_env()
    for name in (NAME, "acme/tools/a--b", "a/b/c", "uploads/anonymous/x"):
        asyncio.run(put_installable(env, name))
    return env


def statuses(route: str) -> set[int]:
    return {200} if route.partition(" ")[2] in LISTS else {415} if "/mcp" in route else REFUSED


@pytest.mark.requirement("S41")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
async def test_a_hostile_name_is_refused_by_every_route(env, name):
    before = dict(env.kv.items)
    for route in registry.ROUTES:
        path = f"/x?{urlencode(dict.fromkeys(('q', 'slug', 'ownerHandle', 'owner', 'version', 'path'), name))}"
        answer = await call(env, route, path, headers={"host": name}, **dict.fromkeys(PARAMETERS, name))
        assert answer.status in statuses(route), (route, answer.text)
        assert not any(letter in value for value in answer.headers.values() for letter in "\r\n\0")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "Sum it up." not in answer.text
    assert env.kv.items == before


@pytest.mark.requirement("S41")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
@pytest.mark.parametrize("part", PARAMETERS)
async def test_one_hostile_part_of_an_address_that_is_right_otherwise_is_refused(env, name, part):
    for route in registry.ROUTES:
        if f"{{{part}" not in route:
            continue
        answer = await call(env, route, "/x?path=SKILL.md&hash=0", **RIGHT | {part: name})
        assert answer.status in REFUSED, (route, answer.text)


@pytest.mark.parametrize("host", ["evil.example/x", "a\r\nb", "<b>", "a b", "user@host", ""])
async def test_a_strange_host_is_not_repeated(env, host):
    answer = await call(env, "GET /.well-known/clawhub.json", headers={"host": host})
    assert answer.json == {"apiBase": "http://localhost/clawhub"}


@pytest.mark.parametrize("path", ["../SKILL.md", "/etc/passwd", "..%2f..%2fx", "notes/../SKILL.md", ""])
async def test_a_path_outside_the_skill_is_no_file(path):
    env = memory_env()
    await put_installable(env)
    root = "/clawhub/api/v1/skills/{slug}/file"
    answer = await call(env, f"GET {root}", f"{root}?path={path}", slug="tools--pdf")
    assert answer.status == 404
    body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": f"skill://{NAME}/{path}"}}
    read = await call(env, "POST /mcp", body=json.dumps(body).encode(), headers={"content-type": "application/json"})
    assert read.json["error"]["code"] == -32602


async def test_a_file_with_a_script_is_never_shown_as_a_page():
    env = memory_env()
    await put_installable(env, files=some_files() | {"x.html": b"<script>alert(1)</script>"})
    route = "/clawhub/api/v1/skills/{slug}/file"
    answer = await call(env, f"GET {route}", f"{route}?path=x.html", slug="tools--pdf")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.requirement("S41")
async def test_files_that_leave_their_folder_are_on_no_surface():
    env = memory_env()
    await put_installable(env, files=some_files() | {"../evil.sh": b"rm -rf /"})
    assert env.content.bodies == {}
    index = await call(
        env,
        "GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json",
        "/x",
        owner="acme",
        repo="tools",
        skill="pdf",
    )
    assert index.status == 404
    assert (await call(env, "GET /marketplace.json")).json["plugins"] == []
    assert (await call(env, "GET /clawhub/api/v1/skills")).json["items"] == []
