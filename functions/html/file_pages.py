"""Files on the pages: those of a published version for everyone, those of a submission for reviewers."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from functions.api.skill_files import FOR_REVIEWERS, LARGEST_ANSWER, SANDBOX, raw_file
from functions.html.admin_session import Flash, section_page
from functions.html.evidence import get_evidence
from functions.html.responses import page, see_other
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.sessions import Session
from shared.db import now
from shared.errors import Forbidden, InvalidRequest, NotFound, TooLarge
from shared.evidence.receipt_store import Receipt, find_receipt_for
from shared.marketplace.packaging import why_unsafe, zip_of
from shared.marketplace.published_content import find_downloadable_files
from shared.marketplace.skill_store import get_skill, get_version, get_versions
from shared.records.skills import SkillVersion
from shared.settings import find_whole_number
from shared.submissions.submission_store import get_submission
from shared.web.source_files import SourcePage, TreeRow, file_tree, source_page

LATEST = "latest"
FIRST_FILE = "SKILL.md"
FORMS = PAGE, RAW, ZIP = ("page", "raw", "zip")


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
    raw_url: str  # of this file
    downloads: Mapping[str, str]  # addresses by label


def parse_file_path(proxy: str) -> FilePath | None:
    parts = proxy.split("/")
    if len(parts) < 6 or parts[3] != "versions" or parts[5] != "files":
        return None
    return FilePath("/".join(parts[:3]), parts[4], "/".join(parts[6:]) or FIRST_FILE)


def files_url(name: str, version: str) -> str:
    return f"/skills/{quote(name)}/versions/{version}/files/"


def version_links(name: str, version: SkillVersion) -> dict[str, str]:
    """What can be had of a version, by label."""
    api = f"/api/v1/skills/{quote(name)}/versions/{version.version}"
    labels = {"zip": "Download .zip", "tgz": "Download .tar.gz"}
    artifacts = {} if version.is_yanked else version.artifacts
    links = {label: f"{api}/download?format={format_}" for format_, label in labels.items() if format_ in artifacts}
    return links | ({"Receipt": f"{api}/receipt"} if version.attestation else {})


async def show_version_files(request: Request, path: FilePath) -> Answer:
    request.allow_query("page")
    skill = await get_skill(path.name)
    if path.version == LATEST:
        return see_other(files_url(skill.name, skill.current_version) + quote(path.file))
    version = await get_version(skill.name, path.version)
    files, receipt, versions = await asyncio.gather(
        find_downloadable_files(skill, version.content_hash), _receipt_of(version), get_versions(skill.name)
    )
    if files is None:
        raise Forbidden("The files of blocked content are not shown.", code="version_blocked")
    url = files_url(skill.name, version.version)
    raw_url = f"/api/v1{url}{quote(path.file)}"
    view = file_view(request, path.file, files, receipt, url, raw_url, version_links(skill.name, version))
    numbers = [each.version for each in versions]
    return page(request, "files.html", now(), skill=skill, version=version, versions=numbers, view=view)


async def show_submission_files(request: Request, session: Session, flash: Flash) -> Answer:
    """For reviewers, whatever the state: what is approved must be readable first, to its last character."""
    submission_id, _, path = request.path["proxy"].partition("/")
    file = path or FIRST_FILE
    submission = await get_submission(submission_id)
    receipt, files = await get_evidence(submission)
    if not files:
        raise NotFound("No files are stored for this submission.", code="file_not_found")
    form = request.one_of("as", FORMS, PAGE)
    if form == ZIP:
        return _zipped(submission.skill_name, files)
    if form == RAW:
        return raw_file(file, _get(file, files), FOR_REVIEWERS)
    url = f"/admin/files/{submission_id}/"
    downloads = {"Download .zip": f"{url}?as={ZIP}"}
    view = file_view(request, file, files, receipt, url, f"{url}{quote(file)}?as={RAW}", downloads)
    return await section_page(request, session, flash, "/admin", "admin_files.html", submission=submission, view=view)


def file_view(
    request: Request,
    file: str,
    files: Mapping[str, bytes],
    receipt: Receipt | None,
    url: str,
    raw_url: str,
    downloads: Mapping[str, str],
) -> FileView:
    content = _get(file, files)
    number = find_whole_number(request.query.get("page", "1"), highest=10_000)
    if number is None:
        raise InvalidRequest("`page` must be a whole number.", code="invalid_page")
    findings = receipt.report.findings if receipt else ()
    scanned = receipt.report.receipt.files if receipt else ()
    source = source_page(file, content, findings, number)
    return FileView(file_tree(files, scanned, findings), source, url, raw_url, downloads)


def _get(file: str, files: Mapping[str, bytes]) -> bytes:
    if file not in files:
        raise NotFound("This version has no such file.", code="file_not_found")
    return files[file]


def _zipped(name: str, files: Mapping[str, bytes]) -> Answer:
    """Made for this request: what is not published has no artifact."""
    if unsafe := why_unsafe(files):
        raise NotFound(f"{unsafe} Read its files here.", code="not_packaged")
    body = zip_of(files)
    if len(body) > LARGEST_ANSWER:
        raise TooLarge("These files are too large to download at once. Open them one by one.")
    file = quote(f"{name.rpartition('/')[2]}.zip", safe="")
    headers = {
        "content-type": "application/zip",
        "content-disposition": f"attachment; filename*=UTF-8''{file}",
        "content-security-policy": SANDBOX,
    }
    return Answer(body, headers=headers)


async def _receipt_of(version: SkillVersion) -> Receipt | None:
    """None for a version of a release that did not record its rule set: its source is shown without findings."""
    if version.metadata is None or version.metadata.rule_set is None:
        return None
    return await find_receipt_for(version.content_hash, version.metadata.rule_set, version.metadata.unscanned)
