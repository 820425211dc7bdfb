"""What is left of GitHub's quota for each token: one record per token, which all processes share.

A process believes GitHub's answers to its own calls first. It reads the records once a minute, and writes one when a
share of the quota was used up since the record was written: a plentiful quota costs no write.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from shared.errors import Unavailable
from shared.storage.documents import encode
from shared.storage.kv import KV, Key, Put
from shared.telemetry import logger
from shared.timing import QUOTA_AGE

WORTH_SHARING = 0.05  # of the limit: so much less than the others know
GitHubToken = str | None  # None: calls without a token, whose quota is the address's


@dataclass(frozen=True, slots=True)
class Quota:
    limit: int
    remaining: int
    resets_at: datetime


class Quotas:
    """Without a store, a process knows only what it was answered itself."""

    def __init__(self, kv: KV | None, clock: Callable[[], datetime]) -> None:
        self._kv = kv
        self._clock = clock
        self._known: dict[GitHubToken, Quota] = {}
        self._shared: dict[GitHubToken, Quota] = {}
        self._read_at: datetime | None = None

    def all_known(self) -> list[Quota]:
        """Of the tokens whose quota is known and not over yet."""
        return [quota for quota in self._known.values() if quota.resets_at > self._clock()]

    @property
    def are_all_known(self) -> bool:
        return bool(self._known) and len(self.all_known()) == len(self._known)

    def left(self, token: GitHubToken) -> float:
        """A token that was never used counts as full."""
        quota = self._known.get(token)
        return math.inf if quota is None or quota.resets_at <= self._clock() else quota.remaining

    def resets_at(self, tokens: Iterable[GitHubToken]) -> datetime:
        return min(self._known[token].resets_at for token in tokens)

    async def refresh(self, tokens: list[GitHubToken]) -> None:
        self._known = {token: quota for token, quota in self._known.items() if token in tokens}
        now = self._clock()
        if self._kv is None or (self._read_at and timedelta() <= now - self._read_at < QUOTA_AGE):
            return
        self._read_at = now
        try:
            read = await self._kv.get_many([_key(token) for token in tokens if token])
        except Unavailable:
            logger.info("quota of others not known")
            return
        for token in tokens:
            if token and (doc := read.found.get(_key(token))):
                self._learn(token, doc)

    async def note(self, token: GitHubToken, quota: Quota) -> None:
        """As GitHub answered this process now."""
        self._known[token] = quota
        if self._kv is None or token is None or not self._is_worth_sharing(token, quota):
            return
        self._shared[token] = quota
        attrs = {"expiresAt": math.ceil(quota.resets_at.timestamp())}
        try:
            await self._kv.put(Put(_key(token), encode(quota), attrs))
        except Unavailable:
            logger.info("quota not shared")

    def _learn(self, token: str, doc: str) -> None:
        try:
            shared = msgspec.json.decode(doc, type=Quota)
        except msgspec.MsgspecError:
            return
        self._shared[token] = shared
        known = self._known.get(token)
        is_older = known is not None and known.resets_at > shared.resets_at
        if shared.resets_at > self._clock() and not is_older and shared.remaining < self.left(token):
            self._known[token] = shared

    def _is_worth_sharing(self, token: str, quota: Quota) -> bool:
        shared = self._shared.get(token)
        is_current = shared is not None and shared.resets_at >= quota.resets_at
        others_think = shared.remaining if shared and is_current else quota.limit
        return others_think - quota.remaining >= max(1, quota.limit * WORTH_SHARING)


def _key(token: str) -> Key:
    """By the token's hash: the record names no token."""
    return Key(f"github:quota:{hashlib.sha256(token.encode()).hexdigest()[:32]}")
