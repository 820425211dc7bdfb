"""S36: a session ends when its holder signs out, and only the admin pages can sign one."""

import base64

import msgspec
import pytest

from local.config import read_config
from local.function_pool import function_environment
from local.template import read_template
from local.tokens import prepare_secrets
from shared.access.sessions import find_session, open_session
from shared.access.signing import hmac_of
from shared.errors import Unavailable
from shared.settings import load_settings
from shared.storage.secret_store import secrets_from
from tests.support.admin_forms import signed_in
from tests.support.memory import FixedSecrets, memory_env, within
from tests.support.route_calls import call

ENDPOINT, REGION = "http://127.0.0.1:1", "us-east-1"
ADMIN_PAGES = "AdminPages"


@pytest.fixture
def env():
    return memory_env()


@pytest.mark.requirement("S36")
async def test_the_cookie_of_a_signed_out_session_is_refused_from_then_on(env):
    cookie, csrf_token = await signed_in(env)
    env.clock.forward(seconds=1)
    other, _ = await signed_in(env)
    assert (await call(env, "POST /admin/sign-out", form={"csrf_token": csrf_token}, cookies=[cookie])).status == 303
    assert "Sign out" not in (await call(env, "GET /admin", cookies=[cookie])).text
    again = await call(env, "POST /admin/sign-out", form={"csrf_token": csrf_token}, cookies=[cookie])
    assert again.status == 401
    assert "Sign out" in (await call(env, "GET /admin", cookies=[other])).text  # its own session goes on


@pytest.mark.requirement("S36")
async def test_a_sign_out_is_remembered_until_the_session_would_have_ended_without_its_cookie(env):
    cookie, csrf_token = await signed_in(env)
    await call(env, "POST /admin/sign-out", form={"csrf_token": csrf_token}, cookies=[cookie])
    [(key, item)] = [(key, item) for key, item in env.kv.items.items() if key.pk.startswith("signed-out:")]
    assert cookie.partition("=")[2] not in f"{key}{item}"
    env.clock.forward(hours=7, minutes=59)
    assert "Sign out" not in (await call(env, "GET /admin", cookies=[cookie])).text
    assert item.attrs["expiresAt"] <= env.clock.seconds() + 120


@pytest.fixture
def platform(tmp_path):
    """The environment of every function of the platform on one machine, with its secrets prepared."""
    config = read_config({"LOCAL_DIR": str(tmp_path)})
    token = prepare_secrets(tmp_path, None)
    functions = read_template(config.template, ENDPOINT, REGION).functions
    return token, {name: function_environment(one, config, ENDPOINT, REGION) for name, one in functions.items()}


def env_of(environment):
    settings = load_settings(environment)
    env = memory_env()
    object.__setattr__(env, "secrets", secrets_from(settings, None))
    return env


def strings_in(value):
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return [text for part in parts for text in strings_in(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.requirement("S36")
async def test_with_all_that_another_function_can_load_no_admin_session_is_made(platform):
    token, environments = platform
    pages = env_of(environments.pop(ADMIN_PAGES))
    real = await within(pages, lambda: open_session(token, "192.0.2.1"))
    assert await within(pages, lambda: find_session(real)) is not None
    claims = real.partition(".")[0]
    for environment in environments.values():
        env = env_of(environment)
        with pytest.raises(Unavailable):
            await within(env, lambda env=env: open_session(token, "192.0.2.1"))
        loaded = msgspec.to_builtins(await env.secrets.get())
        known = [*strings_in(loaded), *environment.values()]
        for key in known:
            forged = f"{claims}.{hmac_of(key, f'session{chr(10)}{claims}'.encode())}"
            assert await within(pages, lambda forged=forged: find_session(forged)) is None


@pytest.mark.requirement("S36")
async def test_a_session_under_the_key_of_the_other_functions_is_none(env):
    cookie, _ = await signed_in(env)
    claims = cookie.partition("=")[2].partition(".")[0]
    assert base64.urlsafe_b64decode(claims)
    key = (await FixedSecrets().get()).signing_key
    forged = f"{claims}.{hmac_of(key, f'session{chr(10)}{claims}'.encode())}"
    assert "Sign out" not in (await call(env, "GET /admin", cookies=[f"session={forged}"])).text
