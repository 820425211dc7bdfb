"""The files of a version: as an artifact to install, as a list, and one by one. Only what was scanned, and nothing that
is blocked, except for reviewers."""

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from functions.api.skill_paths import FILE_PARAMETERS, LATEST
from functions.http.answer import REVALIDATE, Answer, is_current
from functions.http.operations import operation
from functions.http.request import Request
from shared.access.auth import authorize
from shared.db import get_content
from shared.errors import Forbidden, NotFound
from shared.evidence.receipt_store import find_version_receipt
from shared.marketplace.artifacts import artifact_key, get_artifact, read_artifact
from shared.marketplace.attestations import read_attestation
from shared.marketplace.downloads import try_to_count_download
from shared.marketplace.published_content import (
    get_published_files,
    refuse_banned,
    refuse_blocked,
    refuse_held,
    refuse_withdrawn,
    refuse_yanked,
)
from shared.marketplace.skill_store import get_skill, get_version
from shared.records.skills import Skill, SkillVersion, full_name, split_name
from shared.scanner.report import ScannedFile

# Lambda returns 6 MB, with the body in base64 and its headers; what is larger comes from the bucket.
LARGEST_ANSWER = 4_400_000
# The address names the bytes: a client keeps them, but caches of others ask again, so that a block reaches everyone.
IMMUTABLE = "public, max-age=31536000, s-maxage=60, immutable"
FOR_REVIEWERS = "no-store"
MEDIA_TYPES = {"zip": "application/zip", "tgz": "application/gzip"}
SUFFIXES = {"zip": "zip", "tgz": "tar.gz"}
UPDATE_CHECK = "x-skills-update-check"
SANDBOX = "default-src 'none'; sandbox"
_UNPLAIN = re.compile(r"[^A-Za-z0-9._-]")

Format = Annotated[Literal["zip", "tgz"], msgspec.Meta(description="Both have the files at their root.")]
Digest = Annotated[
    str,
    msgspec.Meta(
        pattern="^[0-9a-f]{64}$",
        min_length=64,
        max_length=64,
        description="The sha256 that the artifact must have. The response may then be kept for good.",
    ),
]
_of_files = partial(operation, refuses=(401, 403, 409, 502), cached=True, path=FILE_PARAMETERS)


class DownloadQuery(msgspec.Struct, forbid_unknown_fields=True):
    format: Format = "zip"
    sha256: Digest | None = None


class VersionFile(msgspec.Struct, frozen=True, kw_only=True):
    """`scanned` is null if the scan of this version is not stored; `skipped` says why a file was not read as text."""

    path: str
    size: int
    sha256: str
    scanned: bool | None
    skipped: str | None = None


