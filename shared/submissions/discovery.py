"""What GitHub says about a repository before a submission: which skills it has, the identity of each, and whether there
is anything new. Each request waits for GitHub for a limited time."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shared.db import get_github, get_settings
from shared.errors import Deferred, NeedsPerson, Refused, Unprocessable
from shared.github.client import GitHub
from shared.github.interactive import for_client
from shared.records.submissions import Submission
from shared.submissions.skill_source import (
    Repo,
    UnresolvedPath,
    find_folder,
    github_name,
    identity_path,
    parse_repo_url,
    parse_skill_path,
    parse_slug,
    parse_unresolved,
    require_usable_page,
    tree_of,
)
from shared.submissions.submission_store import get_ids_by_path, get_submissions_fresh
from shared.telemetry import logger
from shared.timing import RESOLVE_BUDGET

GITHUB_UNAVAILABLE = (Deferred, NeedsPerson, TimeoutError)  # NeedsPerson: an unknown redirect, which the worker parks
UNKNOWN = "unknown"  # it was submitted, but its record cannot be read at the moment


class Identity(NamedTuple):
    """Of a skill in a repository, as far as it is known."""

    path: str
    skill_name: str
    ref: str | None = None

    @property
    def folder(self) -> str | None:
        """None: only GitHub can say, and it did not."""
        if parse_unresolved(self.path):
            return None
        return self.path.removesuffix(f"@{self.ref}") if self.ref else self.path


class PageCheck(NamedTuple):
    """What GitHub says of a SKILL.md before anything is queued. Neither, where it did not answer in time."""

    problem: Unprocessable | None = None
    warnings: tuple[str, ...] = ()


class RepoLookup(NamedTuple):
    """All GitHub calls of one request about a repository, and their common deadline."""

    repo: Repo
    github: GitHub
    until: float  # as the loop counts time


def start_lookup(repo: Repo, github: GitHub) -> RepoLookup:
    return RepoLookup(repo, github, asyncio.get_running_loop().time() + RESOLVE_BUDGET.total_seconds())


async def discover(repo_url: str) -> tuple[list[dict[str, str | None]], bool]:
    """Every skill of a repository with its status here, and whether there are more than could be listed."""
    repo = parse_repo_url(repo_url, get_settings().github_host)
    async with for_client(get_github()) as github:
        found, pinned = await github.pin(repo.owner, repo.name, repo.tree)
        github.yield_quota_to_workers()
        listed = await github.discover(found, pinned.commit)
    known = await _submitted_from(repo.source)
    skills: list[dict[str, str | None]] = []
    for skill in listed.skills:
        here = known.get(identity_path(skill.path, pinned.ref), {"status": "new"})
        skills.append({"name": skill.name, "path": skill.path, **here})
    return skills, listed.truncated


def identity_as_sent(repo: Repo, skill_name: str | None, skill_path: str | None) -> Identity:
    """The slug is the folder of SKILL.md, the repository's name at its root."""
    path = parse_skill_path(skill_path) if skill_path else None
    if repo.tree is None and path:
        return Identity(path, _name(repo, repo.name if path == "." else path.rpartition("/")[2]))
    if skill_name and not path:
        return Identity(UnresolvedPath(repo.tree, parse_slug(skill_name.lower())).path, _name(repo, skill_name))
    if repo.tree is None:
        return Identity(UnresolvedPath().path, _name(repo, repo.name))
    tree = repo.tree if path in (None, ".") else f"{repo.tree}/{path}"
    return Identity(UnresolvedPath(tree).path, _name(repo, tree.rpartition("/")[2] if "/" in tree else repo.name))


async def identity_on_github(lookup: RepoLookup, sent: Identity) -> Identity:
    """When GitHub does not respond, the skill is accepted as named and its worker resolves it."""
    unresolved = parse_unresolved(sent.path)
    if unresolved is None:
        return sent
    repo, github, until = lookup
    try:
        async with asyncio.timeout_at(until):
            place = await github.pin(repo.owner, repo.name, unresolved.tree)
            github.yield_quota_to_workers()
            path = await find_folder(github, place, unresolved.name)
    except Refused as refusal:
        raise _as_request_error(refusal) from refusal
    except GITHUB_UNAVAILABLE:
        return sent
    ref = place.pinned.ref
    return Identity(identity_path(path, ref), github_name(place.repo, path, ref), ref)


async def check_pages(lookup: RepoLookup, skills: Iterable[Identity]) -> dict[str, PageCheck]:
    """By path of the identity: folders without a SKILL.md, and what is wrong with the front matter of the others. All
    of one repository are read from one tree and one archive, which its worker needs anyway and finds stored."""
    found = {skill.path: skill.folder for skill in skills if skill.folder}
    checked: dict[str, PageCheck] = {}
    if found:
        try:
            async with asyncio.timeout_at(lookup.until):
                await _check_pages(lookup, found, checked)
        except GITHUB_UNAVAILABLE:
            pass  # the worker says the same
    return checked


async def _check_pages(lookup: RepoLookup, found: Mapping[str, str], checked: dict[str, PageCheck]) -> None:
    """Fills `checked`, so that what was learned before GitHub fell silent counts."""
    github = lookup.github
    try:
        repo, pinned = await github.pin(lookup.repo.owner, lookup.repo.name, lookup.repo.tree)
    except Refused as refusal:
        checked |= dict.fromkeys(found, PageCheck(_as_request_error(refusal)))
        return
    github.yield_quota_to_workers()
    for path, folder in found.items():
        try:
            await github.require_skill(repo, pinned.commit, folder)
        except Refused as refusal:
            checked[path] = PageCheck(_as_request_error(refusal))
    pages = {path: _page_in(folder) for path, folder in found.items() if path not in checked}
    if not pages:
        return
    try:
        texts = await github.read_skill_mds(repo, pinned.commit, pages.values())
    except Refused:
        return  # of the archive as a whole: that is a verdict, and its worker records it
    checked |= {path: _check_page(texts[page]) for path, page in pages.items() if page in texts}


def _page_in(folder: str) -> str:
    return "SKILL.md" if folder == "." else f"{folder}/SKILL.md"


def _check_page(skill_md: bytes) -> PageCheck:
    try:
        return PageCheck(warnings=require_usable_page(skill_md))
    except Unprocessable as problem:
        return PageCheck(problem)


def _as_request_error(refusal: Refused) -> Unprocessable:
    return Unprocessable(str(refusal), refusal.code)


async def find_head(lookup: RepoLookup, existing: Submission) -> str | None:
    """The commit that a submission would be of now; None when GitHub does not respond."""
    repo, github, until = lookup
    try:
        async with asyncio.timeout_at(until):
            return (await github.pin(repo.owner, repo.name, tree_of(existing))).pinned.commit
    except (Refused, *GITHUB_UNAVAILABLE) as error:
        logger.info("head not known", extra={"submission": existing.id, "problem": str(error)})
        return None


def _name(repo: Repo, folder: str) -> str:
    return f"{repo.owner}/{repo.name}/{parse_slug(folder.lower())}"


async def _submitted_from(source: str) -> dict[str, dict[str, str | None]]:
    ids, _ = await get_ids_by_path(source)
    fresh = await get_submissions_fresh(ids.values())
    states = {submission.id: str(submission.state) for submission in fresh.submissions}
    states |= dict.fromkeys(fresh.failed, UNKNOWN)  # not "new": it was submitted before
    return {path: {"status": states[known], "submissionId": known} for path, known in ids.items() if known in states}
