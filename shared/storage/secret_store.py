"""Secrets: admin tokens (hashed), the signing key, webhook secrets, the GitHub token. Cached for five minutes.

No function may write them, so a token is revoked by a record in the store, not here. An unreadable secret is an error,
never "no secret": every caller fails closed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import Unavailable
from shared.settings import Settings
from shared.timing import SECRET_TTL

SHORTEST_SECRET = 32


class AdminToken(msgspec.Struct, frozen=True):
    name: str
    role: str
    sha256: str


class SecretValues(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    signing_key: Annotated[str, msgspec.Meta(min_length=SHORTEST_SECRET)]  # with an empty key anyone could sign
    admin_tokens: list[AdminToken] = []
    webhook_secrets: dict[str, str] = {}
    github_token: str | None = None

    def find_webhook_secret(self, provider: str) -> str | None:
        """None for a short one, which could be guessed."""
        secret = self.webhook_secrets.get(provider, "")
        return secret if len(secret) >= SHORTEST_SECRET else None


class Secrets(Protocol):
    async def get(self) -> SecretValues: ...


class CachedSecrets:
    def __init__(self, read: Callable[[], Awaitable[str]], now: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._now = now
        self._values: SecretValues | None = None
        self._read_at = 0.0

    async def get(self) -> SecretValues:
        if self._values is None or self._now() - self._read_at > SECRET_TTL.total_seconds():
            self._values = _parse(await self._read())
            self._read_at = self._now()
        return self._values


def secrets_from(settings: Settings, wire: Callable[..., Awaitable[dict[str, Any]]]) -> CachedSecrets:
    async def from_file() -> str:
        return await asyncio.to_thread(_read_file, settings.secrets_file or "")

    async def from_aws() -> str:
        try:
            answer = await wire("GetSecretValue", {"SecretId": settings.secret_id})
        except (BotoCoreError, ClientError) as error:
            raise Unavailable("The secret cannot be read.") from error
        return str(answer["SecretString"])

    return CachedSecrets(from_file if settings.secrets_file else from_aws)


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Unavailable("The secrets file cannot be read.") from error
    except UnicodeDecodeError:
        raise Unavailable("The secrets file is not text.") from None


def _parse(text: str) -> SecretValues:
    try:
        return msgspec.json.decode(text, type=SecretValues)
    except msgspec.MsgspecError:
        # Not chained: the parser's message may quote the secret.
        raise Unavailable("The secret does not have the format that docs/security.md describes.") from None
