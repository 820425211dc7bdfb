"""Who may act: bearer tokens, kept as hashes, compared in constant time, revoked by a record. Fails closed."""

import hashlib
import hmac

from shared.db import get_kv, get_secrets
from shared.errors import Forbidden, Unauthorized
from shared.kv import Key
from shared.secret_store import AdminToken

ROLES = ("reviewer", "admin")  # each may do what the one before it may


async def authorize(authorization: str | None, role: str) -> AdminToken:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("Send `Authorization: Bearer <admin token>`.")
    known = await find_token(sha256_of(token))
    if known is None:
        raise Unauthorized("This token is not valid here, or was revoked.")
    return require_role(known, role)


def require_role(token: AdminToken, role: str) -> AdminToken:
    if token.role not in ROLES or ROLES.index(token.role) < ROLES.index(role):
        raise Forbidden(f"This needs the role {role}; the token {token.name!r} has {token.role}.")
    return token


def sha256_of(token: str) -> str:
    return hashlib.sha256(token.strip().encode(errors="surrogatepass")).hexdigest()


async def find_token(sha256: str) -> AdminToken | None:
    """Checked against the secret and the revocations on every request."""
    tokens = (await get_secrets().get()).admin_tokens
    matches = [token for token in tokens if hmac.compare_digest(token.sha256, sha256)]
    if not matches or await get_kv().get(Key(f"revoked:{sha256}")) is not None:
        return None
    return matches[0]
