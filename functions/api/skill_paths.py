"""Paths below /api/v1/skills/, parsed from the end: the gateway has decoded them, so `a%2Fb` is two segments here.

A skill name is followed by one of a few fixed suffixes, which no skill has as its last part: the suffix determines the
route, and the rest is the name. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from functions.http.routes import wrong_method
from shared.errors import NotFound

BASE = "/api/v1/skills"
FULL_NAME = "{owner}/{repo}/{skill}"
SHORT_NAME = "{name}"
_PART = "^[A-Za-z0-9._-]+$"
_SKILL = "^[A-Za-z0-9._-]+(@[A-Za-z0-9._~-]+)?$"
PARAMETERS: Mapping[str, Any] = {
    "name": Annotated[
        str, Meta(pattern=_SKILL, max_length=200, description="The skill's folder, if only one skill has it.")
    ],
    "owner": Annotated[
        str, Meta(pattern=_PART, max_length=39, description="Of its repository; `uploads` for uploads.")
    ],
    "repo": Annotated[str, Meta(pattern=_PART, max_length=100, description="Its repository; `anonymous` for uploads.")],
    "skill": Annotated[
        str,
        Meta(pattern=_SKILL, max_length=200, description="Its folder, optionally with `@` and a branch or tag."),
    ],
    "version": Annotated[
        str, Meta(pattern="^[0-9]+[.][0-9]+[.][0-9]+$", max_length=20, description="As listed by `versions`.")
    ],
}

_FIXED = {"search": "GET", "installs": "POST", "check-updates": "POST"}
_SUFFIXES = {
    "": "GET",
    "versions": "GET",
    "versions/diff": "GET",
    "versions/compare": "GET",
    "versions/{version}": "GET",
    "badge": "GET",
    "security": "GET",
    "repo-health": "GET",
    "installs": "POST",
    "reports": "POST",
}
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}", re.ASCII)


class SkillPath(NamedTuple):
    route: str  # as it is documented
    parameters: dict[str, str]  # `name`, full or short, and optionally `version`


def route_of(method: str, name: str, suffix: str) -> str:
    return f"{method} {'/'.join(part for part in (BASE, name, suffix) if part)}"


def parse_skill_path(method: str, proxy: str) -> SkillPath:
    parts = proxy.split("/")
    if not all(parts):
        raise _not_found()
    if proxy in _FIXED:
        _require(method, _FIXED[proxy])
        return SkillPath(route_of(method, "", proxy), {})
    name, suffix, version = _split(parts)
    if len(name) > 3:
        raise _not_found()
    _require(method, _SUFFIXES[suffix])
    documented = route_of(method, FULL_NAME if len(name) == 3 else SHORT_NAME, suffix)
    return SkillPath(documented, {"name": "/".join(name)} | ({"version": version} if version else {}))


def _split(parts: Sequence[str]) -> tuple[Sequence[str], str, str]:
    """The name, its suffix, and the version in it."""
    *before, last = parts
    if len(parts) > 2 and parts[-2] == "versions" and not _is_repo_called_versions(parts):
        known = f"versions/{last}"
        return before[:-1], *((known, "") if known in _SUFFIXES else ("versions/{version}", last))
    if before and last in _SUFFIXES:
        return before, last, ""
    return parts, "", ""


def _is_repo_called_versions(parts: Sequence[str]) -> bool:
    """owner/versions/skill, unless the last part looks like a version."""
    return len(parts) == 3 and f"versions/{parts[2]}" not in _SUFFIXES and not _VERSION.fullmatch(parts[2])


def _require(method: str, allowed: str) -> None:
    if method != allowed:
        raise wrong_method(method, [allowed])


def _not_found() -> NotFound:
    return NotFound("There is nothing at this address.")
