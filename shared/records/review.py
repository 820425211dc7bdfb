"""What reviewers leave on a submission that awaits a decision: a claim, which expires, and notes. Pure."""

from datetime import datetime

import msgspec


class ReviewClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One reviewer works on it. A reviewer is known by the name of the token, which is what the audit log has too."""

    submission_id: str
    by: str
    since: datetime
    until: datetime

    def is_live(self, at: datetime) -> bool:
        return at < self.until

    def is_of_another(self, name: str, at: datetime) -> bool:
        return self.is_live(at) and self.by != name


class ReviewNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For reviewers only: never shown to the author."""

    at: datetime
    by: str
    text: str
