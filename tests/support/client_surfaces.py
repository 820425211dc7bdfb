"""What each client asks for, and which of their surfaces know a skill."""

import json
from urllib.parse import urlsplit

from tests.support.client_skills import NAME
from tests.support.route_calls import call

SKILL_INDEX = "GET /{owner}/{repo}/{skill}/.well-known/agent-skills/index.json"
REPO_INDEX = "GET /{owner}/{repo}/.well-known/agent-skills/index.json"
ARTIFACT = "GET /artifacts/{owner}/{repo}/{skill}/{version}/{file}"
CLAWHUB = "/clawhub/api/v1"


async def index(env, skill: str = "pdf"):
    path = f"/acme/tools/{skill}/.well-known/agent-skills/index.json"
    return await call(env, SKILL_INDEX, path, owner="acme", repo="tools", skill=skill)


async def artifact(env, address: str, **more):
    _, _, owner, repo, skill, version, file = urlsplit(address).path.split("/")
    return await call(
        env, ARTIFACT, urlsplit(address).path, owner=owner, repo=repo, skill=skill, version=version, file=file, **more
    )


async def package(env, name: str = "@acme/tools--pdf"):
    return await call(env, "GET /npm/{proxy+}", f"/npm/{name}", proxy=name, headers={"host": "skills.example"})


async def market(env):
    return await call(env, "GET /marketplace.json", headers={"host": "skills.example"})


async def claw(env, suffix: str, **path: str):
    route = f"GET {CLAWHUB}{suffix.partition('?')[0]}"
    return await call(env, route, f"{CLAWHUB}{suffix}".replace("{slug}", path.get("slug", "")), **path)


async def rpc(env, method: str, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return (await call(env, "POST /mcp", body=body, headers={"content-type": "application/json"})).json


MARKETPLACES = {
    "owner/{file}": {"file": "acme.json"},
    "repository/{owner}/{file}": {"owner": "acme", "file": "tools.json"},
    "version/{owner}/{repo}/{skill}/{file}": {"owner": "acme", "repo": "tools", "skill": "pdf", "file": "1.0.0.json"},
    "category/{file}": {"file": "other.json"},
    "tier/{file}": {"file": "scanned.json"},
}


async def market_of(env, name: str, **parts: str):
    return await call(env, f"GET /marketplace/{name}", "/x", **MARKETPLACES[name] | parts)


async def pinned_index(env, version: str):
    route = SKILL_INDEX.replace("{skill}", "{skill}/{version}")
    return await call(env, route, "/x", owner="acme", repo="tools", skill="pdf", version=version)


async def listings(env) -> dict[str, bool]:
    """Which surface still knows the skill."""
    listed = (await rpc(env, "skills/list"))["result"]["skills"]
    found = (await rpc(env, "tools/call", name="search_skills", arguments={"query": "pdf"}))["result"]
    shown = await claw(env, "/skills/{slug}", slug="tools--pdf")
    version = "/skills/{slug}/versions/{version}"
    repo = await call(env, REPO_INDEX, "/acme/tools/.well-known/agent-skills/index.json", owner="acme", repo="tools")
    return {
        "index": (await index(env)).status == 200,
        "repository": repo.status == 200,
        "search": bool((await call(env, "GET /api/search", "/api/search?q=pdf")).json["skills"]),
        "index of a version": (await pinned_index(env, "1.0.0")).status == 200,
        "marketplace": bool((await market(env)).json["plugins"]),
        **{name: (await market_of(env, name)).status == 200 for name in MARKETPLACES},
        "npm": (await package(env)).status == 200,
        "clawhub search": bool((await claw(env, "/search?q=pdf")).json["results"]),
        "clawhub list": bool((await claw(env, "/skills")).json["items"]),
        "clawhub install": shown.status == 200 and not shown.json["moderation"]["isMalwareBlocked"],
        "clawhub download": (await claw(env, "/download?slug=tools--pdf")).status == 200,
        "clawhub versions": bool((await claw(env, "/skills/{slug}/versions", slug="tools--pdf")).json.get("items")),
        "clawhub version": (await claw(env, version, slug="tools--pdf", version="1.0.0")).status == 200,
        "clawhub file": (await claw(env, "/skills/{slug}/file?path=SKILL.md", slug="tools--pdf")).status == 200,
        "clawhub resolve": bool((await claw(env, "/resolve?slug=tools--pdf&hash=0")).json.get("latestVersion")),
        "mcp list": bool(listed),
        "mcp resources": bool((await rpc(env, "resources/list"))["result"]["resources"]),
        "mcp search": bool(found["structuredContent"]["skills"]),
        "mcp get": "result" in await rpc(env, "skills/get", uri=f"skill://{NAME}/SKILL.md"),
        "mcp read": "result" in await rpc(env, "resources/read", uri=f"skill://{NAME}/SKILL.md"),
    }
