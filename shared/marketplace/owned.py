"""What belongs to an owner: the submissions of its repository, each with the skill that it published."""

from typing import NamedTuple

from shared.db import get_settings
from shared.marketplace.skill_store import read_skills
from shared.records.owners import Owner
from shared.records.skills import Skill
from shared.records.submissions import SubmissionRow
from shared.submissions.submission_list import list_of_repo


class Owned(NamedTuple):
    submission: SubmissionRow
    skill: Skill | None


class OwnedPage(NamedTuple):
    owned: list[Owned]
    next_position: str | None
    failed: list[str]


async def list_owned(owner: Owner, limit: int, after: str | None = None) -> OwnedPage:
    """Of the repository under its current name. Records of an earlier repository of that name are shown too: they are
    public; acting on them is refused by their id."""
    source = f"https://{get_settings().github_host}/{owner.repo}"
    rows, next_position, failed = await list_of_repo(source, limit, after)
    read = await read_skills((row.skill_name for row in rows), with_counts=False)
    skills = {name: skill for name, skill in read.skills.items() if not skill.is_deleted}
    owned = [Owned(row, _published_by(row, skills.get(row.skill_name.lower()))) for row in rows]
    return OwnedPage(owned, next_position, [*failed, *read.failed])


def _published_by(row: SubmissionRow, skill: Skill | None) -> Skill | None:
    return skill if skill and skill.submission_id == row.id else None
