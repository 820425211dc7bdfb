"""The files of what is published: exactly what was scanned, or nothing at all.

A blocked skill stays visible with all evidence, but its files are not served, nor those of any version whose content
the blocklist names.
"""

import asyncio
import tarfile
import zlib

from shared.db import get_content
from shared.errors import Forbidden, NotFound, Unavailable
from shared.evidence.blocklist import find_bans
from shared.records.skills import Skill, SkillVersion
from shared.scanner.file_text import text_of
from shared.storage.content import content_hash_of

SKILL_MD = "SKILL.md"


async def find_downloadable_files(skill: Skill, content_hash: str) -> dict[str, bytes] | None:
    """None: they are not served."""
    if skill.is_blocked:
        return None
    bans, files = await asyncio.gather(find_bans([content_hash]), get_published_files(content_hash))
    return None if bans else files


def refuse_blocked(skill: Skill) -> None:
    if skill.is_blocked:
        reason = f": {skill.block_reason.rstrip('.')}" if skill.block_reason else ""
        raise Forbidden(f"This skill is blocked{reason}. Its content is not served.", code="skill_blocked")


def refuse_held(skill: Skill) -> None:
    """It can be viewed with its evidence, but is not installed while its repository is another one."""
    if skill.changed_hands:
        raise Forbidden(
            f"The repository of {skill.name} changed hands: its name now leads to another one than was scanned."
            " Do not install it before it was verified again.",
            code="changed_hands",
        )


def refuse_withdrawn(skill: Skill) -> None:
    """It can still be viewed, but no longer installed."""
    if skill.withdrawn is not None:
        raise Forbidden(
            f"This skill was withdrawn by its owner: {skill.withdrawn.rstrip('.')}. It cannot be installed.",
            code="skill_withdrawn",
        )


def refuse_yanked(version: SkillVersion) -> None:
    """It can still be viewed, but no longer installed."""
    if version.is_yanked:
        reason = f": {version.yank_reason.rstrip('.')}" if version.yank_reason else ""
        raise Forbidden(f"Version {version.version} was yanked{reason}. Install another one.", code="version_yanked")


async def refuse_banned(*versions: SkillVersion) -> None:
    bans = await find_bans(version.content_hash for version in versions)
    for version in versions:
        if entry := bans.get(version.content_hash):
            message = (
                f"The content of version {version.version} is blocked: {entry.reason.rstrip('.')}. It is not served."
            )
            raise Forbidden(message, code="version_blocked")


async def get_published_files(content_hash: str) -> dict[str, bytes]:
    """The record says that these files exist, so a bucket without them is our fault, not a wrong request."""
    try:
        files = await get_content().get_files(content_hash)
    except NotFound as error:
        raise Unavailable("The content of a published skill is lost.") from error
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise Unavailable("The content of a published skill cannot be unpacked.") from error
    if content_hash_of(files) != content_hash:
        raise Unavailable("The content of a published skill is not what was scanned.")
    return files


def skill_md_of(files: dict[str, bytes]) -> str:
    return text_of(files.get(SKILL_MD, b""))
