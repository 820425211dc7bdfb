"""HTTP to GitHub: which address may be asked, how long it may take, and what an answer that is none means.

What the content decides is `Refused`; what may pass by itself is `Deferred`, with the time of the next try.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from shared.errors import Deferred, NeedsPerson, Refused
from shared.settings import GITHUB, find_whole_number, is_loopback
from shared.storage.secret_store import Secrets
from shared.timing import ARCHIVE_BUDGET, GITHUB_BUDGET, LONGEST_QUOTA_WAIT, OUTAGE_PAUSE, seconds_to_wait

MAX_JSON = 16 * 1024 * 1024  # a tree of 100,000 files, GitHub's own limit, is about 7 MB to 16 MB
CONNECTIONS = 30
RESERVED = 0.1  # the part of the quota that is kept for workers: people who browse give way
_PATH = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)+")
_QUERY = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*")
_GONE = (404, 409, 410, 422, 451)
_MOVED = (301, 302, 307, 308)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quota:
    limit: int
    remaining: int
    resets_at: datetime


class GitHubHttp:
    """One session, made on first use on the loop that uses it."""

    def __init__(self, api_url: str, secrets: Secrets, clock: Callable[[], datetime]) -> None:
        self._api_url = api_url
        self._api = urlsplit(api_url)
        self._secrets = secrets
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._quota: Quota | None = None

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        """`missing` is raised when GitHub says there is no such thing."""
        async with self._no_longer_than(GITHUB_BUDGET):
            async with self._ask_api(path) as response:
                if response.status in _MOVED:
                    path = self._moved_to(response)
                else:
                    return await self._parsed(response, type_, missing)
            async with self._ask_api(path) as response:  # a renamed repository: asked anew, at the same host
                return await self._parsed(response, type_, missing)

    async def download(self, path: str, feed: Callable[[bytes], None], missing: Refused) -> None:
        """One archive, behind at most one redirect. Every byte goes to `feed` and nowhere else."""
        async with self._no_longer_than(ARCHIVE_BUDGET):
            async with self._ask_api(path) as response:
                if response.status not in _MOVED:
                    await self._feed(response, feed, missing)
                    return
                url = self._archive_address(response)
            async with self._get(url, {"accept-encoding": "identity"}) as response:  # without the token
                if response.status in _MOVED:
                    raise _astray(response)
                await self._feed(response, feed, missing)

    def yield_quota_to_workers(self) -> None:
        """Raises when the quota is so low that workers should have the rest."""
        quota = self._quota
        if quota and quota.resets_at > self._clock() and quota.remaining < quota.limit * RESERVED:
            raise self._used_up(quota.resets_at)

    def down(self, how: str) -> Deferred:
        until = self._clock() + OUTAGE_PAUSE
        return Deferred(
            f"We could not reach GitHub ({how}). The next try is at {until:%H:%M} UTC.", "GitHub", until, "github_down"
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _no_longer_than(self, budget: timedelta) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds_to_wait(budget)):
                yield
        except TimeoutError as error:
            raise self.down("it did not answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.down("the connection broke") from error

    @asynccontextmanager
    async def _ask_api(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._quota and self._quota.remaining == 0 and self._quota.resets_at > self._clock():
            raise self._used_up(self._quota.resets_at)
        token = (await self._secrets.get()).github_token
        headers = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        async with self._get(f"{self._api_url}{path}", headers) as response:
            self._note_quota(response.headers)
            yield response

    @asynccontextmanager
    async def _get(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": "vskill-platform"},
                timeout=aiohttp.ClientTimeout(total=None),  # each call has its own limit
                trust_env=not is_loopback(self._api),  # a proxy of the environment, but never for this machine itself
            )
        # `encoded`: the address is sent as it was built, not as somebody else would write it.
        async with self._session.get(URL(url, encoded=True), headers=headers, allow_redirects=False) as response:
            yield response

    async def _parsed(self, response: aiohttp.ClientResponse, type_: type[T], missing: Refused) -> T:
        if response.status != 200:
            self._raise_for(response, missing)
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > MAX_JSON:
                raise Refused("GitHub's answer about this repository is larger than we read.", "repo_too_large")
        try:
            return msgspec.json.decode(body, type=type_)
        except msgspec.MsgspecError as error:
            raise self.down("its answer makes no sense") from error

    async def _feed(self, response: aiohttp.ClientResponse, feed: Callable[[bytes], None], missing: Refused) -> None:
        if response.status != 200:
            self._raise_for(response, missing)
        async for chunk in response.content.iter_chunked(64 * 1024):
            feed(chunk)

    def _raise_for(self, response: aiohttp.ClientResponse, missing: Refused) -> NoReturn:
        if response.status in _GONE:
            raise missing
        wait = find_whole_number(response.headers.get("retry-after"), highest=10**12)
        is_used_up = response.status == 403 and response.headers.get("x-ratelimit-remaining") == "0"
        if response.status == 429 or is_used_up or (response.status == 403 and wait is not None):
            raise self._used_up(self._next_try(response.headers, wait))
        if response.status in (401, 403):
            raise self.down("it refused our access")
        if response.status in _MOVED:
            raise _astray(response)
        raise self.down(f"it answered with status {response.status}")

    def _used_up(self, until: datetime) -> Deferred:
        reason = f"We could not reach GitHub (quota used up). The next try is at {until:%H:%M} UTC."
        return Deferred(reason, "GitHub (quota used up)", until, "github_quota")

    def _next_try(self, headers: Mapping[str, str], wait: int | None) -> datetime:
        now = self._clock()
        resets_at = _time(headers.get("x-ratelimit-reset"))
        if wait is not None:
            until = now + timedelta(seconds=min(wait, LONGEST_QUOTA_WAIT.total_seconds()))
        elif headers.get("x-ratelimit-remaining") == "0" and resets_at is not None:
            until = resets_at
        else:
            until = now + OUTAGE_PAUSE
        return min(max(until, now + timedelta(seconds=1)), now + LONGEST_QUOTA_WAIT)

    def _note_quota(self, headers: Mapping[str, str]) -> None:
        limit, remaining = (find_whole_number(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining"))
        resets_at = _time(headers.get("x-ratelimit-reset"))
        if limit is not None and remaining is not None and resets_at is not None:
            self._quota = Quota(limit, remaining, min(resets_at, self._clock() + LONGEST_QUOTA_WAIT))

    def _moved_to(self, response: aiohttp.ClientResponse) -> str:
        """Where a renamed repository is now: a path of the same API, or nothing."""
        target = urlsplit(urljoin(self._api_url, response.headers.get("location", "")))
        path = target.path.removeprefix(self._api.path)
        if (target.scheme, target.netloc) != (self._api.scheme, self._api.netloc) or not _PATH.fullmatch(path):
            raise _astray(response)
        return path

    def _archive_address(self, response: aiohttp.ClientResponse) -> str:
        host = "codeload.github.com" if self._api_url == GITHUB else self._api.netloc
        target = urlsplit(response.headers.get("location", ""))
        if (target.scheme, target.netloc) != (self._api.scheme, host):
            raise _astray(response)
        if not _PATH.fullmatch(target.path) or not _QUERY.fullmatch(target.query):
            raise _astray(response)
        return f"{self._api.scheme}://{host}{target.path}" + (f"?{target.query}" if target.query else "")


class GetJson(Protocol):
    async def __call__(self, path: str, type_: type[T], missing: Refused) -> T: ...


class RequestCache:
    """What one request of ours asks GitHub: the same question goes out once, however many want to know."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self._answers: dict[str, asyncio.Task[Any]] = {}

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        if path not in self._answers:
            self._answers[path] = asyncio.create_task(self._get_json(path, type_, _NotThere("nothing there")))
        try:
            answer: T = await asyncio.shield(self._answers[path])  # who gives up does so for themselves alone
        except _NotThere:
            raise missing from None
        return answer

    async def give_up(self) -> None:
        """Nobody waits any more."""
        for answer in self._answers.values():
            answer.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)


class _NotThere(Refused):
    """Each who asks has words of their own for it."""


def api_path(*parts: str) -> str:
    """Each part is one segment, whatever it contains: nothing in a name can lead elsewhere."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _astray(response: aiohttp.ClientResponse) -> NeedsPerson:
    return NeedsPerson("GitHub sent us on to an address that we do not follow.", parked_by="source")


def _time(text: str | None) -> datetime | None:
    seconds = find_whole_number(text, highest=10**11)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
