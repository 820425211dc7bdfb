"""The only HMAC of the platform: cursors, sessions, CSRF tokens, upload tokens, the requests of external scanners."""

import hashlib
import hmac

from shared.db import get_secrets


async def sign(purpose: str, text: str) -> str:
    """Under the platform's own key. The purpose keeps a signature made for one thing from being used for another."""
    key = (await get_secrets().get()).signing_key
    return hmac_of(key, f"{purpose}\n{text}".encode(errors="surrogatepass"))


def hmac_of(key: str, message: bytes) -> str:
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()


def is_same(expected: str, given: str) -> bool:
    """In constant time: how long it takes says nothing about where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode(errors="surrogatepass"))
