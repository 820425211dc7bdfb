"""Packages whose names imitate known ones: one letter added, dropped, changed or swapped."""

import re
from collections.abc import Iterator

from shared.scanner.matching import Hit
from shared.scanner.pack import load_pack

INSTALLS = "SIG-INSTALLS"
NODE_TOOL = re.compile(r"\b(npm|pnpm|yarn|bun|npx)\b")
NAME = re.compile(r"(?:@[a-z0-9._-]+/)?[a-z0-9][a-z0-9._-]*")
MIN_LENGTH = 5


def find_imitations(hits: list[Hit]) -> list[tuple[Hit, str]]:
    """(install command, description) for every imitation."""
    found = []
    for hit in hits:
        if hit.rule.id == INSTALLS and hit.live:
            kind = "node" if NODE_TOOL.search(hit.text) else "python"
            found += [(hit, text) for name in installed_names(hit.text) if (text := imitation_of(name, kind))]
    return found


def installed_names(command: str) -> Iterator[str]:
    """`pip install -U a[extra]==1 b` yields a and b; options, paths and addresses are skipped."""
    _, _, arguments = command.partition(
        " install " if " install " in command else " add " if " add " in command else " i "
    )
    for word in re.split(r"[`\n]", arguments)[0].split():
        if word in ("&&", "||", "|", "#", ";", "\\"):
            return
        name = re.split(r"[=<>~!\[;@]", word.strip("\"'`),.")[:80], maxsplit=1)[0]
        if not word.startswith(("-", ".", "/", "git+", "http", "$", "<", "{", "@")) and NAME.fullmatch(name):
            yield name


def imitation_of(name: str, kind: str) -> str:
    packages = load_pack().packages
    if name in packages["known_imitations"]:
        return f"{name}, a known imitation"
    if len(name) < MIN_LENGTH or any(name in packages[group] for group in ("also_real", "python", "node")):
        return ""
    original = next((p for p in packages[kind] if len(p) >= MIN_LENGTH and one_letter_apart(name, p)), "")
    return f"{name}, one letter from {original}" if original else ""


def one_letter_apart(one: str, other: str) -> bool:
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest, remaining = one[start:], other[start:]
    changed = rest[1:] == remaining[1:]
    swapped = rest[:2] == remaining[:2][::-1] and rest[2:] == remaining[2:]
    return changed or swapped or rest[1:] == remaining or rest == remaining[1:]