class VersionFiles(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    version: str
    content_hash: str
    files: list[VersionFile]


class _Found(NamedTuple):
    skill: Skill
    version: SkillVersion
    is_withheld: bool  # from everyone but reviewers


@_of_files("Download a version", gives={200: tuple(MEDIA_TYPES.values()), 302: None})
async def download(request: Request, query: DownloadQuery) -> Answer:
    """The ETag is the sha256 of the artifact, the same for good. A large one is a redirect to an address that is valid
    for a minute. A yanked version is not downloaded, and blocked content only by reviewers, with their token."""
    skill, version, is_withheld = await _find_version(request, is_install=True)
    artifact = get_artifact(version, query.format)
    if query.sha256 not in (None, artifact.sha256):
        raise NotFound(f"The {query.format} of version {version.version} has another digest.", code="digest_not_found")
    headers = {
        "content-type": MEDIA_TYPES[query.format],
        "content-disposition": f'attachment; filename="{_file_name(skill, version, query.format)}"',
    }
    cache = FOR_REVIEWERS if is_withheld else IMMUTABLE if query.sha256 else REVALIDATE
    return await serve_artifact(request, skill, version, query.format, headers, cache)


@_of_files("List the files of a version", gives=VersionFiles)
async def list_files(request: Request) -> Answer:
    """Each with its sha256, and whether the scan read it. Files of blocked content only for reviewers."""
    skill, version, is_withheld = await _find_version(request)
    files = await get_published_files(version.content_hash)
    scanned = await _scanned_files(version)
    listed = [_file(path, content, scanned) for path, content in sorted(files.items())]
    answer = VersionFiles(name=skill.name, version=version.version, content_hash=version.content_hash, files=listed)
    return Answer(answer, cache=FOR_REVIEWERS if is_withheld else REVALIDATE)


@_of_files("Get one file of a version", gives=("text/plain", "application/octet-stream"))
async def show_file(request: Request) -> Answer:
    """As it is stored, never as a page: text in UTF-8 is `text/plain`, everything else `application/octet-stream`."""
    _, version, is_withheld = await _find_version(request)
    files = await get_published_files(version.content_hash)
    path = request.path["path"]
    if path not in files:
        raise NotFound(f"Version {version.version} has no file {path[:80]!r}.", code="file_not_found")
    return raw_file(path, files[path], FOR_REVIEWERS if is_withheld else REVALIDATE)


@operation("Get the signed receipt of a version", gives=dict, refuses=(409, 502), cached=True, path=FILE_PARAMETERS)
async def show_receipt(request: Request) -> Answer:
    """An in-toto statement in a DSSE envelope: the digests of the artifacts, what was scanned with which rules, and the
    verdict. Also of blocked content: it is evidence. The keys are at `/.well-known/vskill-keys.json`."""
    skill = await get_skill(request.path["name"])
    wanted = request.path["version"]
    version = await get_version(skill.name, skill.current_version if wanted == LATEST else wanted)
    return Answer(await read_attestation(version), cache=REVALIDATE, etag=f'W/"{version.attestation}"')


def raw_file(path: str, content: bytes, cache: str) -> Answer:
    is_text = _is_text(content)
    name = quote(path.rpartition("/")[2], safe="")
    headers = {
        "content-type": "text/plain; charset=utf-8" if is_text else "application/octet-stream",
        "content-disposition": f"{'inline' if is_text else 'attachment'}; filename*=UTF-8''{name}",
        "content-security-policy": SANDBOX,
    }
    return Answer(content, headers=headers, cache=cache, etag=f'"{hashlib.sha256(content).hexdigest()}"')


async def serve_artifact(
    request: Request, skill: Skill, version: SkillVersion, packaging: str, headers: Mapping[str, str], cache: str
) -> Answer:
    """Counted as an installation, unless it is for a reviewer."""
    artifact = get_artifact(version, packaging)
    answer = Answer(b"", headers=headers, cache=cache, etag=f'"{artifact.sha256}"')
    if _needs_no_body(request, answer):
        return answer
    body = await read_artifact(version, packaging)
    if cache != FOR_REVIEWERS:
        await count_artifact_request(request, skill, version)
    if len(body) <= LARGEST_ANSWER:
        return answer._replace(body=body)
    key = artifact_key(artifact.sha256)
    url = await get_content().sign_url(key, headers["content-type"], headers["content-disposition"])
    return Answer(b"", 302, {"location": url, "cache-control": "no-store"})


async def _find_version(request: Request, is_install: bool = False) -> _Found:
    skill = await get_skill(request.path["name"])
    wanted = request.path["version"]
    version = await get_version(skill.name, skill.current_version if wanted == LATEST else wanted)
    try:
        refuse_blocked(skill)
        await refuse_banned(version)
        if is_install:
            refuse_held(skill)
            refuse_withdrawn(skill)
            refuse_yanked(version)
    except Forbidden:
        token = request.headers.get("authorization")
        if token is None:
            raise
        await authorize(token, "reviewer", request.source_ip)
        return _Found(skill, version, is_withheld=True)
    return _Found(skill, version, is_withheld=False)


async def count_artifact_request(request: Request, skill: Skill, version: SkillVersion) -> None:
    """As an installation, wherever an artifact is served; a client that only checks for updates says so."""
    if request.method != "HEAD" and request.headers.get(UPDATE_CHECK) != "1":
        await try_to_count_download(skill, version.version, request.source_ip)


def _needs_no_body(request: Request, answer: Answer) -> bool:
    return request.method == "HEAD" or is_current(request.headers.get("if-none-match", ""), answer.etag)


def _file_name(skill: Skill, version: SkillVersion, format_: str) -> str:
    """Of plain letters only: it is part of a header."""
    slug = _UNPLAIN.sub("-", split_name(full_name(skill)).slug)
    return f"{slug}-{version.version}.{SUFFIXES[format_]}"


async def _scanned_files(version: SkillVersion) -> dict[str, ScannedFile] | None:
    receipt = await find_version_receipt(version)
    return {file.path: file for file in receipt.report.receipt.files} if receipt else None


def _file(path: str, content: bytes, scanned: dict[str, ScannedFile] | None) -> VersionFile:
    known = scanned.get(path) if scanned is not None else None
    return VersionFile(
        path=path,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        scanned=None if known is None else not known.skipped,
        skipped=known.skipped or None if known else None,
    )


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
