"""The artifacts of published versions: built once, stored by digest, and served only if they still have it."""

import asyncio
import base64
import hashlib
from typing import NamedTuple

from shared import telemetry
from shared.db import get_content
from shared.errors import DamagedArtifact, NotFound, Unavailable
from shared.marketplace.packaging import NPM, package
from shared.records.skills import Artifact, SkillVersion
from shared.storage.content import Files
from shared.telemetry import logger


class StoredArtifacts(NamedTuple):
    artifacts: dict[str, Artifact]
    unpackaged: str


async def store_artifacts(name: str, version: str, description: str, files: Files) -> StoredArtifacts:
    """With the files they are made of, before the transaction that refers to them. Storing again changes nothing."""
    packaged = await asyncio.to_thread(package, name, version, description, files)
    artifacts = {packaging: _artifact_of(packaging, body) for packaging, body in packaged.bodies.items()}
    puts = (
        get_content().put_body(artifact_key(artifacts[packaging].sha256), body)
        for packaging, body in packaged.bodies.items()
    )
    await asyncio.gather(get_content().keep_files(files), *puts)
    return StoredArtifacts(artifacts, packaged.missing)


def get_artifact(version: SkillVersion, packaging: str) -> Artifact:
    """What the version's record says of this packaging."""
    if packaging not in version.artifacts:
        missing = f"Version {version.version} of {version.name} has no {packaging}. {version.why_not_packaged}"
        raise NotFound(missing, code="not_packaged")
    return version.artifacts[packaging]


async def read_artifact(version: SkillVersion, packaging: str) -> bytes:
    """The stored bytes, if they are what the record says."""
    return await read_stored(version, packaging, get_artifact(version, packaging).sha256)


async def read_stored(version: SkillVersion, packaging: str, sha256: str) -> bytes:
    try:
        body = await get_content().get_body(artifact_key(sha256))
    except NotFound as error:
        raise Unavailable("The artifact of a published version is lost.") from error
    if not _is_intact(body, sha256):
        logger.error("artifact damaged", extra={"skill": version.name, "version": version.version, "is": packaging})
        telemetry.count("DamagedArtifacts")
        raise DamagedArtifact("The stored artifact is not the one that was published. It is not served.")
    return body


def artifact_key(sha256: str) -> str:
    return f"artifact/{sha256}"


def _is_intact(body: bytes, sha256: str) -> bool:
    return hashlib.sha256(body).hexdigest() == sha256


def _artifact_of(packaging: str, body: bytes) -> Artifact:
    sha256 = hashlib.sha256(body).hexdigest()
    if packaging != NPM:
        return Artifact(sha256=sha256, size=len(body))
    sha512 = base64.b64encode(hashlib.sha512(body).digest()).decode()
    shasum = hashlib.sha1(body, usedforsecurity=False).hexdigest()
    return Artifact(sha256=sha256, size=len(body), shasum=shasum, integrity=f"sha512-{sha512}")
