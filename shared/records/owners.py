"""Who owns what: an owner is a repository with proven write access. Pure: no clock, no store."""

from typing import NamedTuple

from shared.records.skills import Skill
from shared.records.submissions import Submission


class Owner(NamedTuple):
    repo: str  # owner/name in lower case, as GitHub called it when it was proven
    repo_id: int

    @property
    def name(self) -> str:
        """As history and audit entries name it."""
        return f"owner:{self.repo}"

    @property
    def role(self) -> str:
        return "owner"


def owns(owner: Owner, subject: Submission | Skill) -> bool:
    """By the numeric id, which a rename keeps and a new repository of the same name does not have. A submission that no
    worker has claimed yet has no id: it belongs to the repository that it names. A skill without one was published by
    an upload or an older release, and no proof is about it."""
    if subject.repo_id is not None or isinstance(subject, Skill):
        return subject.repo_id == owner.repo_id
    return subject.repo_url is not None and "/".join(subject.repo_url.lower().split("/")[-2:]) == owner.repo
