"""Addresses below /api/v1/skills/, read from the end: the gateway has decoded them, so `a%2Fb` is two segments here.

What follows a name is one of a few words, and no skill has one of them as its last part; so the end tells the route,
and whatever is left is the name. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from shared.errors import NotFound, WrongMethod

BASE = "/api/v1/skills"
FULL_NAME = "{owner}/{repo}/{skill}"
SHORT_NAME = "{name}"
_PART = "^[A-Za-z0-9._-]+$"
_SKILL = "^[A-Za-z0-9._-]+(@[A-Za-z0-9._~-]+)?$"
PARAMETERS: Mapping[str, Any] = {
    "name": Annotated[
        str, Meta(pattern=_SKILL, max_length=200, description="The skill's folder, where only one skill has it.")
    ],
    "owner": Annotated[str, Meta(pattern=_PART, max_length=39, description="Of its repository; `uploads` of uploads.")],
    "repo": Annotated[str, Meta(pattern=_PART, max_length=100, description="Its repository; `anonymous` of uploads.")],
    "skill": Annotated[
        str,
        Meta(pattern=_SKILL, max_length=200, description="Its folder, perhaps with `@` and a branch or tag."),
    ],
    "version": Annotated[
        str, Meta(pattern="^[0-9]+[.][0-9]+[.][0-9]+$", max_length=20, description="As `versions` lists it.")
    ],
}

_BY_THEMSELVES = {"search": "GET", "installs": "POST", "check-updates": "POST"}
_AFTER_A_NAME = {
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
    parameters: dict[str, str]  # `name` in any of its forms, perhaps `version`


def route_of(method: str, name: str, words: str) -> str:
    return f"{method} {'/'.join(part for part in (BASE, name, words) if part)}"


def parse_skill_path(method: str, proxy: str) -> SkillPath:
    parts = proxy.split("/")
    if not all(parts):
        raise _nothing_there()
    if proxy in _BY_THEMSELVES:
        _require(method, _BY_THEMSELVES[proxy])
        return SkillPath(route_of(method, "", proxy), {})
    name, words, version = _split(parts)
    if len(name) > 3:
        raise _nothing_there()
    _require(method, _AFTER_A_NAME[words])
    documented = route_of(method, FULL_NAME if len(name) == 3 else SHORT_NAME, words)
    return SkillPath(documented, {"name": "/".join(name)} | ({"version": version} if version else {}))


def _split(parts: Sequence[str]) -> tuple[Sequence[str], str, str]:
    """The name, what follows it, and the version that this names."""
    *before, last = parts
    if len(parts) > 2 and parts[-2] == "versions" and not _is_repo_called_versions(parts):
        known = f"versions/{last}"
        return before[:-1], *((known, "") if known in _AFTER_A_NAME else ("versions/{version}", last))
    if before and last in _AFTER_A_NAME:
        return before, last, ""
    return parts, "", ""


def _is_repo_called_versions(parts: Sequence[str]) -> bool:
    """owner/versions/skill, unless what follows reads like the version of a short name."""
    return len(parts) == 3 and f"versions/{parts[2]}" not in _AFTER_A_NAME and not _VERSION.fullmatch(parts[2])


def _require(method: str, allowed: str) -> None:
    if method != allowed:
        raise WrongMethod(f"This address takes {allowed}.", [allowed])


def _nothing_there() -> NotFound:
    return NotFound("There is nothing at this address.")
