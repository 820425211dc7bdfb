"""The versions of a skill, and the differences between them."""

import asyncio
from functools import partial
from typing import Annotated

import msgspec

from functions.api.skill_paths import PARAMETERS
from functions.api.skill_schemas import (
    ContentFile,
    VersionComparison,
    VersionDetail,
    VersionDiff,
    VersionList,
    version_detail_of,
    version_of,
)
from functions.http.answer import REVALIDATE, Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.evidence.blocklist import find_bans
from shared.evidence.receipt_store import find_version_receipt
from shared.marketplace.diffs import FileDiff, diff_files, summary_of, unified_of
from shared.marketplace.published_content import get_published_files, refuse_banned, refuse_blocked, skill_md_of
from shared.marketplace.skill_store import get_skill, get_version, get_versions
from shared.records.skills import Skill

Earlier = Annotated[str, msgspec.Meta(min_length=1, max_length=40, description="The version to start from.")]
Later = Annotated[str, msgspec.Meta(min_length=1, max_length=40, description="The version to compare it with.")]


_comparison = partial(operation, refuses=(403, 409), cached=True, path=PARAMETERS)


class TwoVersions(msgspec.Struct, forbid_unknown_fields=True):
    from_: Earlier = msgspec.field(name="from")
    to: Later


@operation("List versions, newest first", gives=VersionList, refuses=(409,), cached=True, path=PARAMETERS)
async def list_versions(request: Request) -> Answer:
    skill = await get_skill(request.path["name"])
    versions = await get_versions(skill.name)
    bans = await find_bans(version.content_hash for version in versions)
    return Answer(
        VersionList([version_of(skill, version, bans.get(version.content_hash)) for version in versions]),
        cache=REVALIDATE,
    )


@operation("Get a version with its SKILL.md", gives=VersionDetail, refuses=(409,), cached=True, path=PARAMETERS)
async def show_version(request: Request) -> Answer:
    skill = await get_skill(request.path["name"])
    version = await get_version(skill.name, request.path["version"])
    ban = (await find_bans([version.content_hash])).get(version.content_hash)
    if skill.is_blocked or ban:
        return Answer(version_detail_of(skill, version, ban), cache=REVALIDATE)
    files, receipt = await asyncio.gather(get_published_files(version.content_hash), find_version_receipt(version))
    listed = [ContentFile(path, len(content)) for path, content in sorted(files.items())]
    capabilities = receipt.report.capabilities if receipt else None
    return Answer(version_detail_of(skill, version, ban, skill_md_of(files), listed, capabilities), cache=REVALIDATE)


@_comparison("Compare two versions, as one unified diff", gives=VersionDiff)
async def diff_versions(request: Request, query: TwoVersions) -> Answer:
    diffs = await get_diffs(await get_skill(request.path["name"]), query.from_, query.to)
    answer = VersionDiff(from_=query.from_, to=query.to, diff_summary=summary_of(diffs), content_diff=unified_of(diffs))
    return Answer(answer, cache=REVALIDATE)


@_comparison("Compare two versions, file by file", gives=VersionComparison)
async def compare_versions(request: Request, query: TwoVersions) -> Answer:
    diffs = await get_diffs(await get_skill(request.path["name"]), query.from_, query.to)
    return Answer(VersionComparison(from_=query.from_, to=query.to, files=diffs), cache=REVALIDATE)


async def get_diffs(skill: Skill, from_: str, to: str) -> list[FileDiff]:
    before, after = await asyncio.gather(get_version(skill.name, from_), get_version(skill.name, to))
    refuse_blocked(skill)
    await refuse_banned(before, after)
    if before.content_hash == after.content_hash:
        return []
    files = await asyncio.gather(get_published_files(before.content_hash), get_published_files(after.content_hash))
    return diff_files(*files)
