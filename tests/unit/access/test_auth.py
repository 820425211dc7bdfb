"""S15: who gets in, and who does not."""

import asyncio
import dataclasses
import hashlib

import pytest

from shared.access.auth import authorize, find_token, get_tokens, token_id
from shared.errors import Conflict, Forbidden, Unauthorized, Unavailable
from shared.moderation.maintenance import revoke_token
from shared.storage.kv import Key, Put
from shared.storage.secret_store import AdminToken, SecretValues
from tests.support.memory import ADMIN_TOKEN, MemoryKV, memory_env, within

IP = "192.0.2.1"
ADMIN, REVIEWER = f"{ADMIN_TOKEN}-admin", f"{ADMIN_TOKEN}-reviewer"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def with_tokens(env, *tokens):
    class Secrets:
        async def get(self):
            return SecretValues(signing_key="k" * 64, admin_tokens=list(tokens))

    return dataclasses.replace(env, secrets=Secrets())


@pytest.mark.parametrize(("token", "role"), [(ADMIN, "admin"), (ADMIN, "reviewer"), (REVIEWER, "reviewer")], ids=str)
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER  {} "])
async def test_a_token_of_the_role_or_a_higher_one_gets_in(env, token, role, form):
    known = await within(env, lambda: authorize(form.format(token), role, IP))
    assert known.role == token.rpartition("-")[2]


@pytest.mark.requirement("S15")
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        ADMIN,
        f"Basic {ADMIN}",
        f"Bearer {ADMIN}x",
        f"Bearer {ADMIN[:-1]}",
        f"Bearer {ADMIN.upper()}",
        f"Bearer {sha256(ADMIN)}",
        "Bearer \u0661",
        "Bearer \ud800",
        f"Bearer{ADMIN}",
    ],
)
async def test_every_other_token_is_refused(env, header):
    with pytest.raises(Unauthorized) as refusal:
        await within(env, lambda: authorize(header, "reviewer", IP))
    assert ADMIN_TOKEN not in str(refusal.value)


async def test_a_reviewer_is_no_admin(env):
    with pytest.raises(Forbidden, match="admin"):
        await within(env, lambda: authorize(f"Bearer {REVIEWER}", "admin", IP))


async def test_an_unknown_role_may_do_nothing(env):
    env = with_tokens(env, AdminToken("x", "owner", sha256("t")))
    with pytest.raises(Forbidden):
        await within(env, lambda: authorize("Bearer t", "reviewer", IP))


async def test_a_revoked_token_is_out_at_once(env):
    await within(env, lambda: authorize(f"Bearer {ADMIN}", "admin", IP))
    await env.kv.put(Put(Key(f"revoked:{sha256(ADMIN)}"), "{}"))
    with pytest.raises(Unauthorized):
        await within(env, lambda: authorize(f"Bearer {ADMIN}", "admin", IP))
    await within(env, lambda: authorize(f"Bearer {REVIEWER}", "reviewer", IP))


async def test_two_tokens_of_a_name_are_valid_at_once_and_revoked_one_by_one(env):
    env = with_tokens(env, AdminToken("ann", "admin", sha256("old")), AdminToken("ann", "admin", sha256("new")))
    for token in ("old", "new"):
        assert (await within(env, lambda t=token: authorize(f"Bearer {t}", "admin", IP))).name == "ann"
    await env.kv.put(Put(Key(f"revoked:{sha256('old')}"), "{}"))
    with pytest.raises(Unauthorized):
        await within(env, lambda: authorize("Bearer old", "admin", IP))
    assert (await within(env, lambda: authorize("Bearer new", "admin", IP))).name == "ann"


async def test_without_tokens_every_request_is_refused(env):
    with pytest.raises(Unauthorized):
        await within(with_tokens(env), lambda: authorize(f"Bearer {ADMIN}", "reviewer", IP))


async def test_when_the_secret_cannot_be_read_every_request_is_refused(env):
    class Down:
        async def get(self):
            raise Unavailable("down")

    with pytest.raises(Unavailable):
        await within(dataclasses.replace(env, secrets=Down()), lambda: authorize(f"Bearer {ADMIN}", "reviewer", IP))


async def test_when_revocations_cannot_be_read_every_request_is_refused():
    class DownKV(MemoryKV):
        async def load(self, key):
            raise Unavailable("down")

    with pytest.raises(Unavailable):
        await within(memory_env(DownKV), lambda: authorize(f"Bearer {ADMIN}", "admin", IP))


# --- revoking -------------------------------------------------------------------------------------------------------


ANNA, BEN, ROB = (
    AdminToken(name, role, sha256(name)) for name, role in [("anna", "admin"), ("ben", "admin"), ("rob", "reviewer")]
)


async def test_of_two_admins_who_revoke_each_other_at_once_one_stays(env):
    env = with_tokens(env, ANNA, BEN, ROB)
    outcomes = await asyncio.gather(
        within(env, lambda: revoke_token(token_id(BEN), ANNA, "left us")),
        within(env, lambda: revoke_token(token_id(ANNA), BEN, "left us")),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
    alive = [token for token, revoked in await within(env, get_tokens) if revoked is None and token.role == "admin"]
    assert len(alive) == 1
    for token in (ANNA, BEN):
        found = await within(env, lambda token=token: find_token(token.sha256))
        assert (found is not None) == (token in alive)


async def test_the_last_admin_and_by_mistake_oneself_cannot_be_revoked(env):
    env = with_tokens(env, ANNA, BEN, ROB)
    with pytest.raises(Forbidden):
        await within(env, lambda: revoke_token(token_id(ANNA), ROB, "left us"))
    with pytest.raises(Conflict) as mine:
        await within(env, lambda: revoke_token(token_id(ANNA), ANNA, "left us"))
    assert mine.value.code == "own_token"
    await within(env, lambda: revoke_token(token_id(ANNA), ANNA, "left us", even_mine=True))
    with pytest.raises(Conflict) as last:
        await within(env, lambda: revoke_token(token_id(BEN), BEN, "left us", even_mine=True))
    assert last.value.code == "last_admin"
    assert (await within(env, lambda: revoke_token(token_id(ROB), BEN, "left us"))).by == "ben"
