"""Secrets: admin tokens (hashed), the signing key, webhook secrets, the GitHub token. Cached for five minutes. The key
that signs admin sessions is a secret of its own, which only the function of the admin pages is given. So are the key of
owners' sessions, for their pages, and the key that signs receipts, for functions that publish. On AWS admin tokens,
GitHub tokens and webhook secrets are secrets of their own too, for the functions that use them; those in an earlier
secret still count.

No function may write them, so a token is revoked by a record in the store, not here. An unreadable secret is an error,
never "no secret": every caller fails closed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import Unavailable
from shared.settings import Settings
from shared.timing import SECRET_TTL

SHORTEST_SECRET = 32
SecretKey = Annotated[str, msgspec.Meta(min_length=SHORTEST_SECRET)]  # with an empty key anyone could sign
T = TypeVar("T")


class AdminToken(msgspec.Struct, frozen=True):
    name: str
    role: str
    sha256: str


class SecretValues(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    signing_key: SecretKey
    admin_tokens: list[AdminToken] = []
    webhook_secrets: dict[str, str] = {}
    github_token: str | None = None
    github_tokens: list[str] = []

    @property
    def all_github_tokens(self) -> list[str]:
        """Each has a quota of its own. Empty: GitHub allows 60 calls an hour."""
        return [token for token in dict.fromkeys([*self.github_tokens, self.github_token or ""]) if token]

    def find_webhook_secret(self, provider: str) -> str | None:
        """None for a short one, which could be guessed."""
        secret = self.webhook_secrets.get(provider, "")
        return secret if len(secret) >= SHORTEST_SECRET else None


class AdminTokenSecret(msgspec.Struct, frozen=True, rename="camel"):
    admin_tokens: list[AdminToken] = []


class GitHubTokenSecret(msgspec.Struct, frozen=True, rename="camel"):
    github_tokens: list[str] = []


class WebhookSecret(msgspec.Struct, frozen=True, rename="camel"):
    webhook_secrets: dict[str, str] = {}


class SessionSecret(msgspec.Struct, frozen=True, rename="camel"):
    session_key: SecretKey


class OwnerSessionSecret(SessionSecret, frozen=True, rename="camel"):
    pass


class ReceiptSecret(msgspec.Struct, frozen=True, rename="camel"):
    receipt_key: SecretKey


class Secrets(Protocol):
    async def get(self) -> SecretValues: ...

    async def find_receipt_key(self) -> str | None:
        """None for a function that does not publish."""
        ...

    async def get_session_key(self) -> str: ...

    async def get_owner_session_key(self) -> str: ...


ReadSecret = Callable[[], Awaitable[str]]


class CachedSecrets:
    def __init__(
        self,
        read: ReadSecret,
        now: Callable[[], float] = time.monotonic,
        read_session_secret: ReadSecret | None = None,
        read_receipt_secret: ReadSecret | None = None,
        read_owner_session_secret: ReadSecret | None = None,
        read_admin_tokens: ReadSecret | None = None,
        read_github_tokens: ReadSecret | None = None,
        read_webhook_secrets: ReadSecret | None = None,
    ) -> None:
        self._read = read
        self._read_admin_tokens = read_admin_tokens
        self._read_github_tokens = read_github_tokens
        self._read_webhook_secrets = read_webhook_secrets
        self._read_receipt_secret = read_receipt_secret
        self._read_session_secret = read_session_secret
        self._read_owner_session_secret = read_owner_session_secret
        self._now = now
        self._values: dict[type, tuple[float, Any]] = {}

    async def get(self) -> SecretValues:
        values = await self._cached(self._read, SecretValues)
        if self._read_admin_tokens:
            own = (await self._cached(self._read_admin_tokens, AdminTokenSecret)).admin_tokens
            values = msgspec.structs.replace(values, admin_tokens=[*own, *values.admin_tokens])
        if self._read_github_tokens:
            tokens = (await self._cached(self._read_github_tokens, GitHubTokenSecret)).github_tokens
            values = msgspec.structs.replace(values, github_tokens=[*tokens, *values.github_tokens])
        if self._read_webhook_secrets:
            own_secrets = (await self._cached(self._read_webhook_secrets, WebhookSecret)).webhook_secrets
            values = msgspec.structs.replace(values, webhook_secrets=values.webhook_secrets | own_secrets)
        return values

    async def get_session_key(self) -> str:
        if self._read_session_secret is None:
            raise Unavailable("This function has no key for admin sessions.")
        return (await self._cached(self._read_session_secret, SessionSecret)).session_key

    async def get_owner_session_key(self) -> str:
        if self._read_owner_session_secret is None:
            raise Unavailable("This function has no key for sessions of owners.")
        return (await self._cached(self._read_owner_session_secret, OwnerSessionSecret)).session_key

    async def find_receipt_key(self) -> str | None:
        if self._read_receipt_secret is None:
            return None
        return (await self._cached(self._read_receipt_secret, ReceiptSecret)).receipt_key

    async def _cached(self, read: ReadSecret, type_: type[T]) -> T:
        read_at, value = self._values.get(type_, (0.0, None))
        if value is None or self._now() - read_at > SECRET_TTL.total_seconds():
            value = _parse(await read(), type_)
            self._values[type_] = (self._now(), value)
        return value  # type: ignore[no-any-return]  # what is stored under a type is of that type


def secrets_from(settings: Settings, wire: Callable[..., Awaitable[dict[str, Any]]]) -> CachedSecrets:
    def reader(file: str | None, secret_id: str) -> ReadSecret:
        return partial(asyncio.to_thread, _read_file, file) if file else partial(_read_from_aws, wire, secret_id)

    session_id, session_file = settings.session_secret_id, settings.session_secret_file
    owner_id, owner_file = settings.owner_session_secret_id, settings.owner_session_secret_file
    receipt_id, receipt_file = settings.receipt_secret_id, settings.receipt_secret_file
    on_aws = settings.secrets_file is None  # one machine has everything in one file
    admin_id, github_id = settings.admin_token_secret_id, settings.github_token_secret_id
    webhook_id = settings.webhook_secret_id
    return CachedSecrets(
        reader(settings.secrets_file, settings.secret_id),
        read_session_secret=reader(session_file, session_id or "") if session_id or session_file else None,
        read_receipt_secret=reader(receipt_file, receipt_id or "") if receipt_id or receipt_file else None,
        read_owner_session_secret=reader(owner_file, owner_id or "") if owner_id or owner_file else None,
        read_admin_tokens=reader(None, admin_id) if admin_id and on_aws else None,
        read_github_tokens=reader(None, github_id) if github_id and on_aws else None,
        read_webhook_secrets=reader(None, webhook_id) if webhook_id and on_aws else None,
    )


async def _read_from_aws(wire: Callable[..., Awaitable[dict[str, Any]]], secret_id: str) -> str:
    try:
        answer = await wire("GetSecretValue", {"SecretId": secret_id})
    except (BotoCoreError, ClientError) as error:
        raise Unavailable("The secret cannot be read.") from error
    return str(answer["SecretString"])


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Unavailable("The secrets file cannot be read.") from error
    except UnicodeDecodeError:
        raise Unavailable("The secrets file is not text.") from None


def _parse(text: str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError:
        # Not chained: the parser's message may quote the secret.
        raise Unavailable("The secret does not have the format that docs/security.md describes.") from None
