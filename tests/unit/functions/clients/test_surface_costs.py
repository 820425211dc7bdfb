"""An index, a search, a list or a download takes as many requests among 10,000 skills as among 100."""

import asyncio
import json
from urllib.parse import quote

import pytest

from shared.marketplace.manifest_store import manifest_put
from shared.marketplace.skill_index import index_puts
from shared.marketplace.skill_store import counts_put, new_counts, skill_put, version_put
from shared.records.manifests import FileDigest, Manifest
from shared.records.skills import Artifact, SkillVersion
from tests.support.client_skills import put_installable
from tests.support.counting_stores import CountingContent, CountingKV
from tests.support.memory import Stored, memory_env
from tests.support.route_calls import call
from tests.support.stored_skills import a_skill

DIGESTS = {
    packaging: Artifact(sha256="0" * 64, size=1, shasum="0", integrity="0") for packaging in ("tgz", "zip", "npm")
}
CLAWHUB = "/clawhub/api/v1"
SIZES = (100, 10_000)


def a_market(size: int):
    """Of one author, so that every page is full in both."""
    env = _counting_env()
    skills = [a_skill(f"author-7/tools/skill-{n}", n, description=f"Common word{n % 50}") for n in range(size)]
    for skill in skills:
        for put in (skill_put(skill, None), counts_put(new_counts(skill), None), *index_puts(skill)):
            env.kv.items[put.key] = Stored(put.doc, dict(put.attrs))
        for put in (_version(skill), _manifest(skill)):
            env.kv.items[put.key] = Stored(put.doc, {})
    asyncio.run(put_installable(env, "acme/tools/pdf"))
    return env


def _counting_env():
    env = memory_env(CountingKV)
    object.__setattr__(env, "content", CountingContent())
    return env


def _version(skill):
    return version_put(
        SkillVersion(
            name=skill.name,
            version="1.0.0",
            content_hash=skill.content_hash,
            submission_id=skill.submission_id,
            created_at=skill.updated_at,
            artifacts=DIGESTS,
        )
    )


def _manifest(skill):
    front_matter = {"name": skill.name.rpartition("/")[2], "description": skill.description}
    files = (FileDigest("SKILL.md", 1, "0" * 64),)
    return manifest_put(Manifest(name=skill.name, version="1.0.0", front_matter=front_matter, files=files))


@pytest.fixture(scope="module")
def markets():
    markets = [a_market(size) for size in SIZES]
    for env in markets:
        env.kv.freeze()
    return markets


def rpc(method: str, **params) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


PDF = {"owner": "acme", "repo": "tools", "skill": "pdf"}
CLAW = {"slug": "tools--pdf", "version": "1.0.0"}
CASES = {
    "index of a skill": ("GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json", "/x", PDF, b""),
    "index of a repository": (
        "GET /{owner}/{repo}/.well-known/agent-skills/index.json",
        "/x",
        {"owner": "author-7", "repo": "tools"},
        b"",
    ),
    "find": ("GET /api/search", "/api/search?q=common&limit=20", {}, b""),
    "marketplace": ("GET /marketplace.json", "/marketplace.json", {}, b""),
    "marketplace of an owner": ("GET /marketplace/owner/{file}", "/x", {"file": "author-7.json"}, b""),
    "find of an owner": ("GET /api/search", "/api/search?q=common&owner=author-7&limit=20", {}, b""),
    "index of a version": (
        "GET /{owner}/{repo}/{skill}/{version}/.well-known/agent-skills/index.json",
        "/x",
        PDF | {"version": "1.0.0"},
        b"",
    ),
    "marketplace of a repository": (
        "GET /marketplace/repository/{owner}/{file}",
        "/x",
        {"owner": "author-7", "file": "tools.json"},
        b"",
    ),
    "marketplace of a version": (
        "GET /marketplace/version/{owner}/{repo}/{skill}/{file}",
        "/x",
        PDF | {"file": "1.0.0.json"},
        b"",
    ),
    "marketplace of a tier": ("GET /marketplace/tier/{file}", "/x", {"file": "scanned.json"}, b""),
    "marketplace of a category": ("GET /marketplace/category/{file}", "/x", {"file": "other.json"}, b""),
    "package": ("GET /npm/{proxy+}", "/x", {"proxy": "@acme/tools--pdf"}, b""),
    "clawhub search": (f"GET {CLAWHUB}/search", f"{CLAWHUB}/search?q=common&limit=20", {}, b""),
    "clawhub list": (f"GET {CLAWHUB}/skills", f"{CLAWHUB}/skills?limit=20", {}, b""),
    "clawhub skill": (f"GET {CLAWHUB}/skills/{{slug}}", "/x?ownerHandle=acme", {"slug": "tools--pdf"}, b""),
    **{
        f"clawhub{suffix}": (f"GET {CLAWHUB}/skills/{{slug}}{suffix}", "/x?ownerHandle=acme&path=SKILL.md", CLAW, b"")
        for suffix in ("/versions", "/versions/{version}", "/file", "/verify", "/moderation")
    },
    "clawhub without an owner": (f"GET {CLAWHUB}/skills/{{slug}}", "/x", CLAW, b""),
    "clawhub resolve": (f"GET {CLAWHUB}/resolve", "/x?slug=tools--pdf&ownerHandle=acme&hash=0", {}, b""),
    "resources/list": ("POST /mcp", "/mcp", {}, rpc("resources/list")),
    "resources/read": ("POST /mcp", "/mcp", {}, rpc("resources/read", uri="skill://acme/tools/pdf/SKILL.md")),
    "skills/list": ("POST /mcp", "/mcp", {}, rpc("skills/list")),
    "skills/get": ("POST /mcp", "/mcp", {}, rpc("skills/get", uri="skill://acme/tools/pdf/SKILL.md")),
    "search_skills": ("POST /mcp", "/mcp", {}, rpc("tools/call", name="search_skills", arguments={"query": "common"})),
}


