"""Sessions of owners on their pages: signed like those of operators, for another purpose and under another key."""

from datetime import datetime
from typing import NamedTuple

from shared.access.owners import OwnerToken, find_stored_token
from shared.access.sessions import OWNER, SESSION_TTL, csrf_token_of, find_signed_in, seal
from shared.db import now
from shared.records.owners import Owner
from shared.settings import find_whole_number


class OwnerSession(NamedTuple):
    owner: Owner
    token: OwnerToken
    csrf_token: str
    expires_at: datetime


async def open_owner_session(token: OwnerToken) -> str:
    """The cookie of a new session with a token that was just issued or identified."""
    return await seal(OWNER, f"{token.repo_id}:{token.sha256}", min(now() + SESSION_TTL, token.expires_at))


async def find_owner_session(cookie: str | None) -> OwnerSession | None:
    found = await find_signed_in(OWNER, cookie, _find_token)
    if found is None:
        return None
    token, claims = found
    return OwnerSession(token.owner, token, await csrf_token_of(cookie or "", OWNER), claims.expires_at)


async def _find_token(subject: str) -> OwnerToken | None:
    number, _, sha256 = subject.partition(":")
    repo_id = find_whole_number(number, highest=10**18)
    return None if repo_id is None else await find_stored_token(repo_id, sha256)
