"""The public blocklist: all of it, or what is known about one skill."""

from datetime import datetime
from typing import Annotated

import msgspec

from functions.http.answer import Answer
from functions.http.operations import operation
from functions.http.request import Request
from shared.db import get_settings, now
from shared.errors import Unavailable
from shared.evidence.blocklist import BlockEntry, list_blocks
from shared.marketplace.reputation import get_reputation
from shared.records.submissions import State, Submission
from shared.submissions.skill_source import UPLOADS, is_uploads_address, parse_repo_url

ONE_MINUTE = "public, max-age=60"


class Entry(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    skill_name: str
    source_url: str | None = None
    content_hash: str | None = None
    threat_type: str
    severity: str
    reason: str
    evidence_urls: tuple[str, ...]
    discovered_at: datetime


class Blocklist(msgspec.Struct, rename="camel"):
    entries: list[Entry]
    count: int
    last_updated: datetime | None


class Rejection(msgspec.Struct, rename="camel"):
    skill_name: str
    state: State
    reason: str | None
    score: int | None
    rejected_at: datetime


class Checked(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    blocked: bool
    entry: Entry | None = None
    rejected: bool
    rejection: Rejection | None = None
    tainted: bool
    taint_reason: str | None
    changed_hands: Annotated[
        bool, msgspec.Meta(description="Present if true: its repository's name leads to another one than was scanned.")
    ] = False


class CheckQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=300, description="The full name or its last part.")]
    repo_url: (
        Annotated[
            str, msgspec.Meta(min_length=1, max_length=300, description="The repository it would be installed from.")
        ]
        | None
    ) = None
    hash: Annotated[str, msgspec.Meta(min_length=64, max_length=64, description="Its `contentHash`.")] | None = None


@operation("The blocklist, newest first", gives=Blocklist, cached=True)
async def get_blocklist(request: Request) -> Answer:
    """An entry without `sourceUrl` and `contentHash` blocks its name everywhere."""
    entries, unread = await list_blocks()
    if unread:  # clients would install what an incomplete list lacks
        raise Unavailable("The blocklist could not be read completely.")
    changed = [entry.updated_at or entry.discovered_at for entry in entries]
    answer = Blocklist([entry_of(entry) for entry in entries], len(entries), max(changed, default=None))
    return Answer(answer, cache=ONE_MINUTE if entries else "no-cache")


@operation("Whether a skill is blocked, rejected or tainted", gives=Checked)
async def check(request: Request, query: CheckQuery) -> Answer:
    """`tainted`: another skill of its author is blocked. The GitHub repository with the name of our uploads is always
    blocked: its owner could serve other content under verified names."""
    if query.repo_url and is_uploads_address(query.repo_url, get_settings().github_host):
        return Answer(Checked(blocked=True, entry=_impostor(query), rejected=False, tainted=False, taint_reason=None))
    known = await get_reputation(query.name, query.repo_url and _source(query.repo_url), query.hash)
    return Answer(
        Checked(
            blocked=known.entry is not None,
            entry=entry_of(known.entry) if known.entry else None,
            rejected=known.rejection is not None,
            rejection=_rejection(known.rejection) if known.rejection else None,
            tainted=known.taint is not None,
            taint_reason=known.taint,
            changed_hands=known.changed_hands,
        )
    )


ROUTES = {
    "GET /api/v1/blocklist": get_blocklist,
    "GET /api/v1/blocklist/check": check,
}


def entry_of(entry: BlockEntry) -> Entry:
    return msgspec.convert(entry, Entry, from_attributes=True)


def _impostor(query: CheckQuery) -> Entry:
    return Entry(
        skill_name=query.name,
        source_url=query.repo_url,
        threat_type="impersonation",
        severity="high",
        reason=f"Skills under {UPLOADS} were uploaded. They do not come from a repository of that name.",
        evidence_urls=(),
        discovered_at=now(),
    )


def _rejection(submission: Submission) -> Rejection:
    return Rejection(
        submission.skill_name, submission.state, submission.reason, submission.score, submission.updated_at
    )


def _source(repo_url: str) -> str:
    return UPLOADS if repo_url == UPLOADS else parse_repo_url(repo_url, get_settings().github_host).source
