"""Signed sessions of the admin pages, under a key that no other function has. A session names its token by hash only,
and the token is looked up on every request, so revoking it ends all its sessions at once. Signing out ends one session
for good, wherever its cookie was copied to. Each form carries the CSRF token of its session."""

import asyncio
import base64
import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.access.auth import find_token, identify
from shared.access.signing import is_same, sign_for_session
from shared.db import get_kv, now
from shared.errors import Forbidden
from shared.storage.documents import encode
from shared.storage.kv import Key, Put
from shared.storage.secret_store import AdminToken

SESSION_TTL = timedelta(hours=8)


class Session(NamedTuple):
    token: AdminToken
    csrf_token: str
    expires_at: datetime


class _Claims(msgspec.Struct, frozen=True):
    sha256: str
    expires_at: datetime


async def open_session(token: str, ip: str) -> str:
    """The cookie of a new session: never the token itself."""
    known = await identify(token, ip)
    claims = base64.urlsafe_b64encode(msgspec.json.encode(_Claims(known.sha256, now() + SESSION_TTL))).decode()
    return f"{claims}.{await sign_for_session('session', claims)}"


async def find_session(cookie: str | None) -> Session | None:
    claims = await _read(cookie or "")
    if claims is None or claims.expires_at <= now():
        return None
    token, ended = await asyncio.gather(find_token(claims.sha256), get_kv().get(_ended_key(cookie or "")))
    if token is None or ended is not None:
        return None
    return Session(token, await csrf_token_of(cookie or ""), claims.expires_at)


async def end_session(cookie: str, session: Session) -> None:
    """Kept until the session would have expired by itself."""
    expires_at = int(session.expires_at.timestamp()) + 1
    await get_kv().put(Put(_ended_key(cookie), encode({"at": now()}), {"expiresAt": expires_at}))


async def csrf_token_of(cookie: str) -> str:
    """Sent by every form: another site can make a browser send the cookie, but does not know this."""
    return await sign_for_session("form", cookie)


async def check_csrf_token(cookie: str | None, csrf_token: str | None) -> None:
    if not cookie or not is_same(await csrf_token_of(cookie), csrf_token or ""):
        raise Forbidden("This form has expired or was not opened here. Reload the page.", code="form_expired")


async def _read(cookie: str) -> _Claims | None:
    claims, _, signature = cookie.partition(".")
    if not is_same(await sign_for_session("session", claims), signature):
        return None
    return msgspec.json.decode(base64.urlsafe_b64decode(claims), type=_Claims)


def _ended_key(cookie: str) -> Key:
    return Key(f"signed-out:{hashlib.sha256(cookie.partition('.')[0].encode(errors='surrogatepass')).hexdigest()}")
