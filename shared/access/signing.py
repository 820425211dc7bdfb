"""Every HMAC of the platform (cursors, sessions, CSRF tokens, upload tokens, requests of external scanners, webhooks)
except the signatures of requests to AWS, which are made below this package: shared/storage/signature.py."""

import hashlib
import hmac

from shared.db import get_secrets


async def sign(purpose: str, text: str) -> str:
    """Under the platform's own key. The purpose keeps a signature made for one thing from being used for another."""
    return _signed((await get_secrets().get()).signing_key, purpose, text)


async def sign_for_session(purpose: str, text: str) -> str:
    """Under the key of admin sessions, which only the admin pages can read."""
    return _signed(await get_secrets().get_session_key(), purpose, text)


async def sign_for_owner_session(purpose: str, text: str) -> str:
    """Under the key of owners' sessions, which only the pages of owners can read."""
    return _signed(await get_secrets().get_owner_session_key(), purpose, text)


def _signed(key: str, purpose: str, text: str) -> str:
    return hmac_of(key, f"{purpose}\n{text}".encode(errors="surrogatepass"))


def hmac_of(key: str, message: bytes) -> str:
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()


def is_same(expected: str, given: str) -> bool:
    """In constant time: how long it takes says nothing about where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode(errors="surrogatepass"))
