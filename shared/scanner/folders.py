"""Skills on disk: the skill folders under a path, and their files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from shared.scanner.inventory import MAX_SKILL
from shared.scanner.report import Finding
from shared.scanner.scan import finding_for

IGNORED = {".git", "node_modules", "__pycache__", ".venv"}  # when looking for skills; inside one, everything is read


class SkillFolder(msgspec.Struct, frozen=True):
    path: str
    files: Mapping[str, bytes]
    findings: tuple[Finding, ...]  # symlinks, which only the disk shows


def find_skills(path: Path) -> list[Path]:
    """The folder itself when it is a skill (or holds none), else every folder below it that has a SKILL.md."""
    if path.is_file() or _skill_page(path):
        return [path]
    below = sorted(
        {page.parent for page in path.rglob("*") if page.name.lower() == "skill.md" and not _ignored(page, path)}
    )
    return below or [path]


def read_skill(path: Path) -> SkillFolder:
    if path.is_file():
        return SkillFolder(str(path), {"SKILL.md": path.read_bytes()}, ())
    files: dict[str, bytes] = {}
    links = []
    for entry in _entries(path):
        name = f"{path.resolve().name}/{entry.relative_to(path).as_posix()}"
        if entry.is_symlink():
            links.append(finding_for("FILE-SYMLINK", name, f"-> {entry.readlink()}"))
        elif entry.is_file():
            # One byte over the limit is enough to know that the file exceeds it.
            with entry.open("rb") as file:
                files[name] = file.read(MAX_SKILL + 1)
    return SkillFolder(str(path), files, tuple(links))


def _entries(path: Path) -> Iterator[Path]:
    """All but the git folder at its top, which belongs to the clone, not to the skill."""
    return (entry for entry in sorted(path.rglob("*")) if entry.relative_to(path).parts[0] != ".git")


def _ignored(entry: Path, root: Path) -> bool:
    return bool(IGNORED.intersection(entry.relative_to(root).parts))


def _skill_page(path: Path) -> bool:
    return any(entry.name.lower() == "skill.md" for entry in path.iterdir())
