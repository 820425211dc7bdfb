"""Signed sessions of the admin pages. A session names its token by hash only, and the token is looked up on every
request, so a revoked one ends all its sessions at once. Each form carries a word that only this session can make."""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.access.auth import find_token, identify
from shared.db import get_secrets, now
from shared.errors import Forbidden
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
    return f"{claims}.{await _sign('session', claims)}"


async def find_session(cookie: str | None) -> Session | None:
    claims = await _read(cookie or "")
    if claims is None or claims.expires_at <= now():
        return None
    token = await find_token(claims.sha256)
    return None if token is None else Session(token, await csrf_token_of(cookie or ""), claims.expires_at)


async def csrf_token_of(cookie: str) -> str:
    """What a form must carry beside the cookie: another site can make a browser send the cookie, not this."""
    return await _sign("form", cookie)


async def check_csrf_token(cookie: str | None, word: str | None) -> None:
    if not cookie or not hmac.compare_digest((await csrf_token_of(cookie)).encode(), (word or "").encode()):
        raise Forbidden("This form is too old or was not opened here. Open the page again.", code="form_expired")


async def _read(cookie: str) -> _Claims | None:
    claims, _, signature = cookie.partition(".")
    if not hmac.compare_digest((await _sign("session", claims)).encode(), signature.encode()):
        return None
    return msgspec.json.decode(base64.urlsafe_b64decode(claims), type=_Claims)


async def _sign(purpose: str, text: str) -> str:
    key = (await get_secrets().get()).signing_key
    return hmac.new(key.encode(), f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()
