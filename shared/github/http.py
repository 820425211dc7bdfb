"""HTTP requests to GitHub: allowed addresses, timeouts, quota, and the meaning of error responses.

Permanent errors are `Refused`; transient ones are `Deferred`, with the time of the next attempt.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec

from shared.errors import Deferred, NeedsPerson, Refused
from shared.github.quotas import Quota, Quotas
from shared.settings import GITHUB, find_whole_number, is_loopback
from shared.storage.secret_store import Secrets, SecretValues
from shared.telemetry import Watched, measure_percent
from shared.timing import ARCHIVE_BUDGET, GITHUB_BUDGET, LONGEST_QUOTA_WAIT, OUTAGE_PAUSE, seconds_to_wait

if TYPE_CHECKING:  # imported by those who call GitHub: it takes longer than a cold request that does not
    import aiohttp

MAX_JSON = 16 * 1024 * 1024  # a tree of 100,000 files, GitHub's own limit, is about 7 MB to 16 MB
CONNECTIONS = 30
RESERVED = 0.1  # the share of the quota that is reserved for workers
_PATH = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)+")
_QUERY = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*")
_GONE = (404, 409, 410, 422, 451)
_MOVED = (301, 302, 307, 308)
_API_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

NO_TOKEN = "There is no GitHub token: 60 calls an hour are about 15 submissions."  # noqa: S105 - says there is none
T = TypeVar("T")


class GitHubHttp:
    """One session, created on first use, on the event loop that uses it."""

    def __init__(
        self, api_url: str, secrets: Secrets, clock: Callable[[], datetime], quotas: Quotas | None = None
    ) -> None:
        self._api_url = api_url
        self._api = urlsplit(api_url)
        self.login_url = _login_url(api_url, self._api)
        self._secrets = secrets
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._quotas = quotas or Quotas(None, clock)

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        """Raises `missing` if GitHub responds that it does not exist."""
        async with self._within(GITHUB_BUDGET):
            async with self._get_api(path) as response:
                if response.status in _MOVED:
                    path = self._moved_to(response)
                else:
                    return await self._parsed(response, type_, missing)
            async with self._get_api(path) as response:  # a renamed repository: requested again, from the same host
                return await self._parsed(response, type_, missing)

    async def get_changed(
        self, path: str, type_: type[T], missing: Refused, etag: str | None
    ) -> tuple[T | None, str | None]:
        """None: as it was when the ETag was given, which costs no quota where a token is sent."""
        headers = {"if-none-match": etag} if etag else {}
        async with self._within(GITHUB_BUDGET):
            for _ in range(2):
                async with self._get_api(path, headers) as response:
                    if response.status == 304:
                        return None, etag
                    if response.status not in _MOVED:
                        return await self._parsed(response, type_, missing), response.headers.get("etag")
                    path = self._moved_to(response)
        raise _foreign_redirect()

    async def get_json_as(self, user_token: str, path: str, type_: type[T], missing: Refused) -> T:
        """With a user's token instead of ours: sent to the API alone, in this one request. No redirect is followed."""
        headers = {**_API_HEADERS, "authorization": f"Bearer {user_token}"}
        async with (
            self._within(GITHUB_BUDGET),
            self._send("GET", f"{self._api_url}{path}", headers) as response,
        ):
            return await self._parsed(response, type_, missing)

    async def post_login(self, path: str, form: Mapping[str, str], type_: type[T], missing: Refused) -> T:
        """To the host where users sign in, without any token."""
        headers = {"accept": "application/json"}
        async with (
            self._within(GITHUB_BUDGET),
            self._send("POST", f"{self.login_url}{path}", headers, form) as response,
        ):
            return await self._parsed(response, type_, missing)

    @property
    def quota(self) -> Quota | None:
        """Of all tokens together, as of their last responses; None: not known yet."""
        known = self._quotas.all_known()
        if not known:
            return None
        limit, remaining = sum(quota.limit for quota in known), sum(quota.remaining for quota in known)
        return Quota(limit, remaining, max(quota.resets_at for quota in known))

    async def download(self, path: str, feed: Callable[[bytes], Awaitable[None]], missing: Refused) -> None:
        """One archive, after at most one redirect. Every byte goes to `feed` and nowhere else."""
        async with self._within(ARCHIVE_BUDGET):
            async with self._get_api(path) as response:
                if response.status not in _MOVED:
                    await self._feed(response, feed, missing)
                    return
                url = self._archive_address(response)
            async with self._send("GET", url, {"accept-encoding": "identity"}) as response:  # without the token
                if response.status in _MOVED:
                    raise _foreign_redirect()
                await self._feed(response, feed, missing)

    def yield_quota_to_workers(self) -> None:
        """Raises Deferred if the remaining quota is reserved for workers."""
        known = self._quotas.all_known()
        if self._quotas.are_all_known and all(quota.remaining < quota.limit * RESERVED for quota in known):
            raise self._used_up(min(quota.resets_at for quota in known))

    async def _choose(self, secrets: SecretValues) -> str | None:
        """The token with the most left; one that was never used counts as full. Raises Deferred if none has any."""
        tokens: list[str | None] = [*secrets.all_github_tokens] or [None]
        await self._quotas.refresh(tokens)
        usable = [token for token in tokens if self._quotas.left(token) != 0]
        if not usable:
            raise self._used_up(self._quotas.resets_at(tokens))
        return max(usable, key=self._quotas.left)

    def down(self, how: str) -> Deferred:
        until = self._clock() + OUTAGE_PAUSE
        return Deferred(
            f"We could not reach GitHub ({how}).",
            "GitHub",
            until,
            "github_down",
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _within(self, budget: timedelta) -> AsyncIterator[None]:
        import aiohttp

        try:
            async with asyncio.timeout(seconds_to_wait(budget)):
                yield
        except TimeoutError as error:
            raise self.down("it did not respond in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.down("the connection failed") from error

    @asynccontextmanager
    async def _get_api(
        self, path: str, more: Mapping[str, str] = NO_HEADERS
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        token = await self._choose(await self._secrets.get())
        headers = dict(_API_HEADERS)
        if token:
            headers["authorization"] = f"Bearer {token}"
        async with self._send("GET", f"{self._api_url}{path}", {**headers, **more}) as response:
            await self._note_quota(token, response.headers)
            yield response

    @asynccontextmanager
    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": "vskill-platform"},
                timeout=aiohttp.ClientTimeout(total=None),  # each call has its own limit
                trust_env=not is_loopback(self._api),  # honour proxy settings, but never for loopback
            )
        # `encoded`: the URL is sent exactly as it was built.
        sending = self._session.request(
            method, URL(url, encoded=True), headers=headers, data=form, allow_redirects=False
        )
        async with sending as response:
            yield response

    async def _parsed(self, response: "aiohttp.ClientResponse", type_: type[T], missing: Refused) -> T:
        if response.status != 200:
            self._raise_for(response, missing)
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > MAX_JSON:
                raise Refused("GitHub's response about this repository is too large.", "repo_too_large")
        try:
            return msgspec.json.decode(body, type=type_)
        except msgspec.MsgspecError as error:
            raise self.down("its response is invalid") from error

    async def _feed(
        self, response: "aiohttp.ClientResponse", feed: Callable[[bytes], Awaitable[None]], missing: Refused
    ) -> None:
        if response.status != 200:
            self._raise_for(response, missing)
        async for chunk in response.content.iter_chunked(64 * 1024):
            await feed(chunk)

    def _raise_for(self, response: "aiohttp.ClientResponse", missing: Refused) -> NoReturn:
        if response.status in _GONE:
            raise missing
        wait = find_whole_number(response.headers.get("retry-after"), highest=10**12)
        is_used_up = response.status == 403 and response.headers.get("x-ratelimit-remaining") == "0"
        if response.status == 429 or is_used_up or (response.status == 403 and wait is not None):
            raise self._used_up(self._next_try(response.headers, wait))
        if response.status in (401, 403):
            raise self.down("it refused our access")
        if response.status in _MOVED:
            raise _foreign_redirect()
        raise self.down(f"it responded with status {response.status}")

    def _used_up(self, until: datetime) -> Deferred:
        return Deferred("We could not reach GitHub (quota used up).", "GitHub (quota used up)", until, "github_quota")

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

    async def _note_quota(self, token: str | None, headers: Mapping[str, str]) -> None:
        limit, remaining = (find_whole_number(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining"))
        resets_at = _time(headers.get("x-ratelimit-reset"))
        if limit is not None and remaining is not None and resets_at is not None:
            resets_at = min(resets_at, self._clock() + LONGEST_QUOTA_WAIT)
            await self._quotas.note(token, Quota(limit, remaining, resets_at))
            left = [100 * quota.remaining / max(quota.limit, 1) for quota in self._quotas.all_known()]
            measure_percent(Watched.GITHUB_QUOTA_LEFT, max(left, default=0))

    def _moved_to(self, response: "aiohttp.ClientResponse") -> str:
        """The new address of a renamed repository: a path of the same API, nothing else."""
        target = urlsplit(urljoin(self._api_url, response.headers.get("location", "")))
        path = target.path.removeprefix(self._api.path)
        if (target.scheme, target.netloc) != (self._api.scheme, self._api.netloc) or not _PATH.fullmatch(path):
            raise _foreign_redirect()
        return path

    def _archive_address(self, response: "aiohttp.ClientResponse") -> str:
        host = "codeload.github.com" if self._api_url == GITHUB else self._api.netloc
        target = urlsplit(response.headers.get("location", ""))
        if (target.scheme, target.netloc) != (self._api.scheme, host):
            raise _foreign_redirect()
        if not _PATH.fullmatch(target.path) or not _QUERY.fullmatch(target.query):
            raise _foreign_redirect()
        return f"{self._api.scheme}://{host}{target.path}" + (f"?{target.query}" if target.query else "")


class GetJson(Protocol):
    async def __call__(self, path: str, type_: type[T], missing: Refused) -> T: ...


class RequestCache:
    """For one request to the platform: each question is asked once, however many callers need its answer."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self._asking: dict[Hashable, asyncio.Task[Any]] = {}

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        try:
            return await self.once(path, lambda: self._get_json(path, type_, Missing("not found")))
        except Missing:
            raise missing from None

    async def once(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        if question not in self._asking:
            self._asking[question] = asyncio.ensure_future(ask())
        answer: T = await asyncio.shield(self._asking[question])  # a cancelled caller does not cancel the others
        return answer

    async def cancel(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)


class Missing(Refused):
    """Replaced by each caller's own `missing`."""


def warnings_about(secrets: SecretValues) -> list[str]:
    return [] if secrets.all_github_tokens else [NO_TOKEN]


def api_path(*parts: str) -> str:
    """Each part is one segment, whatever it contains: no name can lead to another path."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _login_url(api_url: str, api: SplitResult) -> str:
    """A GitHub Enterprise, and a stub on loopback, have one host for both."""
    return "https://github.com" if api_url == GITHUB else f"{api.scheme}://{api.netloc}"


def _foreign_redirect() -> NeedsPerson:
    return NeedsPerson("GitHub redirected us to an address that we do not follow.", parked_by="source")


def _time(text: str | None) -> datetime | None:
    seconds = find_whole_number(text, highest=10**11)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
