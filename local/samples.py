"""Submits the sample skills through the API on the first start."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

AT_ONCE = 4
POLL_SECONDS = 0.5
DECIDED = {"published": "published", "rejected": "rejected", "blocked": "blocked", "onHold": "on hold"}


async def submit_samples(url: str, folder: Path) -> tuple[int, list[str]]:
    """The number of accepted skills, and a message for each of the others."""
    slots = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=60)
    own = aiohttp.TCPConnector(ssl=False)  # this platform: its certificate names the address that others use
    async with aiohttp.ClientSession(timeout=timeout, connector=own) as session:
        bundles = [read_bundle(skill) for skill in skill_folders(folder)]
        problems = await asyncio.gather(*(_submit(session, url, bundle, slots) for bundle in bundles))
    return problems.count(None), [problem for problem in problems if problem]


async def wait_for_verdicts(url: str, seconds: float) -> str | None:
    """How many submissions of each category there are, once none is active; None if that takes longer."""
    deadline = time.monotonic() + seconds
    own = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds), connector=own) as session:
        while time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
            stats = await _stats(session, url)
            if stats.get("active") == 0:
                return ", ".join(f"{stats[category]} {label}" for category, label in DECIDED.items())
    return None


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


async def _stats(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """Empty if they cannot be read now: the caller asks again."""
    try:
        async with session.get(f"{url}/api/v1/submissions/stats") as response:
            return await response.json() if response.status == 200 else {}
    except (aiohttp.ClientError, TimeoutError):
        return {}


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
