"""Downloads count as installations: once per address, version and day."""

import asyncio
from datetime import timedelta

import pytest

from shared.errors import Unavailable
from shared.marketplace.downloads import try_to_count_download
from shared.marketplace.skill_store import find_skill, read_skills
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.route_calls import call

FULL = "uploads/anonymous/greeter"
HERE, THERE = "192.0.2.1", "192.0.2.2"
ROUTE = "GET /api/v1/skills/{proxy+}"
POST = "POST /api/v1/skills/{proxy+}"
JSON = {"content-type": "application/json"}


@pytest.fixture
async def market(env):
    await processed(env, await submitted(env, a_bundle("greeter")))
    return env


async def installs(env) -> int:
    return (await within(env, lambda: read_skills([FULL]))).counts[FULL].installs


async def download(env, address=HERE, method="GET", query="", **headers) -> None:
    path = f"{FULL}/versions/latest/download"
    asked = f"/api/v1/skills/x?{query}"
    got = await call(
        env, ROUTE.replace("GET", method), asked, headers=headers, method=method, source_ip=address, proxy=path
    )
    assert got.status in (200, 304)


async def post(env, path=f"{FULL}/installs", body=b"{}", address=HERE) -> None:
    got = await call(env, POST, headers=JSON, body=body, source_ip=address, proxy=path)
    assert got.json == {"ok": True}


@pytest.mark.requirement("S49")
async def test_a_download_counts_once_per_address_and_day_in_any_format(market):
    for address in (HERE, HERE, THERE, HERE):
        await download(market, address)
        await download(market, address, query="format=tgz")
    assert await installs(market) == 2
    market.clock.forward(days=1)
    await download(market)
    assert await installs(market) == 3


async def test_another_version_is_another_installation(market):
    skill = await within(market, lambda: find_skill(FULL))
    for version in ("1.0.0", "1.0.1", "1.0.0"):
        await within(market, lambda v=version: try_to_count_download(skill, v, HERE))
    assert await installs(market) == 2


@pytest.mark.requirement("S49")
async def test_ten_downloads_of_one_moment_count_once(market):
    skill = await within(market, lambda: find_skill(FULL))
    await asyncio.gather(*(within(market, lambda: try_to_count_download(skill, "1.0.0", HERE)) for _ in range(10)))
    assert await installs(market) == 1


async def test_who_only_looks_installs_nothing(market):
    await download(market, method="HEAD")
    await download(market, **{"x-skills-update-check": "1"})
    await download(market, **{"if-none-match": "*"})
    assert await installs(market) == 0


@pytest.mark.requirement("S49")
@pytest.mark.parametrize("body", [b"{}", b'{"version": "1.0.0"}'])
async def test_an_install_that_is_reported_is_not_added_to_a_download_of_the_same_address(market, body):
    await download(market)
    await post(market, body=body)
    assert await installs(market) == 1
    await post(market, body=body, address=THERE)
    assert await installs(market) == 2
    market.clock.forward(days=1)
    await post(market, body=body)
    assert await installs(market) == 3


async def test_installs_that_are_reported_together_are_not_added_either(market):
    await download(market)
    several = b'{"skills": [{"skillName": "greeter", "version": "1.0.0"}]}'
    await post(market, "installs", several)
    assert await installs(market) == 1
    await post(market, "installs", several, THERE)
    assert await installs(market) == 2


async def test_the_marker_names_no_address_and_expires(market):
    await download(market)
    [(key, item)] = [(key, item) for key, item in market.kv.items.items() if key.pk.startswith("download:")]
    assert HERE not in f"{key}{item.doc}{item.attrs}"
    left = timedelta(seconds=item.attrs["expiresAt"] - market.clock().timestamp())
    assert timedelta(days=1) < left <= timedelta(days=2)


async def test_a_download_that_cannot_be_counted_is_still_served():
    class Full(MemoryKV):
        is_full = False

        async def transact(self, build):
            if self.is_full:
                raise Unavailable("down")
            return await super().transact(build)

    env = memory_env(Full)
    await processed(env, await submitted(env, a_bundle("greeter")))
    env.kv.is_full = True
    await download(env)
    assert await installs(env) == 0
