"""The versions of a skill: what each is, and what changed between two of them."""

import asyncio
from typing import Annotated

import msgspec

from functions.http import Answer, Request
from functions.operations import operation
from functions.skill_paths import PARAMETERS
from functions.skill_shapes import (
    ContentFile,
    VersionComparison,
    VersionDetail,
    VersionDiff,
    VersionList,
    version_detail_of,
    version_of,
)
from shared.diffs import FileDiff, diff_files, summary_of, unified_of
from shared.errors import Forbidden
from shared.published_content import get_published_files, skill_md_of
from shared.skill_store import get_skill, get_version, get_versions
from shared.skills import Skill

FRESH = "public, no-cache"  # may be kept, but is asked about before it is shown: a blocked skill disappears at once

Version = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]


class TwoVersions(msgspec.Struct, forbid_unknown_fields=True):
    from_: Version = msgspec.field(name="from")
    to: Version


@operation("Its versions, newest first", gives=VersionList, refuses=(409,), cached=True, path=PARAMETERS)
async def list_versions(request: Request) -> Answer:
    skill = await get_skill(request.path["name"])
    versions = await get_versions(skill.name)
    return Answer(VersionList([version_of(version) for version in versions]), cache=FRESH)


@operation("One version, with its SKILL.md", gives=VersionDetail, refuses=(409,), cached=True, path=PARAMETERS)
async def show_version(request: Request) -> Answer:
    skill = await get_skill(request.path["name"])
    version = await get_version(skill.name, request.path["version"])
    if skill.is_blocked:
        return Answer(version_detail_of(version, None, []), cache=FRESH)
    files = await get_published_files(version.content_hash)
    listed = [ContentFile(path, len(content)) for path, content in sorted(files.items())]
    return Answer(version_detail_of(version, skill_md_of(files), listed), cache=FRESH)


@operation(
    "What changed between two versions, as one unified diff",
    gives=VersionDiff,
    refuses=(403, 409),
    cached=True,
    path=PARAMETERS,
)
async def diff_versions(request: Request, query: TwoVersions) -> Answer:
    diffs = await _diffs(request.path["name"], query)
    answer = VersionDiff(from_=query.from_, to=query.to, diff_summary=summary_of(diffs), content_diff=unified_of(diffs))
    return Answer(answer, cache=FRESH)


@operation(
    "What changed between two versions, file by file",
    gives=VersionComparison,
    refuses=(403, 409),
    cached=True,
    path=PARAMETERS,
)
async def compare_versions(request: Request, query: TwoVersions) -> Answer:
    diffs = await _diffs(request.path["name"], query)
    return Answer(VersionComparison(from_=query.from_, to=query.to, files=diffs), cache=FRESH)


async def _diffs(name: str, asked: TwoVersions) -> list[FileDiff]:
    skill = await get_skill(name)
    before, after = await asyncio.gather(get_version(skill.name, asked.from_), get_version(skill.name, asked.to))
    refuse_blocked(skill)
    if before.content_hash == after.content_hash:
        return []
    files = await asyncio.gather(get_published_files(before.content_hash), get_published_files(after.content_hash))
    return diff_files(*files)


def refuse_blocked(skill: Skill) -> None:
    if skill.is_blocked:
        reason = f": {skill.block_reason.rstrip('.')}" if skill.block_reason else ""
        raise Forbidden(f"This skill is blocked{reason}. Its content is not given out.", code="skill_blocked")
