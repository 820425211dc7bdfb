"""Appeals: what an owner says against the findings of a refused submission, and what a reviewer answers. Pure."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

import msgspec

from shared.records.submissions import CATEGORIES, State

APPEALABLE = frozenset({State.REJECTED, State.TIER1_FAILED, *CATEGORIES["blocked"], *CATEGORIES["onHold"]})


class AppealState(StrEnum):
    OPEN = "open"
    UPHELD = "upheld"
    OVERTURNED = "overturned"


class AppealPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a finding is wrong. Without a rule it is about the decision itself."""

    why: str
    rule: str = ""
    path: str = ""
    line: int = 0  # 0: all findings of the rule in this file; the excerpt is that of the first
    excerpt: str = ""
    state: AppealState = AppealState.OPEN


class Appeal(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: str
    submission_id: str
    skill_name: str
    content_hash: str | None
    rule_set: str | None
    opened_by: str  # owner:<owner>/<repo>
    opened_at: datetime
    points: tuple[AppealPoint, ...]
    run: int = 0  # of the submission; 0: of an older release, which counted none
    state: AppealState = AppealState.OPEN
    answer: str | None = None
    answered_by: str | None = None
    answered_at: datetime | None = None
    record_version: int = 1

    @property
    def overturned(self) -> tuple[AppealPoint, ...]:
        return tuple(point for point in self.points if point.state is AppealState.OVERTURNED)


def answered(appeal: Appeal, overturned: Collection[int], answer: str, by: str, at: datetime) -> Appeal:
    """`overturned`: the places of the points that are right. It is overturned as a whole if all of them are."""
    points = tuple(
        msgspec.structs.replace(point, state=AppealState.OVERTURNED if place in overturned else AppealState.UPHELD)
        for place, point in enumerate(appeal.points)
    )
    is_overturned = len(set(overturned)) == len(points)
    return msgspec.structs.replace(
        appeal,
        points=points,
        state=AppealState.OVERTURNED if is_overturned else AppealState.UPHELD,
        answer=answer,
        answered_by=by,
        answered_at=at,
        record_version=appeal.record_version + 1,
    )
