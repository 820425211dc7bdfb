"""S16: every route of the template × who asks. What each route needs is written down here once more, by hand, so that a
wrong declaration is caught; a route that is not written down fails. The submission and the skill of the paths belong to
acme/skills: another owner is refused."""

import importlib
import json
import re
from datetime import timedelta

import pytest

from functions.html.responses import error_page
from functions.http.operations import Operation
from functions.http.routes import answer_event
from local.cloudformation import load
from shared.access.auth import sha256_of
from tests.support.memory import ADMIN_TOKEN, memory_env, within
from tests.support.owners import owned_skill, owned_submission, stored_owner_token
from tests.support.route_calls import an_event
from tests.support.template_checks import ROOT, routes_of

WHO = {
    "nobody": {},
    "a wrong token": {"authorization": "Bearer wrong"},
    "reviewer": {"authorization": f"Bearer {ADMIN_TOKEN}-reviewer"},
    "admin": {"authorization": f"Bearer {ADMIN_TOKEN}-admin"},
    "owner": {},  # with a token of their own for each store
    "other owner": {},
}
OWNERS = {"owner": ("acme/skills", 1000), "other owner": ("other/skills", 2000)}
ADMIN = "/api/v1/admin"
# A reviewer reads, and decides about what waits for a person. Everything else is for admins.
ROLES = {
    f"GET {ADMIN}/stuck": "reviewer",
    f"POST {ADMIN}/stuck/requeue": "admin",
    f"POST {ADMIN}/stuck/{{id}}/requeue": "admin",
    f"POST {ADMIN}/submissions/retry-all": "admin",
    f"POST {ADMIN}/submissions/{{id}}/approve": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/reject": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/retry": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/block": "admin",
    f"POST {ADMIN}/submissions/{{id}}/unblock": "admin",
    f"POST {ADMIN}/submissions/{{id}}/dequeue": "admin",
    f"GET {ADMIN}/submissions/{{id}}/review": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/claim": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/release": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/notes": "reviewer",
    f"GET {ADMIN}/appeals": "reviewer",
    f"POST {ADMIN}/submissions/{{id}}/appeals/{{appeal}}/answer": "reviewer",
    f"GET {ADMIN}/false-alarms": "reviewer",
    f"GET {ADMIN}/dead-letters": "reviewer",
    f"POST {ADMIN}/dead-letters/retry-all": "admin",
    f"POST {ADMIN}/dead-letters/{{id}}/retry": "reviewer",
    f"POST {ADMIN}/dead-letters/{{id}}/discard": "admin",
    f"GET {ADMIN}/queue": "reviewer",
    f"POST {ADMIN}/queue/pause": "admin",
    f"POST {ADMIN}/queue/resume": "admin",
    f"POST {ADMIN}/blocklist": "admin",
    f"POST {ADMIN}/blocklist/remove": "admin",
    **{
        f"POST {ADMIN}/skills/{{owner}}/{{repo}}/{{skill}}/{verb}": "admin"
        for verb in ("block", "unblock", "yank", "unyank", "rescan", "delete")
    },
    f"POST {ADMIN}/skills/rescan": "admin",
    f"GET {ADMIN}/reports": "reviewer",
    f"POST {ADMIN}/reports/{{id}}/confirm": "reviewer",
    f"POST {ADMIN}/reports/{{id}}/settle": "admin",
    f"GET {ADMIN}/audit": "reviewer",
    f"POST {ADMIN}/rebuild-index": "admin",
    f"POST {ADMIN}/build-artifacts": "admin",
    f"POST {ADMIN}/recount": "reviewer",  # to look; what was found is put right by an admin only
    f"POST {ADMIN}/migrate-skill-slugs": "admin",
    f"GET {ADMIN}/tokens": "reviewer",
    f"POST {ADMIN}/tokens/{{id}}/revoke": "admin",
}
# With an owner token for any repository: it is about the caller's own, which the token names.
OF_ANY_OWNER = {
    "GET /api/v1/owner/tokens",
    "POST /api/v1/owner/tokens",
    "GET /api/v1/owner/notifications",
    "POST /api/v1/owner/webhook",
    "POST /api/v1/owner/webhook/remove",
    "GET /api/v1/owner/submissions",
}
# About a submission, skill or token of acme/skills, with a body that would be accepted.
OF_ITS_OWNER: dict[str, dict] = {
    "POST /api/v1/owner/tokens/{id}/revoke": {},
    **{f"POST /api/v1/owner/submissions/{{id}}/{verb}": {"reason": "because"} for verb in ("cancel", "reopen")},
    "POST /api/v1/owner/submissions/{id}/appeals": {"points": [{"why": "because"}]},
    **{
        f"POST /api/v1/owner/skills/{{owner}}/{{repo}}/{{skill}}/{verb}": {"reason": "because"}
        for verb in ("rescan", "withdraw", "restore", "undeprecate")
    },
    "POST /api/v1/owner/skills/{owner}/{repo}/{skill}/deprecate": {"sentence": "Use another one."},
    "POST /api/v1/owner/skills/{owner}/{repo}/{skill}/transfer": {"reason": "because", "targetToken": "TOKEN"},
}
SIGNED = {
    "POST /api/v1/internal/scans/claim",
    "POST /api/v1/internal/scans/files",
    "POST /api/v1/webhooks/scan-results",
}
PUBLIC_API = re.compile(r"/api/v1/(submissions|skills|owners|queue|blocklist|stats|health|openapi\.json)(/.*)?")
PUBLIC_PAGES = re.compile(
    r"/|/\.well-known/([a-z-]+\.json|security\.txt)|/(favicon\.ico|robots\.txt|sitemap\.xml)"
    r"|/(queue|submit|skills|submissions|docs|assets|theme|feeds|guide|owners|policies|rules|sitemaps)(/.*)?"
)
# For programs that install skills: public and read-only, like the pages.
PUBLIC_CLIENTS = re.compile(
    r"/api/search|/mcp|/\.well-known/clawhub\.json|/marketplace\.json|/(artifacts|clawhub|marketplace|npm)/.*"
    r"|/\{owner\}/\{repo\}/(\{skill\}/(\{version\}/)?)?\.well-known/agent-skills/index\.json"
)
LET_IN = {
    "reviewer": ("reviewer", "admin"),
    "admin": ("admin",),
    "an owner": tuple(OWNERS),
    "its owner": ("owner",),
    "a signature": (),
}
PATHS = {"id": "sub_" + "0" * 26, "proxy": "nobody/nothing/none", "name": "none"}

