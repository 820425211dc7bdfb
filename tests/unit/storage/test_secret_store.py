"""Secrets: read once, kept five minutes, and all sign-ins fail when they cannot be read."""

import json
import traceback

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shared.errors import Unavailable
from shared.storage.secret_store import AdminToken, CachedSecrets, secrets_from
from shared.timing import SECRET_TTL
from tests.support.memory import memory_env

CANARY = "canary-that-must-never-be-seen-in-an-error"
GOOD = {"signingKey": "k" * 64, "adminTokens": [{"name": "ann", "role": "admin", "sha256": "0" * 64}]}


def file_secrets(path):
    return secrets_from(memory_env(secrets_file=str(path)).settings, _no_wire)


async def _no_wire(operation, params):
    raise AssertionError("a platform with a secrets file asks nobody else")


async def test_secrets_come_from_the_file(tmp_path):
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps(GOOD | {"githubToken": "g", "webhookSecrets": {"p": "w"}, "later": 1}))
    values = await file_secrets(path).get()
    assert values.signing_key == "k" * 64
    assert values.admin_tokens == [AdminToken("ann", "admin", "0" * 64)]
    assert (values.github_token, values.webhook_secrets) == ("g", {"p": "w"})


async def test_on_aws_webhook_secrets_are_apart_and_those_in_the_earlier_secret_still_count():
    stored = {
        "main": json.dumps(GOOD | {"webhookSecrets": {"old": "o", "both": "earlier"}}),
        "webhooks": json.dumps({"webhookSecrets": {"new": "n", "both": "later"}}),
    }

    async def wire(operation, params):
        return {"SecretString": stored[params["SecretId"]]}

    settings = memory_env(secret_id="main", webhook_secret_id="webhooks").settings
    values = await secrets_from(settings, wire).get()
    assert values.webhook_secrets == {"old": "o", "both": "later", "new": "n"}


BROKEN = [
    CANARY,
    f'"{CANARY}"',
    "",
    "null",
    "{}",
    json.dumps({"signingKey": [CANARY]}),
    json.dumps({"signingKey": ""}),
    json.dumps({"signingKey": "short"}),
    json.dumps(GOOD | {"adminTokens": [{"name": CANARY}]}),
    json.dumps(GOOD | {"githubToken": {"token": CANARY}}),
]


@pytest.mark.requirement("S20")
@pytest.mark.parametrize("text", BROKEN)
async def test_secrets_of_another_form_fail_closed_and_are_not_shown(tmp_path, text):
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(Unavailable) as failure:
        await file_secrets(path).get()
    assert CANARY not in "".join(traceback.format_exception(failure.value))


@pytest.mark.requirement("S20")
async def test_a_file_that_is_not_text_fails_closed(tmp_path):
    path = tmp_path / "secrets.json"
    path.write_bytes(b"\xff\xfe" + CANARY.encode())
    with pytest.raises(Unavailable) as failure:
        await file_secrets(path).get()
    assert CANARY not in "".join(traceback.format_exception(failure.value))


async def test_a_missing_file_fails_closed(tmp_path):
    with pytest.raises(Unavailable):
        await file_secrets(tmp_path / "none.json").get()


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
        ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue"),
        ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSecretValue"),
    ],
)
async def test_a_secret_that_aws_does_not_give_fails_closed(error):
    async def wire(operation, params):
        raise error

    with pytest.raises(Unavailable):
        await secrets_from(memory_env().settings, wire).get()


class CountedRead:
    def __init__(self):
        self.reads = 0
        self.is_down = False

    async def __call__(self):
        self.reads += 1
        if self.is_down:
            raise Unavailable("down")
        return json.dumps(GOOD)


class Stopwatch:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def read():
    return CountedRead()


@pytest.fixture
def watch():
    return Stopwatch()


async def test_secrets_are_read_once_and_again_after_five_minutes(read, watch):
    secrets = CachedSecrets(read, watch)
    for _ in range(3):
        await secrets.get()
    watch.seconds += SECRET_TTL.total_seconds() - 1
    await secrets.get()
    assert read.reads == 1
    watch.seconds += 2
    await secrets.get()
    assert read.reads == 2


async def test_old_secrets_are_not_used_when_new_ones_cannot_be_read(read, watch):
    secrets = CachedSecrets(read, watch)
    await secrets.get()
    watch.seconds += SECRET_TTL.total_seconds() + 1
    read.is_down = True
    with pytest.raises(Unavailable):
        await secrets.get()


async def test_a_failed_read_is_not_remembered(read, watch):
    secrets = CachedSecrets(read, watch)
    read.is_down = True
    with pytest.raises(Unavailable):
        await secrets.get()
    read.is_down = False
    assert (await secrets.get()).signing_key == "k" * 64
