"""Sends webhooks. The name is resolved once, every address it has must be public, and the connection goes to one of
exactly these addresses: a name that changes its answer in between leads nowhere else. Redirects are not followed, and
no proxy of the machine is used, because it would resolve the name again."""

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from shared.errors import InvalidRequest, PlatformError
from shared.storage.public_address import is_loopback_address, is_public
from shared.timing import WEBHOOK_TIMEOUT

if TYPE_CHECKING:  # imported by the function that sends
    import aiohttp

LONGEST_URL = 500


class DeliveryFailed(PlatformError):
    """With a reason for the owner: never what the receiver wrote."""


class WebhookClient(Protocol):
    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Raises DeliveryFailed unless the receiver accepted it with 2xx in time."""
        ...


def read_target_url(url: str, allows_loopback: bool) -> str:
    """What an owner may set: https on a host. Where its name leads is checked when something is sent."""
    problem = _problem_of(url, allows_loopback)
    if problem:
        raise InvalidRequest(f"The address of a webhook {problem}.", code="invalid_webhook_url")
    return url


def _problem_of(url: str, allows_loopback: bool) -> str | None:
    if len(url) > LONGEST_URL or not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        return f"has at most {LONGEST_URL} printable ASCII characters without spaces"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "is not a valid URL"
    if parts.scheme != "https" and not (allows_loopback and parts.scheme == "http" and _is_local(host)):
        return "must begin with https://"
    if not host or "@" in parts.netloc or parts.fragment:
        return "must name a host, without a user name and without a fragment"
    return None


def _refuse_status(status: int) -> None:
    if 300 <= status < 400:
        raise DeliveryFailed(f"the receiver answered {status}; redirects are not followed")
    if not 200 <= status < 300:
        raise DeliveryFailed(f"the receiver answered {status}")


def _is_local(host: str) -> bool:
    return host == "localhost" or is_loopback_address(host)


class HttpWebhooks:
    def __init__(self, allows_loopback: bool) -> None:
        self._allows_loopback = allows_loopback

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        import aiohttp

        if problem := _problem_of(url, self._allows_loopback):
            raise DeliveryFailed(f"the address {problem}")
        try:
            async with asyncio.timeout(WEBHOOK_TIMEOUT.total_seconds()):
                status = await self._send(url, body, headers)
        except TimeoutError as error:
            seconds = f"{WEBHOOK_TIMEOUT.total_seconds():g}"
            raise DeliveryFailed(f"the receiver did not answer within {seconds} seconds") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: yarl refuses it, unlike urllib
            raise DeliveryFailed(f"the connection failed ({type(error).__name__})") from error
        _refuse_status(status)

    async def _send(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        import aiohttp
        from yarl import URL

        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = await self._resolve(host, port)
        connector = aiohttp.TCPConnector(resolver=_pinned(addresses), force_close=True, use_dns_cache=False)
        # A literal address goes past the resolver, so it is written as what was checked.
        is_literal = host in addresses
        target = URL(url, encoded=True)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
        ) as session:
            if not is_literal and aiohttp.helpers.is_ip_address(host):
                raise DeliveryFailed("the address is written in an unusual way")
            async with session.post(target, data=body, headers=dict(headers), allow_redirects=False) as response:
                return response.status

    async def _resolve(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise DeliveryFailed("the name of the host does not resolve") from error
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if not addresses or not all(map(self._is_allowed, addresses)):
            raise DeliveryFailed("the name of the host leads to an address that is not public")
        return addresses

    def _is_allowed(self, address: str) -> bool:
        return is_public(address) or (self._allows_loopback and is_loopback_address(address))


def _pinned(addresses: list[str]) -> "aiohttp.abc.AbstractResolver":
    from aiohttp.abc import AbstractResolver

    class PinnedResolver(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
            flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            return [
                {
                    "hostname": host,
                    "host": address,
                    "port": port,
                    "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                    "proto": 0,
                    "flags": flags,
                }
                for address in addresses
            ]

        async def close(self) -> None:
            pass

    return PinnedResolver()
