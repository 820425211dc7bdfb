"""Which clients can list a published skill, and what its author would have to change where one cannot. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from shared.records.manifests import YAML, Deviation, Manifest
from shared.records.skills import NOT_PACKAGED, Skill, SkillVersion, full_name, split_name
from shared.scanner.front_matter import SPEC_DESCRIPTION, SPEC_NAME, SPEC_NAME_FORM, has_unseen, one_line

SKILLS_CLI, CLAUDE_CODE, NPM, CLAWHUB, MCP = CLIENTS = ("skills", "claude-code", "npm", "clawhub", "mcp")
_UNSEEN = "Remove the control and invisible characters from the front matter."
_PACKAGINGS = {SKILLS_CLI: "tgz", CLAUDE_CODE: "npm", NPM: "npm", CLAWHUB: "zip", MCP: "zip"}


def find_obstacles(skill: Skill, version: SkillVersion, manifest: Manifest | None) -> dict[str, list[str]]:
    """By client, in sentences for its author; empty where the client can list it."""
    return {client: find_obstacles_of(client, skill, version, manifest) for client in CLIENTS}


def find_obstacles_of(client: str, skill: Skill, version: SkillVersion, manifest: Manifest | None) -> list[str]:
    own = {SKILLS_CLI: _of_skills_cli, CLAUDE_CODE: _of_claude_code, MCP: _of_mcp}.get(client, _none)
    return [*_of_all(client, skill, version), *own(skill, manifest)]


def sentences_of(deviations: Iterable[Deviation]) -> list[str]:
    """What the author would change to keep to the specification."""
    return [_sentence(each.problem if each.field == YAML else f"`{each.field}` {each.problem}") for each in deviations]


def folder_of(skill: Skill) -> str:
    """What clients call it, and the folder that they install it into."""
    return split_name(full_name(skill)).slug.lower()


def described(skill: Skill) -> str:
    """Its description as lists of clients show it, many of them on a terminal: the owner's notice comes first, and what
    an older release kept of control characters is left out."""
    if skill.notice is None:
        return one_line(skill.description)
    return one_line(f"{skill.notice} {skill.description}")[:SPEC_DESCRIPTION]


def _of_all(client: str, skill: Skill, version: SkillVersion) -> list[str]:
    if skill.ref is not None:
        return ["It is from another branch or tag than the default one."]
    if _PACKAGINGS[client] in version.artifacts:
        return []
    return [version.why_not_packaged]


def _of_skills_cli(skill: Skill, manifest: Manifest | None) -> list[str]:
    # The client counts as JavaScript does: a letter outside the basic plane is two.
    length = len(skill.description.encode("utf-16-le", "surrogatepass")) // 2
    too_long = [f"Shorten the description to {SPEC_DESCRIPTION} characters."] if length > SPEC_DESCRIPTION else []
    unreadable = sentences_of(each for each in (manifest.deviations if manifest else ()) if each.field == YAML)
    hidden = ["Remove `internal: true` from the metadata: it hides the skill."] if _is_internal(manifest) else []
    return [*_of_folder(skill), *too_long, *unreadable, *hidden]


def _is_internal(manifest: Manifest | None) -> bool:
    metadata = (manifest.front_matter or {}).get("metadata") if manifest else None
    return isinstance(metadata, Mapping) and metadata.get("internal") is True


def _of_claude_code(skill: Skill, manifest: Manifest | None) -> list[str]:
    return _of_folder(skill)


def _of_mcp(skill: Skill, manifest: Manifest | None) -> list[str]:
    if manifest is None:
        return [NOT_PACKAGED]
    problems = sentences_of(manifest.deviations)
    # Its front matter is sent as it is written, so what a reader cannot see must not be in it.
    unseen = [_UNSEEN] if _holds_unseen(manifest.front_matter) else []
    return [*problems, *unseen, *([] if manifest.files else ["It has too many files for a list of their digests."])]


def _holds_unseen(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _holds_unseen([*value, *value.values()])
    if isinstance(value, list | tuple):
        return any(map(_holds_unseen, value))
    return isinstance(value, str) and has_unseen(value)


def _none(skill: Skill, manifest: Manifest | None) -> list[str]:
    return []


def _of_folder(skill: Skill) -> list[str]:
    folder = folder_of(skill)
    if len(folder) <= SPEC_NAME and SPEC_NAME_FORM.fullmatch(folder):
        return []
    return [f"Rename the folder to 1 to {SPEC_NAME} lower-case letters, digits and single hyphens between them."]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
