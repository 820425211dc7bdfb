"""GitHub for one request of a client: each question is asked once, never answered from the workers' cache, and what
fails is an error of the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.errors import BadGateway, Deferred, NeedsPerson, Refused, Unprocessable
from shared.github.client import GitHub


@asynccontextmanager
async def for_client(github: GitHub) -> AsyncIterator[GitHub]:
    try:
        async with github.with_request_cache() as cached:
            yield cached
    except Refused as refusal:
        raise Unprocessable(str(refusal), refusal.code) from refusal
    except Deferred as deferred:
        raise BadGateway(str(deferred), deferred.code) from deferred
    except NeedsPerson as astray:
        raise BadGateway(str(astray)) from astray
