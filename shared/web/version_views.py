"""View models of the versions of a skill: what each changed, and the difference between two."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from shared.evidence.blocklist import BlockEntry
from shared.marketplace.changelog import VersionChanges
from shared.marketplace.diffs import FileDiff
from shared.records.skills import SkillVersion

SHOWN = 6  # files or permissions of a kind


class ChangeLine(NamedTuple):
    """What a version did to these files or permissions."""

    kind: str
    names: Sequence[str]
    more: int = 0  # that are not shown


class VersionView(NamedTuple):
    version: str
    created_at: datetime
    is_current: bool
    is_yanked: bool
    yank_reason: str | None
    before: str | None  # the version to compare it with
    block_reason: str | None = None
    new_permissions: Sequence[str] = ()
    links: Mapping[str, str] = {}  # to its files, by label
    summary: str = ""  # of what changed, where the files are not known
    changes: Sequence[ChangeLine] = ()


class DiffLine(NamedTuple):
    kind: str
    mark: str
    text: str


class DiffFile(NamedTuple):
    filename: str
    status: str
    additions: int
    deletions: int
    lines: list[DiffLine] | None


class DiffView(NamedTuple):
    from_version: str
    to_version: str
    summary: str
    files: list[DiffFile]


def version_views(
    versions: Sequence[SkillVersion],
    current: str,
    bans: Mapping[str, BlockEntry],
    links: Mapping[str, Mapping[str, str]],
    changes: Mapping[str, VersionChanges],
) -> list[VersionView]:
    """Newest first, each with its predecessor for a diff, unless the content of either is on the blocklist."""
    return [
        VersionView(
            version.version,
            version.created_at,
            version.version == current and not version.is_yanked,
            version.is_yanked,
            version.yank_reason,
            before.version if before and not {version.content_hash, before.content_hash} & bans.keys() else None,
            bans[version.content_hash].reason if version.content_hash in bans else None,
            version.new_permissions,
            links.get(version.version, {}),
            version.diff_summary or "",
            _change_lines(changes[version.version]) if version.version in changes else (),
        )
        for version, before in zip(versions, [*versions[1:], None], strict=False)
    ]


def _change_lines(changes: VersionChanges) -> list[ChangeLine]:
    """Without what did not change."""
    kinds = {
        "Added": changes.added,
        "Changed": changes.changed,
        "Removed": changes.removed,
        "Permissions removed": changes.lost_permissions,
    }
    lines = [ChangeLine(kind, names[:SHOWN], max(0, len(names) - SHOWN)) for kind, names in kinds.items() if names]
    score = [ChangeLine("Score of the scan", [f"{changes.score[0]} → {changes.score[1]}"])] if changes.score else []
    return lines + score


def diff_view(from_version: str, to_version: str, summary_: str, files: Iterable[FileDiff]) -> DiffView:
    return DiffView(from_version, to_version, summary_, [_diff_file(file) for file in files])


def _diff_file(file: FileDiff) -> DiffFile:
    lines = None if file.patch is None else [_diff_line(line) for line in file.patch.split("\n")]
    return DiffFile(file.filename, file.status, file.additions, file.deletions, lines)


def _diff_line(line: str) -> DiffLine:
    kinds = {"+": "added", "-": "removed", "@": "hunk"}
    kind = kinds.get(line[:1], "same")
    return DiffLine(kind, line[:1] if kind in ("added", "removed") else "", line if kind == "hunk" else line[1:])
