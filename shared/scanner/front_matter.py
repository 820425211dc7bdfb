"""Front matter: the YAML between two lines of ---.

Only a missing or invalid name or description, or YAML that is unsafe to parse, is an error. Nearly half of the
published skills violate the rest of the specification, so that is a warning.
"""

import re
import unicodedata
from typing import Any

from shared.scanner.report import FrontMatter

MAX_BYTES = 32_000
MAX_DEPTH = 12
MAX_ALIASES = 20
MAX_NAME, SPEC_NAME = 128, 64
MAX_DESCRIPTION, SPEC_DESCRIPTION = 8_000, 1_024
MAX_LICENSE, SPEC_COMPATIBILITY = 200, 500
SPEC_NAME_FORM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SEMVER = re.compile(r"v?\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.+-]{1,60})?")
KNOWN_KEYS = {
    *("name", "description", "license", "compatibility", "metadata", "allowed-tools", "version", "tags", "category"),
    *("author", "model", "disable-model-invocation", "user-invocable", "argument-hint", "context", "agent", "hooks"),
}
_CLEANED = {"description", "license", "compatibility", "tags", "category", "allowed-tools", "tools"}
TOO_COMPLEX = "front matter is nested or aliased far beyond what a skill needs"
NOT_YAML = "front matter is not valid YAML; it was read line by line"
NO_FIELDS = "front matter is not a mapping of fields"
PYTHON_OBJECTS = "front matter contains tags that create Python objects"
KEY_LINE = re.compile(r"^([A-Za-z][\w-]{0,40}):[ \t]*(.*)$")
_JOINERS = "\u200c\u200d"


class UnsafeYaml(ValueError):
    """The front matter would exhaust or exploit a parser."""


