"""S21: how many requests one IP address may make."""

import dataclasses
from datetime import timedelta

import pytest

from shared.access.auth import authorize
from shared.access.limits import take_from_limit
from shared.errors import TooManyRequests, Unauthorized
from shared.settings import Limit
from tests.support.memory import ADMIN_TOKEN, within

HOUR = timedelta(hours=1)


@pytest.fixture
def limited(env):
    limits = {"submit": Limit(3, HOUR), "sign-in": Limit(2, HOUR)}
    return dataclasses.replace(env, settings=dataclasses.replace(env.settings, limits=limits))


async def take(env, ip="192.0.2.1", kind="submit"):
    return await within(env, lambda: take_from_limit(kind, ip))


@pytest.mark.requirement("S21")
async def test_the_headers_count_down_and_then_it_is_refused_until_the_window_ends(limited):
    left = [(await take(limited))["ratelimit-remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    with pytest.raises(TooManyRequests) as refusal:
        await take(limited)
    assert refusal.value.headers["ratelimit-limit"] == "3"
    limited.clock.forward(seconds=refusal.value.retry_after)
    assert (await take(limited))["ratelimit-remaining"] == "2"


@pytest.mark.requirement("S21")
async def test_addresses_and_kinds_are_counted_apart(limited):
    for ip in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
        for _ in range(3):
            await take(limited, ip)
    assert await take(limited, kind="discover") == {}, "a kind without a limit is not counted"


@pytest.mark.requirement("S21")
@pytest.mark.parametrize(
    ("first", "same"), [("2001:db8::1", "2001:db8::ffff:1"), ("192.0.2.9", "::ffff:192.0.2.9")], ids=["/64", "mapped"]
)
async def test_one_household_is_one_address(limited, first, same):
    for _ in range(3):
        await take(limited, first)
    with pytest.raises(TooManyRequests):
        await take(limited, same)
    await take(limited, "2001:db8:0:1::1")


@pytest.mark.requirement("S21")
async def test_without_limits_nothing_is_written(env):
    assert await take(env) == {}
    assert not env.kv.items


@pytest.mark.requirement("S15")
async def test_after_too_many_wrong_tokens_even_the_right_one_waits(limited):
    right, wrong = f"Bearer {ADMIN_TOKEN}-admin", "Bearer wrong"
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await within(limited, lambda: authorize(wrong, "reviewer", "192.0.2.1"))
    for token in (wrong, right):
        with pytest.raises(TooManyRequests):
            await within(limited, lambda token=token: authorize(token, "reviewer", "192.0.2.1"))
    assert await within(limited, lambda: authorize(right, "reviewer", "192.0.2.2"))
    limited.clock.forward(hours=1)
    assert await within(limited, lambda: authorize(right, "reviewer", "192.0.2.1"))


@pytest.mark.requirement("S15")
async def test_right_tokens_are_never_counted(limited):
    for _ in range(9):
        await within(limited, lambda: authorize(f"Bearer {ADMIN_TOKEN}-reviewer", "reviewer", "192.0.2.1"))
    assert not limited.kv.items