READ = ("clawhub/file", "resources/read")  # of the bucket: the zip that the file is in


@pytest.mark.parametrize("case", CASES)
async def test_as_many_requests_among_10000_skills_as_among_100(markets, case):
    route, path, parameters, body = CASES[case]
    taken = [await cost_of(env, route, path, body, parameters) for env in markets]
    assert taken[0] == taken[1]
    assert all(env.kv.round_trips <= 4 for env in markets)
    assert taken[0][1:] == (0, int(case in READ))  # nothing is written


async def cost_of(env, route: str, path: str, body: bytes = b"", parameters=PDF, **more) -> tuple[int, int, int]:
    """Reads and writes of the table, and requests to the bucket."""
    env.kv.forget()
    env.content.requests = 0
    headers = {"content-type": "application/json"}
    answer = await call(env, route, path, body=body, headers=headers, **more, **parameters)
    assert answer.status == 200, answer.text
    assert "error" not in answer.text[:200]
    return env.kv.requests, env.kv.writes, env.content.requests


PAGES = {
    "clawhub list": (f"GET {CLAWHUB}/skills", "/x?limit=20&cursor={cursor}", None),
    "skills/list": ("POST /mcp", "/mcp", "skills/list"),
    "resources/list": ("POST /mcp", "/mcp", "resources/list"),
}


@pytest.mark.parametrize("case", PAGES)
async def test_the_second_page_takes_as_many_too(markets, case):
    route, path, method = PAGES[case]
    taken = []
    for env in markets:
        first = rpc(method) if method else b""
        page = await call(env, route, "/x?limit=20", body=first, headers={"content-type": "application/json"})
        cursor = (page.json["result"] if method else page.json)["nextCursor"]
        body = rpc(method, cursor=cursor) if method else b""
        taken.append(await cost_of(env, route, path.replace("{cursor}", quote(cursor)), body, {}))
    assert taken[0] == taken[1]


PATHS = {
    "clawhub": (f"GET {CLAWHUB}/download", f"{CLAWHUB}/download?slug=tools--pdf&ownerHandle=acme"),
    "artifact": ("GET /artifacts/{owner}/{repo}/{skill}/{version}/{file}", "/x"),
    "api": ("GET /api/v1/skills/{proxy+}", "/api/v1/skills/x?format=zip"),
}


@pytest.fixture(scope="module")
def small_markets():
    return [a_small_market(size) for size in SIZES]


@pytest.mark.parametrize("surface", PATHS)
async def test_a_download_takes_the_same_requests_too(small_markets, surface):
    route, path = PATHS[surface]
    taken = []
    for env in small_markets:
        digest = next(key for key, body in env.content.bodies.items() if body[:2] == b"PK").partition("/")[2]
        named = PDF | {"version": "1.0.0", "file": f"{digest}.zip", "proxy": "acme/tools/pdf/versions/latest/download"}
        source_ip = f"198.51.100.{len(surface)}"
        taken.append([await cost_of(env, route, path, parameters=named, source_ip=source_ip) for _ in range(2)])
    assert taken[0] == taken[1]
    counted, again = taken[0]
    assert (counted[1:], again[1:]) == ((1, 1), (0, 1))  # one write that counts it, once a day


def a_small_market(size: int):
    """Records alone: a download looks nothing up in an index."""
    env = _counting_env()
    for put in (_version(a_skill(f"author/tools/skill-{n}", n)) for n in range(size)):
        env.kv.items[put.key] = Stored(put.doc, dict(put.attrs))
    asyncio.run(put_installable(env, "acme/tools/pdf"))
    return env
