"""The YAML head of a SKILL.md. Only what makes a skill unusable is refused; the rest of the format is advice."""

import re
from typing import Any

import msgspec
import yaml

from shared.errors import Refused

MAX_HEAD = 64 * 1024
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_SEMVER = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}")


class _NoAliasLoader(yaml.SafeLoader):
    """Safe YAML without aliases: nine lines of them can stand for a billion values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise Refused("The front matter uses YAML aliases. Write the values out.")
        return super().compose_node(parent, index)


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    version: str | None = None
    category: str = "other"
    tags: tuple[str, ...] = ()


def read_front_matter(skill_md: bytes) -> FrontMatter:
    fields = _fields(skill_md)
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    version = str(fields.get("version") or metadata.get("version") or "")
    return FrontMatter(
        name=_required(fields, "name", 64),
        description=_required(fields, "description", 1024),
        version=version if _SEMVER.fullmatch(version) else None,
        category=_text(metadata.get("category")) or "other",
        tags=_tags(metadata.get("tags", fields.get("tags"))),
    )


def _fields(skill_md: bytes) -> dict[str, Any]:
    try:
        head = _HEAD.match(skill_md[:MAX_HEAD].decode("utf-8", errors="ignore"))
        if head is None:
            raise Refused(
                "SKILL.md has no front matter. Start it with a line `---`, then `name:` and `description:`, then `---`."
            )
        fields = yaml.load(head[1], Loader=_NoAliasLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f" in line {line + 2}"
        raise Refused(f"The front matter of SKILL.md is not valid YAML{where}.") from error
    if not isinstance(fields, dict):
        raise Refused("The front matter of SKILL.md must be `key: value` lines, at least `name:` and `description:`.")
    return fields


def _required(fields: dict[str, Any], key: str, longest: int) -> str:
    value = _text(fields.get(key))
    if not value:
        raise Refused(f"The front matter of SKILL.md has no `{key}`. Add a line `{key}: …` with some text.")
    if len(value) > longest:
        raise Refused(f"`{key}` in the front matter has {len(value)} characters; {longest} is the most.")
    return value


def _tags(value: Any) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(tag for word in words[:10] if (tag := _text(word)[:32]))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
