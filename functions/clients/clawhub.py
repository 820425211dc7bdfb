"""The `clawhub` command: its registry, read-only, under /clawhub. Times are milliseconds.

What is blocked is answered with `isMalwareBlocked`, which the client refuses to install even with --force. That is not
said of a skill whose repository changed hands: it is refused with the reason.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from functions.clients.artifacts import FILE_HEADERS, artifact_answer, read_files
from functions.clients.clawhub_fingerprints import fingerprint_of
from functions.clients.lenient_query import limit_of, text_of
from functions.http.answer import REVALIDATE, Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.cursor import make_cursor, read_cursor
from shared.errors import Forbidden, NotFound
from shared.evidence.blocklist import find_bans
from shared.marketplace.client_listing import CLAWHUB, described
from shared.marketplace.client_names import clawhub_slug_of, find_by_clawhub_slug
from shared.marketplace.installable import (
    Installable,
    get_installable_versions,
    installable_of,
    read_installable,
    require_served,
)
from shared.marketplace.manifest_store import find_manifest, read_manifests
from shared.marketplace.published_content import refuse_held
from shared.marketplace.skill_search import SkillPage, SkillQuery, list_skills
from shared.marketplace.skill_store import skill_not_found
from shared.records.manifests import Manifest
from shared.records.skills import Skill, SkillVersion, full_name, sort_key, split_name

MAX_ITEMS = 100
ROOT = "/clawhub/api/v1"
ORDERS = {"installs": "installs", "downloads": "installs", "trending": "installs"}  # of `sort`; all others: newest
Json = dict[str, Any]


async def discover(request: Request) -> Answer:
    return Answer({"apiBase": f"{request.site}/clawhub"}, cache=REVALIDATE)


async def search(request: Request) -> Answer:
    page = await list_skills(SkillQuery(q=text_of(request, "q"), limit=limit_of(request, 25, MAX_ITEMS)))
    found = await read_installable(page.skills, CLAWHUB)
    return Answer({"results": [_result(each, n) for n, each in enumerate(found)]}, cache=REVALIDATE)


async def list_(request: Request) -> Answer:
    """Newest first, or most installed; `prefix` searches for names."""
    order, words = ORDERS.get(request.query.get("sort", "")), text_of(request, "prefix")
    filter_ = f"clawhub {order} {words}"
    after = await read_cursor(request.query.get("cursor"), filter_)
    page = await list_skills(SkillQuery(q=words, sort=order, limit=limit_of(request, 25, MAX_ITEMS), after=after))
    found = await read_installable(page.skills, CLAWHUB)
    items = [_item(each, _installs(page, each.skill)) for each in found]
    return Answer({"items": items, "nextCursor": await make_cursor(page.next_position, filter_)}, cache=REVALIDATE)


async def show(request: Request) -> Answer:
    skill = await _get_skill(request)
    refuse_held(skill)
    moderation = await _moderation(skill)
    latest = None if moderation["isMalwareBlocked"] else _latest(skill)
    body = {"skill": _skill(skill), "latestVersion": latest, "owner": _owner(skill), "moderation": moderation}
    return Answer(body, cache=REVALIDATE)


async def versions(request: Request) -> Answer:
    skill = require_served(await _get_skill(request), request.path["slug"])
    filter_ = f"clawhub versions {skill.name}"
    after = await read_cursor(request.query.get("cursor"), filter_)
    found = [each for each in await get_installable_versions(skill) if after is None or _is_older(each, after)]
    shown = found[: limit_of(request, 25, MAX_ITEMS)]
    cursor = await make_cursor(shown[-1].version if len(shown) < len(found) else None, filter_)
    return Answer({"items": [_version(each) for each in shown], "nextCursor": cursor}, cache=REVALIDATE)


async def version(request: Request) -> Answer:
    found = await _get_installable(request, request.path["version"])
    manifest = await find_manifest(found.skill.name, found.version.version)
    body = {**_version(found.version), "files": _files(manifest)}
    return Answer({"version": body, "skill": _skill(found.skill)}, cache=REVALIDATE)


async def file(request: Request) -> Answer:
    found = await _get_installable(request, text_of(request, "version"))
    content = (await read_files(found)).get(request.query.get("path", ""))
    if content is None:
        raise NotFound("This version has no such file.")
    return Answer(content, headers=FILE_HEADERS, cache=REVALIDATE)


async def moderation(request: Request) -> Answer:
    skill = await _get_skill(request)
    refuse_held(skill)
    details: Json = {"reasonCodes": [], "evidence": [], "legacyReason": skill.block_reason}
    return Answer({"moderation": {**details, **await _moderation(skill)}}, cache=REVALIDATE)


async def verify(request: Request) -> Answer:
    skill, slug = await _get_skill(request), request.path["slug"]
    asked = text_of(request, "version")
    try:
        version: SkillVersion | None = (await installable_of(require_served(skill, slug), asked)).version
        reasons = []
    except Forbidden as error:  # blocked, banned or yanked
        version, reasons = None, [str(error)]
    return Answer(_verified(request, skill, version, asked, reasons), cache=REVALIDATE)


async def resolve(request: Request) -> Answer:
    """Which version local files are. Without a match the client compares them with its own note of the installation."""
    slug, sent = request.query.get("slug", ""), request.query.get("hash", "")
    skill = require_served(await _get_skill(request, slug), slug)
    numbers = [each.version for each in (await get_installable_versions(skill))[:MAX_ITEMS]]
    manifests = await read_manifests([(skill.name, number) for number in numbers])
    same = (number for (_, number), each in manifests.items() if fingerprint_of(each.files) == sent)
    match = next(({"version": number} for number in same), None)
    latest = skill.current_version if skill.current_version in numbers else next(iter(numbers), None)
    return Answer({"match": match, "latestVersion": latest and {"version": latest}}, cache=REVALIDATE)


async def download(request: Request) -> Answer:
    slug = request.query.get("slug", "")
    skill = require_served(await _get_skill(request, slug), slug)
    return await artifact_answer(request, await installable_of(skill, text_of(request, "version")), "zip", REVALIDATE)


ROUTES: dict[str, Route] = {
    "GET /.well-known/clawhub.json": discover,
    f"GET {ROOT}/search": search,
    f"GET {ROOT}/skills": list_,
    f"GET {ROOT}/skills/{{slug}}": show,
    f"GET {ROOT}/skills/{{slug}}/versions": versions,
    f"GET {ROOT}/skills/{{slug}}/versions/{{version}}": version,
    f"GET {ROOT}/skills/{{slug}}/file": file,
    f"GET {ROOT}/skills/{{slug}}/moderation": moderation,
    f"GET {ROOT}/skills/{{slug}}/verify": verify,
    f"GET {ROOT}/resolve": resolve,
    f"GET {ROOT}/download": download,
}


async def _get_skill(request: Request, slug: str | None = None) -> Skill:
    """Also a blocked one, but none that was withdrawn as a whole."""
    slug = request.path["slug"] if slug is None else slug
    skill = await find_by_clawhub_slug(slug, text_of(request, "ownerHandle"))
    if skill is None or skill.is_yanked or skill.is_withdrawn:
        raise skill_not_found(slug)
    return skill


async def _get_installable(request: Request, version: str | None) -> Installable:
    skill = require_served(await _get_skill(request), request.path["slug"])
    return await installable_of(skill, version)


async def _moderation(skill: Skill) -> Json:
    blocked = skill.is_blocked or bool(await find_bans([skill.content_hash]))
    return {
        "isSuspicious": False,
        "isMalwareBlocked": blocked,
        "verdict": "malicious" if blocked else "clean",
        "summary": skill.block_reason if blocked else skill.notice,
    }


def _result(found: Installable, place: int) -> Json:
    skill = found.skill
    return {
        "slug": clawhub_slug_of(skill),
        "displayName": skill.display_name,
        "summary": described(skill),
        "version": found.version.version,
        "score": 1 / (1 + place),
        "ownerHandle": _handle(skill),
    }


def _item(found: Installable, installs: int | None) -> Json:
    return {**_skill(found.skill, installs), "latestVersion": _latest(found.skill)}


def _skill(skill: Skill, installs: int | None = None) -> Json:
    return {
        "slug": clawhub_slug_of(skill),
        "displayName": skill.display_name,
        "summary": described(skill),
        "tags": {"latest": skill.current_version},
        "stats": {} if installs is None else {"installs": installs},
        "createdAt": _milliseconds(skill.published_at),
        "updatedAt": _milliseconds(skill.updated_at),
    }


def _latest(skill: Skill) -> Json:
    return {"version": skill.current_version, "createdAt": _milliseconds(skill.updated_at), "changelog": ""}


def _version(version: SkillVersion) -> Json:
    return {
        "version": version.version,
        "createdAt": _milliseconds(version.created_at),
        "changelog": version.diff_summary or "",
    }


def _is_older(version: SkillVersion, other: str) -> bool:
    return sort_key(version.version) < sort_key(other)


def _files(manifest: Manifest | None) -> list[Json]:
    digests = manifest.files if manifest else ()
    return [{"path": each.path, "size": each.size, "sha256": each.sha256} for each in digests]


def _verified(
    request: Request, skill: Skill, version: SkillVersion | None, asked: str | None, reasons: Sequence[str]
) -> Json:
    score = None if skill.is_blocked else skill.score
    zipped = version.artifacts.get("zip") if version else None
    return {
        "schema": "clawhub.skill.verify.v1",
        "ok": not reasons,
        "decision": "fail" if reasons else "pass",
        "reasons": list(reasons),
        "slug": clawhub_slug_of(skill),
        "displayName": skill.display_name,
        "pageUrl": f"{request.site}/skills/{full_name(skill)}",
        "publisherHandle": _handle(skill),
        "publisherDisplayName": None,
        "publisherProfileUrl": None,
        "version": version.version if version else asked or skill.current_version,
        "resolvedFrom": "version" if asked else "latest",
        "tag": None,
        "createdAt": _milliseconds(version.created_at if version else skill.updated_at),
        "card": None,
        "artifact": {"format": "zip", "sha256": zipped.sha256, "size": zipped.size} if zipped else None,
        "provenance": {"repository": skill.repo_url, "commit": version.commit if version else skill.commit},
        "security": {"status": skill.verdict, "tier": skill.cert_tier, "score": score},
        "signature": None,
    }


def _owner(skill: Skill) -> Json:
    return {"handle": _handle(skill)}


def _handle(skill: Skill) -> str:
    return split_name(full_name(skill)).owner.lower()


def _installs(page: SkillPage, skill: Skill) -> int | None:
    counts = page.counts_of(skill)
    return counts.installs if counts else None


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
