"""Submits the sample skills through the API on the first start."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

AT_ONCE = 4


async def submit_samples(url: str, folder: Path) -> tuple[int, list[str]]:
    """The number of accepted skills, and a message for each of the others."""
    slots = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=60)
    own = aiohttp.TCPConnector(ssl=False)  # this platform: its certificate names the address that others use
    async with aiohttp.ClientSession(timeout=timeout, connector=own) as session:
        bundles = [read_bundle(skill) for skill in skill_folders(folder)]
        problems = await asyncio.gather(*(_submit(session, url, bundle, slots) for bundle in bundles))
    return problems.count(None), [problem for problem in problems if problem]


def skill_folders(folder: Path) -> Iterator[Path]:
    return (found.parent for found in sorted(folder.rglob("SKILL.md")))


def read_bundle(skill: Path) -> dict[str, Any]:
    """A file that is not UTF-8 is sent with replacement characters; the platform accepts text files only."""
    files = sorted(path for path in skill.rglob("*") if path.is_file())
    return {
        "name": skill.name,
        "files": [
            {"path": path.relative_to(skill).as_posix(), "content": path.read_bytes().decode(errors="replace")}
            for path in files
        ],
    }


async def _submit(
    session: aiohttp.ClientSession, url: str, bundle: dict[str, Any], slots: asyncio.Semaphore
) -> str | None:
    async with slots:
        try:
            async with session.post(f"{url}/api/v1/submissions", json={"bundle": bundle}) as response:
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{bundle['name']}: {error!r}"
    return None if response.status in (200, 201) else f"{bundle['name']}: {response.status} {text[:200]}"
