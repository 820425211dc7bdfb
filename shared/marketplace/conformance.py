"""Whether a SKILL.md keeps to the specification of agentskills.io, which decides what clients can list.

Nearly half of what is published deviates somewhere, so this is never a finding: it is shown to authors and readers.
"""

import codecs
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.records.manifests import DESCRIPTION, NAME, YAML, Deviation
from shared.records.skills import split_name
from shared.scanner.front_matter import SPEC_DESCRIPTION, SPEC_NAME, SPEC_NAME_FORM, UnsafeYaml, read_fields, split

SPEC_COMPATIBILITY = 500
MAX_FRONT_MATTER = 16_000  # characters as YAML; what is longer is in no list
BYTE_ORDER_MARK = "SKILL.md must not begin with a byte order mark"  # some clients drop it when they install
_NAME_RULE = f"must be 1 to {SPEC_NAME} lower-case letters, digits and single hyphens between them"


class Conformance(NamedTuple):
    front_matter: Mapping[str, Any] | None  # None: it cannot be read, or JSON has no form for it
    deviations: tuple[Deviation, ...]


def check_conformance(skill_md: bytes, folder: str) -> Conformance:
    try:
        parts = split(skill_md.decode())
    except UnicodeDecodeError:
        return _unreadable("SKILL.md must be UTF-8")
    if parts is None:
        return _unreadable("SKILL.md must begin with front matter between two lines of ---")
    if len(parts[0]) > MAX_FRONT_MATTER:
        return _unreadable(f"the front matter must not be longer than {MAX_FRONT_MATTER} characters")
    try:
        fields, problems = read_fields(parts[0])
    except UnsafeYaml as error:
        return _unreadable(str(error))
    problems = [*problems, *([BYTE_ORDER_MARK] if skill_md.startswith(codecs.BOM_UTF8) else [])]
    deviations = [*(Deviation(YAML, problem) for problem in problems), *_deviations(fields, folder)]
    if not is_json(fields):
        return Conformance(None, (*deviations, Deviation(YAML, "must have only values that JSON has too")))
    return Conformance(fields, tuple(deviations))


def installed_folder(name: str) -> str:
    """What clients call the folder that they install the skill with this full name into."""
    slug = split_name(name).slug if "/" in name else name
    return slug.partition("@")[0]


def is_json(value: Any) -> bool:
    """Not, for example, dates, sets, keys that are numbers, infinite or very large numbers."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, int):
        return abs(value) < 2**53
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(is_json, value))
    return isinstance(value, dict) and all(isinstance(key, str) for key in value) and is_json([*value, *value.values()])


def _unreadable(problem: str) -> Conformance:
    return Conformance(None, (Deviation(YAML, problem),))


def _deviations(fields: Mapping[str, Any], folder: str) -> list[Deviation]:
    name, description = fields.get("name"), fields.get("description")
    required = [
        Deviation(YAML, f"`{key}` must be text") for key in (NAME, DESCRIPTION) if not _is_text(fields.get(key))
    ]
    checks = {
        Deviation(NAME, _NAME_RULE): isinstance(name, str) and bool(name.strip()) and not _is_spec_name(name),
        Deviation(NAME, f"must be the name of its folder, {folder[:80]}"): _is_text(name) and name != folder,
        Deviation(DESCRIPTION, f"must have 1 to {SPEC_DESCRIPTION} characters"): isinstance(description, str)
        and not 1 <= len(description.strip()) <= len(description) <= SPEC_DESCRIPTION,
        Deviation("license", "must be text"): not isinstance(fields.get("license", ""), str),
        Deviation("compatibility", f"must be text of 1 to {SPEC_COMPATIBILITY} characters"): "compatibility" in fields
        and not _has_length(fields["compatibility"], SPEC_COMPATIBILITY),
        Deviation("metadata", "must have only keys and values that are text"): not _is_text_map(
            fields.get("metadata", {})
        ),
        Deviation("allowed-tools", "must be one text, with spaces between the tools"): not isinstance(
            fields.get("allowed-tools", ""), str
        ),
    }
    return [*required, *(deviation for deviation, broken in checks.items() if broken)]


def _is_spec_name(name: str) -> bool:
    return len(name) <= SPEC_NAME and SPEC_NAME_FORM.fullmatch(name) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _has_length(value: Any, longest: int) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= longest


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)
