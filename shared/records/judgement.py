"""What the judge of tier 2 said of a skill, or why it said nothing."""

from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from shared.records.decision import Judged

SHORTEST_QUOTE = 4


class Why(StrEnum):
    """Why there is no judgement."""

    NOT_CONFIGURED = "not_judged"
    TOO_LARGE = "too_large"
    OVER_BUDGET = "over_budget"
    VOID = "void"
    NOT_TAKEN = "not_taken"
    NOT_SCANNED = "not_scanned"


class NotJudged(NamedTuple):
    why: Why
    reason: str

    @property
    def judged(self) -> Judged:
        return Judged.NONE if self.why in (Why.NOT_CONFIGURED, Why.NOT_SCANNED) else Judged.UNDECIDED


class Concern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    line: Annotated[int, Meta(ge=1)]
    quote: Annotated[str, Meta(min_length=SHORTEST_QUOTE, max_length=1000)]
    why: Annotated[str, Meta(min_length=1, max_length=1000)]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    score: int
    judged: Judged
    intent: str
    scope: str
    concerns: tuple[Concern, ...]
    model_id: str
    tokens: int

    @property
    def reason(self) -> str:
        """For the author, when this decides."""
        if not self.concerns:
            return self.intent
        first = self.concerns[0]
        return f"{first.file}:{first.line}: {first.why}"