def split(text: str) -> tuple[str, str] | None:
    """Front matter and body, or None when the page does not begin with front matter."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = re.match(r"---[ \t]*\n", text)
    if not match:
        return None
    end = re.compile(r"^---[ \t]*$", re.MULTILINE).search(text, match.end())
    return (text[match.end() : end.start()], text[end.end() :]) if end else None


def read_front_matter(text: str | None, folder: str = "") -> FrontMatter:
    if text is None:
        return FrontMatter(errors=("SKILL.md is missing",))
    parts = split(text)
    if parts is None:
        return FrontMatter(errors=("SKILL.md does not begin with front matter between two lines of ---",))
    try:
        fields, warnings = read_fields(parts[0])
    except UnsafeYaml as error:
        return FrontMatter(errors=(str(error),))
    return _checked(fields, warnings, folder)


def read_fields(source: str) -> tuple[dict[str, Any], list[str]]:
    """As YAML reads them, and what is wrong with the YAML itself. Raises UnsafeYaml."""
    if len(source) > MAX_BYTES:
        raise UnsafeYaml(f"front matter is larger than {MAX_BYTES} characters")
    import yaml  # with the first front matter that is read: most cold requests read none

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_unsafe(source, loader)
        loaded = yaml.load(source, Loader=loader)  # noqa: S506 - a safe loader, in C where there is one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, UnsafeYaml):
            raise
        return _line_by_line(source), [NOT_YAML]
    if not isinstance(loaded, dict):
        return {}, [NO_FIELDS]
    return {str(key): value for key, value in loaded.items()}, []


def _refuse_unsafe(source: str, loader: Any) -> None:
    import yaml

    depth = aliases = 0
    for event in yaml.parse(source, Loader=loader):
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or aliases > MAX_ALIASES:
            raise UnsafeYaml(TOO_COMPLEX)
        if str(getattr(event, "tag", None) or "").startswith(("tag:yaml.org,2002:python", "!!python", "!python")):
            raise UnsafeYaml(PYTHON_OBJECTS)


def _line_by_line(source: str) -> dict[str, Any]:
    matches = (KEY_LINE.match(line) for line in source.split("\n"))
    return {m.group(1): m.group(2).strip().strip("\"'") for m in matches if m}


def _checked(fields: dict[str, Any], warnings: list[str], folder: str) -> FrontMatter:
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, description = _as_written(fields.get("name")), _text(fields.get("description"))
    version = _text(metadata.get("version") or fields.get("version"))
    return FrontMatter(
        name=name[:MAX_NAME],
        description=description[:MAX_DESCRIPTION],
        version=version if SEMVER.fullmatch(version) else "",
        category=_text(metadata.get("category") or fields.get("category"))[:60].lower() or "other",
        tags=_words(metadata.get("tags") or fields.get("tags")),
        allowed_tools=_words(fields.get("allowed-tools") or fields.get("tools"), limit=100),
        license=_text(fields.get("license"))[:MAX_LICENSE],
        compatibility=_text(fields.get("compatibility"))[:SPEC_COMPATIBILITY],
        errors=tuple(_errors(name, description)),
        warnings=tuple(warnings + _warnings(fields, name, description, version, folder)),
    )


def _errors(name: str, description: str) -> list[str]:
    errors = []
    if not name:
        errors.append("front matter has no name")
    elif len(name) > MAX_NAME or not name.isprintable() or re.search(r"[/\\]|\.\.", name):
        errors.append(f"the name is invalid: it must have up to {MAX_NAME} printable characters and no slashes")
    if not description:
        errors.append("front matter has no description")
    elif len(description) > MAX_DESCRIPTION:
        errors.append(f"the description is longer than {MAX_DESCRIPTION} characters")
    return errors


def _warnings(fields: dict[str, Any], name: str, description: str, version: str, folder: str) -> list[str]:
    checks = {
        "the name is not lower-case words joined by hyphens": name and not SPEC_NAME_FORM.fullmatch(name),
        f"the name is longer than {SPEC_NAME} characters": len(name) > SPEC_NAME,
        "the name differs from the name of its folder": name and folder and name != folder,
        f"the description is longer than {SPEC_DESCRIPTION} characters": len(description) > SPEC_DESCRIPTION,
        "the version is not a semantic version": version and not SEMVER.fullmatch(version),
        "the license is not text": fields.get("license") is not None and not _text(fields.get("license")),
        f"the compatibility is longer than {SPEC_COMPATIBILITY} characters": len(_text(fields.get("compatibility")))
        > SPEC_COMPATIBILITY,
    }
    unseen = _find_unseen(fields)
    checks[f"control and invisible characters were removed from: {', '.join(unseen)}"] = bool(unseen)
    unknown = sorted(str(key)[:40] for key in fields if key not in KNOWN_KEYS)
    found = [text for text, broken in checks.items() if broken]
    return found + ([f"fields outside the specification: {', '.join(unknown[:10])}"] if unknown else [])


def _find_unseen(fields: dict[str, Any]) -> list[str]:
    """The names of the kept fields that had such characters."""
    metadata = fields.get("metadata")
    kept = {**(metadata if isinstance(metadata, dict) else {}), **fields}
    return sorted(key for key in _CLEANED & kept.keys() if _has_unseen_text(kept[key]))


def _has_unseen_text(value: Any) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return any(has_unseen(_as_written(item)) for item in values)


def one_line(text: str) -> str:
    """Without what a terminal obeys and what reorders or hides text on a screen. The two joiners stay: Persian and
    Indic words and many emoji are spelled with them."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable() or not _is_unseen(letter))


def has_unseen(text: str) -> bool:
    return any(_is_unseen(letter) for letter in " ".join(text.split()))


def _is_unseen(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter not in _JOINERS


def _text(value: Any) -> str:
    return one_line(_as_written(value))


def _as_written(value: Any) -> str:
    """As one line, with every character that it has."""
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _words(value: Any, limit: int = 20) -> tuple[str, ...]:
    if isinstance(value, str):
        # `Bash(git add:*), Read` : a comma or space inside brackets does not separate.
        value = re.findall(r"[^\s,()]+(?:\([^)]{0,200}\))?", value)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(_text(item)[:80] for item in value if _text(item))[:limit]
