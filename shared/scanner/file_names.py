"""File names with a second meaning on some systems: one list for uploads, GitHub archives and members of archives."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

_UNSAFE = re.compile(r"^[/~]|^[A-Za-z]:|\\|[\x00-\x1f\x7f]|(^|/)\.{0,2}(/|$)")
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|$)")  # devices on Windows
_SHORT_GIT = re.compile(r"git~\d")  # how Windows abbreviates .git
# What a client, an editor or a shell loads by itself when the folder is opened, without the skill being used.
_SETTINGS_FOLDERS = {
    *(".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".kiro", ".qwen", ".opencode"),
    *(".amazonq", ".augment", ".clinerules", ".junie", ".goose", ".trae", ".copilot", ".aider", ".factory"),
    *(".zed", ".idea", ".fleet", ".devcontainer", ".husky", ".githooks", ".git-hooks"),
    *(".agents", ".agent", ".openhands", ".kilocode", ".amp", ".openclaw", ".vs", ".crush"),
}
_SETTINGS_FILES = {
    *(".mcp.json", ".cursorrules", ".windsurfrules", ".clinerules", ".roomodes", ".aider.conf.yml", ".claude.json"),
    *("claude.local.md", "copilot-instructions.md", "hooks.json", ".devcontainer.json", ".envrc"),
    *(".bashrc", ".zshrc", ".profile", ".bash_profile", ".zshenv", "sitecustomize.py", "usercustomize.py"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".gitconfig", ".gdbinit", ".vimrc", ".exrc", ".bazelrc"),
    *("opencode.json", "opencode.jsonc", "crush.json", ".crush.json", ".goosehints", ".pnpmfile.cjs", ".nvimrc"),
    *("lefthook.yml", "lefthook.yaml", ".pre-commit-config.yaml", "mise.toml", ".mise.toml", ".dir-locals.el"),
    *(".zprofile", ".zlogin", ".bash_login", ".bash_logout", ".curlrc", ".wgetrc", ".inputrc", ".hgrc"),
}
_EDITOR_FILES = {"tasks.json", "settings.json", "launch.json", "mcp.json"}  # in .vscode
_SETTINGS_SUFFIXES = (".code-workspace", ".pth")
_GITHUB_FOLDERS = {"agents", "instructions", "prompts", "hooks"}  # below .github
_AGENT_PAGES = {"agents.md", "claude.md", "gemini.md", "agent.md", "agents.override.md", "qwen.md", "crush.md"}


class NameFinding(NamedTuple):
    rule: str
    path: str
    detail: str


def same_place(path: str) -> str:
    """Equal for two paths that some file system takes for one: by case, Unicode form, a dot or space at the end, or the
    name of a stream."""
    return "/".join(map(_same_name, path.replace("\\", "/").split("/")))


def leaves_its_folder(path: str) -> bool:
    """Out of its folder on some system, or to a name that cannot be shown."""
    return bool(_UNSAFE.search(path)) or not _is_shown(path)


def clashes(paths: Iterable[str]) -> list[str]:
    """Paths at the place of another one, or below a file."""
    files: dict[str, str] = {}
    folders: set[str] = set()
    clashing = []
    for path in paths:
        place = same_place(path)
        parents = {place[:at] for at, letter in enumerate(place) if letter == "/"}
        if place in files or place in folders or not parents.isdisjoint(files):
            clashing.append(path)
        files[place] = path
        folders |= parents
    return clashing


def name_findings(paths: Iterable[str]) -> Iterator[NameFinding]:
    paths = list(paths)
    for path in clashes(paths):
        yield NameFinding("FILE-NAME-CLASH", path, "another file has this name on some systems")
    for path in paths:
        if leaves_its_folder(path):
            yield NameFinding("FILE-UNSAFE-PATH", path, path[:120])
        yield from _in_one(path)


def _in_one(path: str) -> Iterator[NameFinding]:
    names = path.split("/")
    places = [_same_name(name) for name in names]
    if odd := next(filter(_is_odd, names), ""):
        yield NameFinding("FILE-NAME-ODD", path, odd[:120])
    if any(place == ".git" or _SHORT_GIT.fullmatch(place) for place in places):
        yield NameFinding("FILE-GIT-FOLDER", path, path[:120])
    elif _is_settings(places):
        yield NameFinding("FILE-AGENT-SETTINGS", path, path[:120])
    elif places[-1] in _AGENT_PAGES or ".claude-plugin" in places:
        yield NameFinding("FILE-AGENT-PAGE", path, path[:120])


def _is_settings(places: list[str]) -> bool:
    return (
        not _SETTINGS_FOLDERS.isdisjoint(places)
        or places[-1] in _SETTINGS_FILES
        or places[-1].endswith(_SETTINGS_SUFFIXES)
        or (".vscode" in places and places[-1] in _EDITOR_FILES)
        or (".hg" in places and places[-1] == "hgrc")
        or any(one == ".github" and two in _GITHUB_FOLDERS for one, two in pairwise(places))
    )


def _is_odd(name: str) -> bool:
    """Some system drops a part of this name, takes it for a device, or a command takes it for an option."""
    return (
        name.startswith(("-", " "))
        or name.endswith((" ", "."))
        or ":" in name
        or not _is_shown(name)
        or bool(_RESERVED.match(name.casefold()))
    )


def _is_shown(name: str) -> bool:
    """A space of another width is shown, as in the names that macOS gives to screenshots."""
    return name.isprintable() or all(c.isprintable() or unicodedata.category(c) == "Zs" for c in name)


def _same_name(name: str) -> str:
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf") if not name.isascii() else name
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    return folded.partition(":")[0].rstrip(". ") or folded
