"""Artifacts by their digest, and single files of them: the bytes behind every client surface.

An address with a digest never changes its meaning, so clients may keep it for a year. Shared caches keep it for a
minute: that long at most is a blocked skill still served by one.
"""

import asyncio
import io
import zipfile
from urllib.parse import quote

from functions.api.skill_files import IMMUTABLE, SANDBOX, serve_artifact
from functions.http.answer import Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.errors import NotFound
from shared.marketplace.artifacts import get_artifact, read_artifact
from shared.marketplace.installable import Installable, get_installable
from shared.records.skills import full_name

SUFFIXES = {"tgz": ".tar.gz", "zip": ".zip", "npm": ".tgz"}
# A file of a skill: whatever is in it, a browser neither runs nor shows it.
FILE_HEADERS = {
    "content-type": "application/octet-stream",
    "content-disposition": "attachment",
    "content-security-policy": SANDBOX,
}
MEDIA_TYPES = {"tgz": "application/gzip", "zip": "application/zip", "npm": "application/gzip"}


async def artifact(request: Request) -> Answer:
    owner, repo, skill = (request.path[part] for part in ("owner", "repo", "skill"))
    found = await get_installable(f"{owner}/{repo}/{skill}", request.path["version"])
    names = {_file_name(found, packaging): packaging for packaging in found.version.artifacts}
    if request.path["file"] not in names:
        raise NotFound("There is no artifact with this digest here.")
    return await artifact_answer(request, found, names[request.path["file"]], IMMUTABLE)


_ADDRESS = "/artifacts/{owner}/{repo}/{skill}/{version}/{file}"
ROUTES: dict[str, Route] = {f"GET {_ADDRESS}": artifact, f"HEAD {_ADDRESS}": artifact}


def artifact_path(found: Installable, packaging: str) -> str:
    return f"/artifacts/{quote(full_name(found.skill))}/{found.version.version}/{_file_name(found, packaging)}"


async def artifact_answer(request: Request, found: Installable, packaging: str, cache: str) -> Answer:
    headers = {"content-type": MEDIA_TYPES[packaging], "content-disposition": "attachment"}
    return await serve_artifact(request, found.skill, found.version, packaging, headers, cache)


async def read_files(found: Installable) -> dict[str, bytes]:
    """From the zip: like every other artifact it is compared with its digest first."""
    body = await read_artifact(found.version, "zip")
    return await asyncio.to_thread(_unzipped, body)


def _unzipped(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _file_name(found: Installable, packaging: str) -> str:
    return f"{get_artifact(found.version, packaging).sha256}{SUFFIXES[packaging]}"
