"""Files on the pages: those of a published version for everyone, those of a submission for reviewers."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from functions.html.admin_session import Flash, section_page
from functions.html.evidence import get_evidence
from functions.html.responses import page, see_other
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.sessions import Session
from shared.db import now
from shared.errors import Forbidden, InvalidRequest, NotFound
from shared.evidence.receipt_store import Receipt, find_receipt_for
from shared.marketplace.published_content import find_downloadable_files
from shared.marketplace.skill_store import get_skill, get_version
from shared.records.skills import Skill, SkillVersion
from shared.settings import find_whole_number
from shared.submissions.submission_store import get_submission
from shared.web.source_files import SourcePage, TreeRow, file_tree, source_page

LATEST = "latest"
FIRST_FILE = "SKILL.md"


class FilePath(NamedTuple):
    """{owner}/{repo}/{skill}/versions/{version}/files[/{path}]"""

    name: str
    version: str
    file: str


class FileView(NamedTuple):
    """What the template shows: the tree, and one file of it."""

    tree: list[TreeRow]
    source: SourcePage
    url: str  # followed by a path
    raw_url: str | None


def parse_file_path(proxy: str) -> FilePath | None:
    parts = proxy.split("/")
    if len(parts) < 6 or parts[3] != "versions" or parts[5] != "files":
        return None
    return FilePath("/".join(parts[:3]), parts[4], "/".join(parts[6:]) or FIRST_FILE)


def files_url(name: str, version: str) -> str:
    return f"/skills/{quote(name)}/versions/{version}/files/"


async def show_version_files(request: Request, path: FilePath) -> Answer:
    request.allow_query("page")
    skill = await get_skill(path.name)
    if path.version == LATEST:
        return see_other(files_url(skill.name, skill.current_version) + quote(path.file))
    version = await get_version(skill.name, path.version)
    files, receipt = await asyncio.gather(find_downloadable_files(skill, version.content_hash), _receipt_of(version))
    if files is None:
        raise Forbidden("The files of blocked content are not shown.", code="version_blocked")
    url = files_url(skill.name, version.version)
    view = _view(request, path.file, files, receipt, url, f"/api/v1{url}")
    return page(request, "files.html", now(), skill=skill, version=version, view=view, **_links(skill, version))


async def show_submission_files(request: Request, session: Session, flash: Flash) -> Answer:
    """For reviewers, whatever the state: what is approved must be readable first."""
    submission_id, _, file = request.path["proxy"].partition("/")
    submission = await get_submission(submission_id)
    receipt, files = await get_evidence(submission)
    if not files:
        raise NotFound("No files are stored for this submission.", code="file_not_found")
    view = _view(request, file or FIRST_FILE, files, receipt, f"/admin/files/{submission_id}/", None)
    return await section_page(request, session, flash, "/admin", "admin_files.html", submission=submission, view=view)


def _view(
    request: Request,
    file: str,
    files: Mapping[str, bytes],
    receipt: Receipt | None,
    url: str,
    raw_url: str | None,
) -> FileView:
    if file not in files:
        raise NotFound("This version has no such file.", code="file_not_found")
    number = find_whole_number(request.query.get("page", "1"), highest=10_000)
    if number is None:
        raise InvalidRequest("`page` must be a whole number.", code="invalid_page")
    findings = receipt.report.findings if receipt else ()
    scanned = receipt.report.receipt.files if receipt else ()
    return FileView(file_tree(files, scanned, findings), source_page(file, files[file], findings, number), url, raw_url)


async def _receipt_of(version: SkillVersion) -> Receipt | None:
    """None for a version of a release that did not record its rule set: its source is shown without findings."""
    if version.metadata is None or version.metadata.rule_set is None:
        return None
    return await find_receipt_for(version.content_hash, version.metadata.rule_set, version.metadata.unscanned)


def _links(skill: Skill, version: SkillVersion) -> dict[str, Any]:
    return {"download_url": f"/api/v1/skills/{quote(skill.name)}/versions/{version.version}/download"}
