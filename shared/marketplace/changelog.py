"""What each version changed: which files, which permissions, which score. From the records of the versions and their
manifests, so no content is read."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from shared.marketplace.manifest_store import read_manifests
from shared.records.manifests import Manifest
from shared.records.skills import SkillVersion

COMPARED = 20  # versions, the newest; of older ones the summary is known that was written when they were published


class VersionChanges(NamedTuple):
    """Beside the version before it. None: the files of one of the two were not recorded."""

    added: list[str] | None
    changed: list[str] | None
    removed: list[str] | None
    lost_permissions: list[str]
    score: tuple[int, int] | None = None  # before and after, where it changed


async def get_changes(name: str, versions: Sequence[SkillVersion]) -> dict[str, VersionChanges]:
    """By version. `versions`: newest first; the first one ever has no changes."""
    compared = versions[: COMPARED + 1]
    manifests = await read_manifests((name, version.version) for version in compared)
    return {
        after.version: _changes(
            before, after, manifests.get((name, before.version)), manifests.get((name, after.version))
        )
        for after, before in pairwise(compared)
    }


def _changes(before: SkillVersion, after: SkillVersion, old: Manifest | None, new: Manifest | None) -> VersionChanges:
    lost = _lost_permissions(before, after)
    score = None
    if before.score is not None and after.score is not None and before.score != after.score:
        score = (before.score, after.score)
    if not (old and old.files and new and new.files):
        return VersionChanges(None, None, None, lost, score)
    was, now = ({file.path: file.sha256 for file in manifest.files} for manifest in (old, new))
    both = was.keys() & now.keys()
    return VersionChanges(
        sorted(now.keys() - was.keys()),
        sorted(path for path in both if was[path] != now[path]),
        sorted(was.keys() - now.keys()),
        lost,
        score,
    )


def _lost_permissions(before: SkillVersion, after: SkillVersion) -> list[str]:
    if not (before.metadata and after.metadata):
        return []
    kept = after.metadata.permissions
    return [] if kept is None else [one for one in before.metadata.permissions or () if one not in kept]
