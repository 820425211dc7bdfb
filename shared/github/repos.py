"""A repository as GitHub describes it, and what is accepted as one."""

import re
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.errors import Refused

_LOGIN = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class GitHubRepo(NamedTuple):
    """Under its current name: after a rename the id is unchanged, owner and name are the new ones."""

    id: int
    owner_id: int
    owner: str
    name: str
    default_branch: str
    pushed_at: datetime | None
    stars: int
    is_archived: bool = False


class _Owner(msgspec.Struct):
    login: str
    id: int


class RepoAnswer(msgspec.Struct):
    id: int
    name: str
    owner: _Owner
    private: bool
    default_branch: str
    pushed_at: datetime | None = None
    stargazers_count: int = 0
    archived: bool = False


def repo_of_answer(answer: RepoAnswer) -> GitHubRepo:
    login = answer.owner.login
    if answer.private or login.lower() == "uploads" or not is_repo_name(login, answer.name):
        raise no_repo()
    return GitHubRepo(
        id=answer.id,
        owner_id=answer.owner.id,
        owner=login,
        name=answer.name,
        default_branch=answer.default_branch,
        pushed_at=answer.pushed_at,
        stars=answer.stargazers_count,
        is_archived=answer.archived,
    )


def is_repo_name(owner: str, name: str) -> bool:
    return bool(_LOGIN.fullmatch(owner) and _NAME.fullmatch(name) and name not in (".", ".."))


def no_repo() -> Refused:
    return Refused(
        "We could not find this repository, or it is private. Check its address; only public ones can be verified.",
        "repo_not_found",
    )
