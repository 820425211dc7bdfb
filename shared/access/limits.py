"""Rate limits: a count per IP address, kind and time window, taken in one conditional write.

Checked before any other store read, so that a refused request costs one store request. Off unless RATE_LIMITS is set.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

from shared.access.signing import sign
from shared.db import get_kv, get_settings, now
from shared.errors import TooManyRequests, Unavailable
from shared.settings import Limit
from shared.storage.kv import Key


async def take_from_limit(kind: str, ip: str, amount: int = 1) -> Mapping[str, str]:
    """Counts one request, or so many skills, and returns the RateLimit headers. Raises TooManyRequests, and counts
    nothing, beyond the limit."""
    limit = get_settings().limits.get(kind)
    if limit is None:
        return {}
    key, reset = _window(kind, ip, limit)
    taken = await get_kv().take(key, limit.most, math.ceil(now().timestamp()) + reset, amount)
    headers = {
        "ratelimit-limit": str(limit.most),
        "ratelimit-remaining": str(limit.most - (limit.most if taken is None else taken)),
        "ratelimit-reset": str(reset),
    }
    if taken is None:
        raise _too_many(kind, limit, reset, headers)
    return headers


async def find_holder(ip: str | None) -> str | None:
    """The name under which an address holds its share of the queue: a keyed hash, so that a record does not reveal the
    address. None where limits are off."""
    if ip is None or not get_settings().limits:
        return None
    return (await sign("holder", network_of(ip)))[:32]


async def refuse_locked(kind: str, ip: str) -> None:
    """Raises TooManyRequests if the limit is reached, without counting this request."""
    limit = get_settings().limits.get(kind)
    if limit is None:
        return
    key, reset = _window(kind, ip, limit)
    read = await get_kv().get_counts([key])
    if read.failed:
        raise Unavailable("The limit of this address could not be read.")
    if read.found.get(key, {}).get("taken", 0) >= limit.most:
        raise _too_many(kind, limit, reset, {})


def network_of(ip: str) -> str:
    """IPv6 by /64: a client has a whole one, so single addresses do not identify clients."""
    address = ip_address(ip)
    if not isinstance(address, IPv6Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else f"{IPv6Address(int(address) >> 64 << 64)}/64"


def _window(kind: str, ip: str, limit: Limit) -> tuple[Key, int]:
    window = int(now().timestamp() // limit.window.total_seconds())
    return Key(f"limit:{kind}:{network_of(ip)}", str(window)), _seconds_to_next(limit)


def _seconds_to_next(limit: Limit) -> int:
    return math.ceil(limit.window.total_seconds() - now().timestamp() % limit.window.total_seconds())


def _too_many(kind: str, limit: Limit, reset: int, headers: Mapping[str, str]) -> TooManyRequests:
    minutes = round(limit.window / timedelta(minutes=1))
    what = "skills" if kind == "skills" else f"{kind} requests"
    message = f"Rate limit: {limit.most} {what} per {minutes} minutes from one address. Try again in {reset} s."
    return TooManyRequests(message, code="rate_limited", retry_after=reset, headers=headers)
