"""Bearer tokens: stored as hashes, compared in constant time, revoked by a record. Fails closed."""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from shared.access.limits import refuse_locked, take_from_limit
from shared.access.signing import is_same
from shared.db import get_kv, get_secrets
from shared.errors import Forbidden, Unauthorized, Unavailable
from shared.storage.kv import Key
from shared.storage.secret_store import AdminToken

ID_LENGTH = 12  # characters of a token's hash: enough to identify it, too few to use it
ROLES = ("reviewer", "admin")  # each includes the one before it


async def authorize(authorization: str | None, role: str, ip: str) -> AdminToken:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("Send `Authorization: Bearer <admin token>`.")
    return require_role(await identify(token, ip), role)


async def identify(token: str, ip: str) -> AdminToken:
    """Failed attempts are counted per IP address; beyond the limit even a valid token is refused."""
    known, _ = await asyncio.gather(find_token(sha256_of(token)), refuse_locked("sign-in", ip))
    if known is None:
        await take_from_limit("sign-in", ip)
        raise Unauthorized("This token is invalid or was revoked.")
    return known


def require_role(token: AdminToken, role: str) -> AdminToken:
    if token.role not in ROLES or ROLES.index(token.role) < ROLES.index(role):
        raise Forbidden(f"This requires the role {role}; the token {token.name!r} has {token.role}.")
    return token


def sha256_of(token: str) -> str:
    return hashlib.sha256(token.strip().encode(errors="surrogatepass")).hexdigest()


async def find_token(sha256: str) -> AdminToken | None:
    """Checked against the secret and the revocations on every request."""
    tokens = (await get_secrets().get()).admin_tokens
    matches = [token for token in tokens if is_same(token.sha256, sha256)]
    if not matches or await get_kv().get(revocation_key(sha256)) is not None:
        return None
    return matches[0]


class Revocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: datetime | None = None
    by: str | None = None
    why: str | None = None


def revocation_key(sha256: str) -> Key:
    return Key(f"revoked:{sha256}")


def token_id(token: AdminToken) -> str:
    return token.sha256[:ID_LENGTH]


async def get_tokens() -> Sequence[tuple[AdminToken, Revocation | None]]:
    """Every token of the secret, with its revocation if there is one."""
    tokens = (await get_secrets().get()).admin_tokens
    read = await get_kv().get_many(revocation_key(token.sha256) for token in tokens)
    if read.failed:
        raise Unavailable("The revoked tokens could not be read.")
    revoked = {key: msgspec.json.decode(doc, type=Revocation) for key, doc in read.found.items()}
    return [(token, revoked.get(revocation_key(token.sha256))) for token in tokens]