ROUTES = routes_of(load(ROOT / "template.yaml"))


def needs(route: str) -> str:
    """everybody, a signature, a session, or a role."""
    path = route.partition(" ")[2]
    if route in ROLES:
        return ROLES[route]
    if route in SIGNED:
        return "a signature"
    if route in OF_ANY_OWNER:
        return "an owner"
    if route in OF_ITS_OWNER:
        return "its owner"
    if path == "/owner" or path.startswith(("/admin", "/owner/")):
        return "a session"
    public = (PUBLIC_API, PUBLIC_PAGES, PUBLIC_CLIENTS)
    if route == "$default" or any(paths.fullmatch(path) for paths in public):
        return "nothing"
    raise AssertionError(f"This table does not say who may use {route}.")


async def ask(env, module: str, route: str, who: str) -> int:
    parameters = {name: PATHS.get(name, "none") for name in re.findall(r"\{(\w+)\+?\}", route)}
    headers = WHO[who] | {"content-type": "application/json"}
    if route in OF_ITS_OWNER:
        parameters |= await _owned_subjects(env, route)
    if who in OWNERS:
        headers["authorization"] = f"Bearer {await stored_owner_token(env, *OWNERS[who])}"
    target = await stored_owner_token(env, "acme/new", 3000)  # where a skill is transferred to
    body = json.dumps(OF_ITS_OWNER.get(route, {})).replace("TOKEN", target).encode()
    path = re.sub(r"\{(\w+)\+?\}", lambda match: parameters[match[1]], route.partition(" ")[2] or "/nowhere")
    event = an_event(route, path, parameters, body, headers, [])
    event["requestContext"]["http"]["method"] = route.partition(" ")[0]
    routes = importlib.import_module(module).ROUTES
    answer = await within(env, lambda: answer_event(event, routes, error_page, timedelta(seconds=30)))
    return answer["statusCode"]


async def _owned_subjects(env, route: str) -> dict[str, str]:
    """What the path names, there for its owner to act on."""
    if "/tokens/" in route:
        return {"id": sha256_of(await stored_owner_token(env, *OWNERS["owner"]))[:12]}
    if "/submissions/" in route:
        return {"id": (await owned_submission(env)).id}
    await owned_skill(env)
    return {"owner": "acme", "repo": "skills", "skill": "pdf"}


def is_let_in(need: str, who: str) -> bool:
    return who in LET_IN.get(need, WHO)


@pytest.mark.requirement("S16")
@pytest.mark.parametrize(("module", "route"), ROUTES, ids=[route for _, route in ROUTES])
async def test_every_route_lets_in_exactly_the_roles_it_should(module, route):
    need = needs(route)
    for who in WHO:
        status = await ask(memory_env(), module, route, who)
        assert status < 500, (who, status)
        if need == "a session":  # a page: the door for everybody without one; forms are refused
            assert status == 200 if route.startswith("GET ") else status in (400, 401, 403, 415), (who, status)
        elif is_let_in(need, who):
            assert status not in (401, 403), (who, status)
        elif (need, who) == ("its owner", "other owner"):
            assert status in (403, 404), (who, status)  # 404: of another's tokens not even the ids are told
        else:
            assert status == (403 if need == "admin" and who == "reviewer" else 401), (who, status)


@pytest.mark.requirement("S16")
@pytest.mark.parametrize(("module", "route"), ROUTES, ids=[route for _, route in ROUTES])
def test_the_declaration_says_the_same(module, route):
    declared = importlib.import_module(module).ROUTES[route]
    if not isinstance(declared, Operation):
        return
    assert declared.role == (needs(route) if needs(route) in ("reviewer", "admin") else None)
    assert declared.owned == (needs(route) in ("an owner", "its owner"))
    assert declared.signed == (route if needs(route) == "a signature" else None)


@pytest.mark.requirement("S16")
def test_a_route_without_an_expectation_is_noticed():
    for route in ("POST /api/v1/admin/everything", "GET /api/v1/secrets", "GET /backup", "POST /api/v1/internal/run"):
        with pytest.raises(AssertionError, match="This table does not say"):
            needs(route)


@pytest.mark.requirement("S16")
def test_there_is_a_door_of_every_kind():
    assert {needs(route) for _, route in ROUTES} == {"nothing", "a session", *LET_IN}
