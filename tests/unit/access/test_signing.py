"""One HMAC for everything. What clients hold must outlive a deployment, so derived values are pinned here."""

import re
from pathlib import Path

import pytest

from shared.access.cursor import make_cursor, read_cursor
from shared.access.sessions import csrf_token_of, find_session
from shared.access.signing import is_same, sign
from shared.access.webhook_auth import signature_of
from tests.support.memory import memory_env, within

ROOT = Path(__file__).parents[3]
SUBMISSION = "sub_01jcv2m8f0r4k9x3w7n5t1q6hz"
POSITION, FILTER = "2026-01-02T03:04:05.678900Z#sub_0", "submissions ü"
CURSOR = "cFYBHRcc9SkbOrE917afuDIwMjYtMDEtMDJUMDM6MDQ6MDUuNjc4OTAwWiNzdWJfMA"
SESSION = (
    "eyJzaGEyNTYiOiI5ZTM3ZGE1YzEzOTgxNGRjMjU0OTUwZmQ3Y2UyNGI3ZGI4MGUzMzg4NmQ0YzNkOGZhMzEwMTBiYWU3MjQwZDYw"
    "IiwiZXhwaXJlc19hdCI6IjIwMjYtMDEtMDJUMTE6MDQ6MDUuNjc4OTAxWiJ9"
    ".6d4d267322865204c3609bf01fb75eba0c34f3c13cce131475d8433cee2f0b91"
)
CSRF_TOKEN = "db456a5fc91c79fff4d1b5b6505df7315fd43f2a5862385421d6062af7c9acf4"
UPLOAD_TOKEN = "66f06ae6ebf6c4b2c06744c733504a851679326b52e9c8cbcdf4ddfb4034b78e"
WEBHOOK_SIGNATURE = "2acd49820b5a0ca062dcda45cc9f5e25dec0ee3e3f01d923c9af8c0c229dc74d"


@pytest.fixture
def env():
    return memory_env()


async def test_a_cursor_in_flight_is_still_valid_after_a_deployment(env):
    assert await within(env, lambda: make_cursor(POSITION, FILTER)) == CURSOR
    assert await within(env, lambda: read_cursor(CURSOR, FILTER)) == POSITION


async def test_a_session_outlives_a_deployment(env):
    session = await within(env, lambda: find_session(SESSION))
    assert session is not None
    assert session.token.role == "admin"


async def test_tokens_of_forms_and_uploads_and_webhook_signatures_are_derived_as_before(env):
    assert await within(env, lambda: csrf_token_of("claims.signature")) == CSRF_TOKEN
    assert await within(env, lambda: sign("upload", SUBMISSION)) == UPLOAD_TOKEN
    assert signature_of("s" * 40, "POST /a", "1767323045", b"{}") == WEBHOOK_SIGNATURE


async def test_a_signature_for_one_purpose_is_not_valid_for_another(env):
    signatures = [await within(env, lambda p=purpose: sign(p, "a")) for purpose in ("session", "form", "upload")]
    assert len(set(signatures)) == 3


@pytest.mark.parametrize(
    ("given", "expected"), [("a", True), ("b", False), ("", False), ("ä", False), ("\ud800", False)]
)
def test_any_text_can_be_compared(given, expected):
    assert is_same("a", given) is expected


def test_no_other_module_has_an_hmac_of_its_own():
    own = re.compile(r"\bimport hmac\b|compare_digest")
    modules = [path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in modules if own.search(path.read_text())}
    assert found == {"shared/access/signing.py", "shared/storage/signature.py"}  # ours, and that of AWS
