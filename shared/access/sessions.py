"""Signed sessions of the pages of operators and of owners, each under a key that no other function has, and each for a
purpose of its own. A session names its token by hash only, and the token is looked up on every request, so revoking it
ends all its sessions at once. Signing out ends one session for good, wherever its cookie was copied to. Each form has
the CSRF token of its session."""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from shared.access.auth import find_token, identify
from shared.access.signing import is_same, sign_for_owner_session, sign_for_session
from shared.db import get_kv, now
from shared.errors import Forbidden
from shared.storage.documents import encode
from shared.storage.kv import Key, Put
from shared.storage.secret_store import AdminToken

SESSION_TTL = timedelta(hours=8)
ADMIN, OWNER = "session", "owner session"  # the purposes
T = TypeVar("T")


class Session(NamedTuple):
    token: AdminToken
    csrf_token: str
    expires_at: datetime


class Claims(msgspec.Struct, frozen=True):
    """What a cookie says, once its signature is checked."""

    subject: str = msgspec.field(name="sha256")  # of operators the hash of their token
    expires_at: datetime


async def open_session(token: str, ip: str) -> str:
    """The cookie of a new session: never the token itself."""
    return await seal(ADMIN, (await identify(token, ip)).sha256, now() + SESSION_TTL)


async def find_session(cookie: str | None) -> Session | None:
    found = await find_signed_in(ADMIN, cookie, find_token)
    return Session(found[0], await csrf_token_of(cookie or ""), found[1].expires_at) if found else None


async def seal(purpose: str, subject: str, expires_at: datetime) -> str:
    claims = base64.urlsafe_b64encode(msgspec.json.encode(Claims(subject, expires_at))).decode()
    return f"{claims}.{await _sign(purpose, purpose, claims)}"


async def find_signed_in(
    purpose: str, cookie: str | None, find: Callable[[str], Awaitable[T | None]]
) -> tuple[T, Claims] | None:
    """Whom the cookie names, if it was signed for this purpose, has not expired and was not signed out."""
    claims = await _read(purpose, cookie or "")
    if claims is None or claims.expires_at <= now():
        return None
    subject, ended = await asyncio.gather(find(claims.subject), get_kv().get(_ended_key(cookie or "")))
    return None if subject is None or ended is not None else (subject, claims)


async def end_session(cookie: str, expires_at: datetime) -> None:
    """Kept until the session would have expired by itself."""
    until = int(expires_at.timestamp()) + 1
    await get_kv().put(Put(_ended_key(cookie), encode({"at": now()}), {"expiresAt": until}))


async def csrf_token_of(cookie: str, kind: str = ADMIN) -> str:
    """Sent by every form: another site can make a browser send the cookie, but does not know this."""
    return await _sign(kind, "form", cookie)


async def check_csrf_token(cookie: str | None, csrf_token: str | None, kind: str = ADMIN) -> None:
    if not cookie or not is_same(await csrf_token_of(cookie, kind), csrf_token or ""):
        raise Forbidden("This form has expired or was not opened here. Reload the page.", code="form_expired")


async def _sign(kind: str, purpose: str, text: str) -> str:
    return await (sign_for_owner_session if kind == OWNER else sign_for_session)(purpose, text)


async def _read(purpose: str, cookie: str) -> Claims | None:
    claims, _, signature = cookie.partition(".")
    if not is_same(await _sign(purpose, purpose, claims), signature):
        return None
    return msgspec.json.decode(base64.urlsafe_b64decode(claims), type=Claims)


def _ended_key(cookie: str) -> Key:
    return Key(f"signed-out:{hashlib.sha256(cookie.partition('.')[0].encode(errors='surrogatepass')).hexdigest()}")
