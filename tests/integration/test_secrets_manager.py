"""The secret as AWS keeps it."""

import json
import traceback
import uuid
from functools import partial

import pytest

from shared.errors import Unavailable
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.aws_sdk import AwsSdk
from shared.storage.secret_store import secrets_from
from tests.support.aws_resources import client, create_resources

CANARY = "canary-that-must-never-be-seen-in-an-error"


@pytest.fixture(params=[Aws, AwsSdk])
async def secret(moto_url, request):
    """Stores a text as the platform's secret, and the reader for it."""
    name = f"s{uuid.uuid4().hex}"
    settings = load_settings(create_resources(moto_url) | {"SECRET_ID": name})
    aws = request.param(settings)
    manager = client("secretsmanager", moto_url)

    def put(text):
        manager.create_secret(Name=name, SecretString=text)
        return secrets_from(settings, partial(aws.call, "secretsmanager"))

    put.nothing = lambda: secrets_from(settings, partial(aws.call, "secretsmanager"))
    put.change = lambda text: manager.put_secret_value(SecretId=name, SecretString=text)
    yield put
    await aws.close()


async def test_the_secret_is_read_once(secret):
    secrets = secret(json.dumps({"signingKey": "k" * 64, "adminTokens": []}))
    assert (await secrets.get()).signing_key == "k" * 64
    secret.change(json.dumps({"signingKey": "n" * 64}))
    assert (await secrets.get()).signing_key == "k" * 64  # for five minutes
    assert (await secret.nothing().get()).signing_key == "n" * 64  # another process


async def test_a_missing_secret_fails_closed(secret):
    with pytest.raises(Unavailable):
        await secret.nothing().get()


@pytest.mark.requirement("S20")
async def test_a_secret_of_another_form_fails_closed_and_is_not_shown(secret):
    with pytest.raises(Unavailable) as failure:
        await secret(json.dumps({"signingKey": [CANARY]})).get()
    assert CANARY not in "".join(traceback.format_exception(failure.value))
