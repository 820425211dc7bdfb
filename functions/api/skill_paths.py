"""Paths below /api/v1/skills/, parsed from the end: the gateway has decoded them, so `a%2Fb` is two segments here.

A skill name is followed by one of a few fixed suffixes, which no skill has as its last part: the suffix determines the
route, and the rest is the name. Only the path of a file is parsed from the front: it may have any parts. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from functions.http.routes import no_such_address, wrong_method

BASE = "/api/v1/skills"
LATEST = "latest"
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
FILE_PARAMETERS: Mapping[str, Any] = {
    **PARAMETERS,
    "version": Annotated[
        str,
        Meta(
            pattern="^(latest|[0-9]+[.][0-9]+[.][0-9]+)$",
            max_length=20,
            description="As listed by `versions`, or `latest`, the newest that is not yanked.",
        ),
    ],
    "path": Annotated[str, Meta(min_length=1, max_length=1000, description="As listed by `files`.")],
}

_OF_A_VERSION = ("download", "files", "receipt")
_FILE = "versions/{version}/files/{path}"
_FIXED = {"search": "GET", "installs": "POST", "check-updates": "POST"}
_SUFFIXES = {
    "": "GET",
    "versions": "GET",
    "versions/diff": "GET",
    "versions/compare": "GET",
    "versions/{version}": "GET",
    **{f"versions/{{version}}/{what}": "GET" for what in _OF_A_VERSION},
    _FILE: "GET",
    "badge": "GET",
    "security": "GET",
    "repo-health": "GET",
    "installs": "POST",
    "reports": "POST",
}
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}", re.ASCII)


class SkillPath(NamedTuple):
    route: str  # as it is documented
    parameters: dict[str, str]  # `name`, full or short, and optionally `version` and `path`


def route_of(method: str, name: str, suffix: str) -> str:
    return f"{method} {'/'.join(part for part in (BASE, name, suffix) if part)}"


def parse_skill_path(method: str, proxy: str) -> SkillPath:
    parts = proxy.split("/")
    if not all(parts):
        raise no_such_address()
    if proxy in _FIXED:
        _require(method, _FIXED[proxy])
        return SkillPath(route_of(method, "", proxy), {})
    name, suffix, *values = _split_file(parts) or _split(parts)
    if len(name) > 3:
        raise no_such_address()
    _require(method, _SUFFIXES[suffix])
    documented = route_of(method, FULL_NAME if len(name) == 3 else SHORT_NAME, suffix)
    named = zip(("version", "path"), values, strict=False)
    return SkillPath(documented, {"name": "/".join(name)} | {key: value for key, value in named if value})


def _split_file(parts: Sequence[str]) -> tuple[Sequence[str], str, str, str] | None:
    """The name, its suffix, the version and the path of the file; None where it is no file's address."""
    for length in (1, 3):
        middle = parts[length : length + 3]
        if len(parts) > length + 3 and middle[0] == "versions" and middle[2] == "files" and _is_version(middle[1]):
            return parts[:length], _FILE, middle[1], "/".join(parts[length + 3 :])
    return None


def _split(parts: Sequence[str]) -> tuple[Sequence[str], str, str]:
    """The name, its suffix, and the version in it."""
    *before, last = parts
    if len(parts) > 3 and last in _OF_A_VERSION and parts[-3] == "versions" and _is_version(parts[-2]):
        return parts[:-3], f"versions/{{version}}/{last}", parts[-2]
    if len(parts) > 2 and parts[-2] == "versions" and not _is_repo_called_versions(parts):
        known = f"versions/{last}"
        return before[:-1], *((known, "") if known in _SUFFIXES else ("versions/{version}", last))
    if before and last in _SUFFIXES:
        return before, last, ""
    return parts, "", ""


def _is_version(text: str) -> bool:
    return text == LATEST or _VERSION.fullmatch(text) is not None


def _is_repo_called_versions(parts: Sequence[str]) -> bool:
    """owner/versions/skill, unless the last part looks like a version."""
    return len(parts) == 3 and f"versions/{parts[2]}" not in _SUFFIXES and not _VERSION.fullmatch(parts[2])


def _require(method: str, allowed: str) -> None:
    if method != allowed:
        raise wrong_method(method, [allowed])
