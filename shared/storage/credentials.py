"""Where Lambda keeps the credentials of a function: in the environment, or (with SnapStart) behind a local address
that renews them."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from botocore.exceptions import CredentialRetrievalError

from shared.settings import is_loopback
from shared.storage.http_client import BrokenResponse, HttpClient
from shared.storage.signature import Credentials

RENEW_BEFORE = timedelta(minutes=5)
FETCH_SECONDS = 2.0
CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")  # of ECS and EKS


def is_supported(env: Mapping[str, str]) -> bool:
    if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
        return True
    address = urlsplit(env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", ""))
    return address.scheme == "http" and (is_loopback(address) or address.hostname in CONTAINER_HOSTS)


class CredentialSource:
    """Asks once for all callers, and again shortly before the answer expires."""

    def __init__(self, clock: Callable[[], datetime], env: Mapping[str, str] = os.environ) -> None:
        self._clock = clock
        self._env = env
        self._fetched: Credentials | None = None
        self._fetching = asyncio.Lock()

    async def get(self) -> Credentials:
        env = self._env
        if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
            return Credentials(
                env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env.get("AWS_SESSION_TOKEN") or None
            )
        if not self._is_fresh(RENEW_BEFORE):
            async with self._fetching:
                if not self._is_fresh(RENEW_BEFORE):
                    await self._renew()
        assert self._fetched is not None
        return self._fetched

    def _is_fresh(self, margin: timedelta) -> bool:
        if self._fetched is None:
            return False
        return self._fetched.expires_at is None or self._fetched.expires_at - margin > self._clock()

    async def _renew(self) -> None:
        """Credentials that still work are used on where new ones cannot be had."""
        try:
            self._fetched = await self._fetch()
        except (OSError, TimeoutError, BrokenResponse, ValueError, KeyError, TypeError) as error:
            if not self._is_fresh(timedelta()):
                raise CredentialRetrievalError(provider="container", error_msg=type(error).__name__) from error

    async def _fetch(self) -> Credentials:
        address = urlsplit(self._env["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
        client = HttpClient(address, None, FETCH_SECONDS)
        path = address.path + (f"?{address.query}" if address.query else "")
        headers = {"host": address.netloc, "accept": "application/json", **self._authorization()}
        try:
            response = await client.request("GET", path or "/", headers, b"", FETCH_SECONDS)
        finally:
            client.close()
        if response.status != 200:
            raise ValueError(response.status)
        answer = json.loads(response.body)
        expires_at = answer.get("Expiration")
        return Credentials(
            answer["AccessKeyId"],
            answer["SecretAccessKey"],
            answer.get("Token"),
            datetime.fromisoformat(expires_at).astimezone(UTC) if expires_at else None,
        )

    def _authorization(self) -> dict[str, str]:
        if path := self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            with open(path, encoding="utf-8") as file:
                return {"authorization": file.read().strip()}
        token = self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        return {"authorization": token} if token else {}
